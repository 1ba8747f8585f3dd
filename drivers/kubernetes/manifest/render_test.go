package manifest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// Each golden file has: "intent" (params, levels, vdus, generation, state, and the paths of
// container updates), the package's files, those of each container update's package
// under "update-1/" and so on, and the result.
func TestRenderMakesTheseObjects(t *testing.T) {
	paths, err := filepath.Glob("testdata/render/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden files", err)
	}
	digests := regexp.MustCompile(`(vnf.jibe.dev/(?:digest|mould|config): ).*`)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var intent struct {
				Params     map[string]any
				Levels     map[string]int
				VDUs       []string
				Generation string
				State      string
				Updates    [][]string
			}
			files, updates := fstest.MapFS{}, map[string]fstest.MapFS{}
			kept := archive.Files[:0:0]
			for _, f := range archive.Files {
				switch f.Name {
				case "intent":
					if err := yaml.UnmarshalStrict(f.Data, &intent); err != nil {
						t.Fatal(err)
					}
				case "result":
					continue
				default:
					into, name := files, f.Name
					if update, rest, ok := strings.Cut(f.Name, "/"); ok && strings.HasPrefix(update, "update-") {
						if updates[update] == nil {
							updates[update] = fstest.MapFS{}
						}
						into, name = updates[update], rest
					}
					into[name] = &fstest.MapFile{Data: f.Data}
				}
				kept = append(kept, f)
			}
			src := sample.Packaged("i1", "", files, sample.Workloads(intent.VDUs...), intent.Levels)
			src.Instance.Params, src.Instance.Generation, src.Instance.State = intent.Params, intent.Generation, intent.State
			for i, paths := range intent.Updates {
				src = sample.Updated(src, updates[fmt.Sprintf("update-%d", i+1)], paths...)
			}
			d := manifest.NewRenderer(nil)
			got := ""
			made, err := d.Render(src)
			var refused *drivers.RefusedError
			switch {
			case errors.As(err, &refused):
				got = "refused: " + refused.Error() + "\n"
			case err != nil:
				t.Fatal(err)
			default:
				for _, g := range made.Desired.Groups {
					got += fmt.Sprintf("# %s: %d of %s", g.VDU, g.Count, g.Owner)
					if g.Free {
						got += ", free"
					}
					got += "\n"
				}
				got += digests.ReplaceAllString(inYAML(t, made), "${1}…")
			}
			archive.Files = append(kept, txtar.File{Name: "result", Data: []byte(got)})
			kit.Golden(t, path, txtar.Format(archive))
		})
	}
}

func TestDigestHidesSecretsBehindTheKey(t *testing.T) {
	src := sample.Source("i1", "ns", "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {pin: '1234'}}", sample.Workloads(), nil)
	digest := func(key string) string {
		want, err := manifest.NewRenderer([]byte(key)).Render(src)
		if err != nil {
			t.Fatal(err)
		}
		return want.Desired.Objects[0].Digest
	}
	if digest("one") == digest("two") {
		t.Error("the digest doesn't depend on the key")
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(sample.FrontAndBack))
	f.Add([]byte("kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("--- \n---\n{}"))
	f.Add([]byte(sample.EveryKind))
	f.Add([]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: [b]}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {volumes: {configMap: {name: a}}}}"))
	f.Add([]byte("{apiVersion: v1, kind: ConfigMapList, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: a}, items: 1}"))
	d := manifest.NewRenderer(nil)
	f.Fuzz(func(t *testing.T, manifest []byte) {
		src := sample.Source("i1", "ns", string(manifest), sample.Workloads("front"), nil)
		src.Package.Tree = ""
		want, err := d.Render(src)
		var refused *drivers.RefusedError
		if err != nil && !errors.As(err, &refused) {
			t.Fatalf("%T: %v", err, err)
		}
		again, err2 := d.Render(src)
		if (err == nil) != (err2 == nil) || err == nil && !cmp.Equal(want.Desired, again.Desired) {
			t.Fatal("rendered twice, made two things")
		}
		if later, err3 := d.Render(sample.OfGeneration(src, "1")); err3 != nil && !errors.As(err3, &refused) {
			t.Fatalf("%T: %v", err3, err3)
		} else if err == nil && err3 == nil && len(later.Desired.Objects) != len(want.Desired.Objects) {
			t.Fatal("a later generation has other objects")
		}
	})
}

func BenchmarkRender(b *testing.B) {
	d := manifest.NewRenderer(nil).For("a1b2c3d4e5f60718")
	src := sample.Source("i1", "ns", sample.FrontAndBack, sample.TwoVDUs(), nil)
	for b.Loop() {
		if _, err := d.Render(src); err != nil {
			b.Fatal(err)
		}
	}
}

// inYAML is the rendered objects as a person would write them.
func inYAML(t testing.TB, made *manifest.Form) string {
	t.Helper()
	out := ""
	for _, x := range made.Desired.Objects {
		content, err := yaml.Marshal(made.Objects[x.Key].Object)
		if err != nil {
			t.Fatal(err)
		}
		out += "--- # " + x.Key + "\n" + string(content)
	}
	return out
}

func rendered(t testing.TB, src drivers.Source) *manifest.Form {
	t.Helper()
	made, err := manifest.NewRenderer(nil).Render(src)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// annotations are those of the name that rendered objects have, by key: on their pods,
// else on themselves.
func annotations(t testing.TB, src drivers.Source, name string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for key, u := range rendered(t, src).Objects {
		value, _, _ := unstructured.NestedString(manifest.Template(u, u.GroupVersionKind().GroupKind()), "metadata", "annotations", name)
		if value == "" {
			value = u.GetAnnotations()[name]
		}
		if value != "" {
			all[key] = value
		}
	}
	return all
}
