package manifest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// spread is a package with workloads of two VDUs, an autoscaler of each, and a map.
func spread(vdus ...string) drivers.Source {
	workload := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.ReplaceAll(`apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: a, image: img}]}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: NAME}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}}
`, "NAME", name))}
	}
	return drivers.Source{
		Instance: &desired.Instance{ID: "spread", State: desired.Instantiated, Flavour: "simple"},
		Package: &vnfd.Package{Tree: "t", VNFD: sample.Workloads("one", "two", "three"), Files: fstest.MapFS{
			"Files/kubernetes/one.yaml": workload("one"), "Files/kubernetes/two.yaml": workload("two"),
			"Files/kubernetes/map.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\n")},
		}},
		VDUs: vdus,
	}
}

func TestOnlyTheVDUsThatRunHereAreRendered(t *testing.T) {
	d := manifest.NewRenderer(nil)
	src := spread("ONE")
	keys := func(src drivers.Source) (keys []string) {
		want, err := d.Render(src)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range want.Desired.Objects {
			keys = append(keys, x.Key)
		}
		slices.Sort(keys)
		return keys
	}
	want := []string{"ConfigMap/default/shared", "Deployment/default/one", "HorizontalPodAutoscaler/default/one"}
	if got := keys(src); !slices.Equal(got, want) {
		t.Errorf("rendered %q, want %q", got, want)
	}
	src.VDUs = []string{"TWO"}
	if got := keys(src); !slices.Contains(got, "Deployment/default/two") || slices.Contains(got, "Deployment/default/one") {
		t.Errorf("the same instance with another VDU here is rendered as %q", got)
	}
}

func TestAVDUThatIsPlacedHereMustHaveAWorkload(t *testing.T) {
	_, err := manifest.NewRenderer(nil).Render(spread("ONE", "THREE"))
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || refused.Field != "placement" || !strings.Contains(refused.Reason, "THREE") {
		t.Errorf("got %v, want a refusal of VDU THREE", err)
	}
}
