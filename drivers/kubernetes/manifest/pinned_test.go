package manifest_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

// workloadOf is a Deployment with an image, whose pods are labelled app: NAME.
func workloadOf(name, image, spec string) string {
	return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: " + name + "}, spec: {selector: {matchLabels: {app: " + name + "}}, " +
		"template: {metadata: {labels: {app: " + name + "}}, spec: {containers: [{name: c, image: '" + image + "'}], " + spec + "}}}}\n"
}

func mounting(config string) string { return "volumes: [{name: v, configMap: {name: " + config + "}}]" }

func scalerOf(name, most string) string {
	return "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: " + name + "}, spec: {maxReplicas: " + most +
		", scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: " + name + "}}}\n"
}

func budgetOf(name, selected string) string {
	return "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: " + name + "}, spec: {minAvailable: 1, selector: {matchLabels: {app: " + selected + "}}}}\n"
}

// staying is the instance as a change to the manifests leaves it, with VDUs that stay.
func staying(before drivers.Source, vdus []string, manifests ...string) drivers.Source {
	after := became(before, before.Instance.Generation, manifests...)
	after.Pinned = map[string]drivers.Pinned{}
	for _, vdu := range vdus {
		after.Pinned[vdu] = drivers.Pinned{Package: before.Package}
	}
	return after
}

// madeOf are the objects and their content, but for what Jibe adds to every object.
func madeOf(t *testing.T, src drivers.Source) map[string]string {
	t.Helper()
	form, err := manifest.NewRenderer(nil).Render(src)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for key, u := range form.Objects {
		made[key] = fmt.Sprint(u.Object["spec"], u.Object["data"])
	}
	return made
}

func TestAVDUThatStaysHasTheObjectsOfItsOwnPackage(t *testing.T) {
	before := sample.Source("i1", "ns", strings.Join([]string{
		workloadOf("web", "web:1", mounting("web")), workloadOf("db", "db:1", mounting("db")), workloadOf("log", "log:1", mounting("shared")),
		sample.ConfigMap("web", "1"), sample.ConfigMap("db", "1"), sample.ConfigMap("shared", "same"), sample.ConfigMap("of-nobody-1", "1"),
		serviceOf("web", "{app: web}"), serviceOf("db", "{app: db}"), scalerOf("db", "3"), budgetOf("db", "db"),
	}, "---\n"), sample.Workloads("web", "db", "log"), nil)
	newer := []string{
		workloadOf("web", "web:2", mounting("web")), workloadOf("db", "db:2", mounting("db-2")), workloadOf("log", "log:1", mounting("shared")),
		sample.ConfigMap("web", "2"), sample.ConfigMap("db", "2"), sample.ConfigMap("db-2", "2"), sample.ConfigMap("shared", "same"),
		serviceOf("web", "{app: web}"), scalerOf("db", "9"),
	}
	after := staying(before, []string{"DB"}, newer...)
	was, full, is := madeOf(t, before), madeOf(t, became(before, "", newer...)), madeOf(t, after)
	want := maps.Clone(full)
	for key := range was {
		if strings.HasSuffix(key, "/db") { // workload, map, Service, autoscaler, budget
			want[key] = was[key]
		}
	}
	delete(want, "ConfigMap/ns/db-2") // only the other definition of db uses it
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("objects, -want +got:\n%s", diff)
	}

	digest := func(src drivers.Source) map[string]string {
		form, err := manifest.NewRenderer(nil).Render(src)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, g := range form.Desired.Groups {
			out[g.VDU] = g.Digest
		}
		return out
	}
	old, mixed, all := digest(before), digest(after), digest(became(before, "", newer...))
	for vdu, stays := range map[string]bool{"WEB": false, "DB": true, "LOG": true} {
		if (old[vdu] == mixed[vdu]) != stays {
			t.Errorf("%s is made of the same: %t, want %t", vdu, !stays, stays)
		}
	}
	if old["DB"] == all["DB"] || old["LOG"] != all["LOG"] || old["DB"] == old["LOG"] || old["DB"] == "" {
		t.Errorf("digests don't tell what changes: %v, %v", old, all)
	}
}

func TestAVDUThatStaysDoesSoInALaterGenerationToo(t *testing.T) {
	manifests := func(n string) []string {
		return []string{workloadOf("web", "web:"+n, ""), workloadOf("db", "db:"+n, mounting("db")), sample.ConfigMap("db", n)}
	}
	before := sample.Source("i1", "ns", strings.Join(manifests("1"), "---\n"), sample.Workloads("web", "db"), nil)
	before.Instance.Generation = "4"
	is := madeOf(t, staying(before, []string{"DB"}, manifests("2")...))
	if !strings.Contains(is["Deployment/ns/db-4"], "db:1") || !strings.Contains(is["Deployment/ns/web-4"], "web:2") || !strings.Contains(is["ConfigMap/ns/db-4"], "k:1") {
		t.Errorf("%v", is)
	}
}

func TestAMixtureThatCanNotBeIsRefusedByName(t *testing.T) {
	const remedy = "(vdu_params, update.vdus), or name none to change all"
	web, db := workloadOf("web", "web:1", ""), workloadOf("db", "db:1", "")
	newWeb, newDB := workloadOf("web", "web:2", ""), workloadOf("db", "db:2", "")
	both := "{apiVersion: v1, kind: Service, metadata: {name: all}, spec: {selector: {part: vnf}, ports: [{port: 80}]}}\n"
	part := func(m string) string {
		return strings.ReplaceAll(m, "template: {metadata: {labels: {", "template: {metadata: {labels: {part: vnf, ")
	}
	claimed := "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]"
	claim := func(size string) string {
		return "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: " + size + "}}}}\n"
	}
	for name, test := range map[string]struct {
		before, after []string
		says          string // nothing where it can be
	}{
		"nothing in common": {[]string{web, db}, []string{newWeb, newDB}, ""},
		"a map of both that changes": {
			[]string{workloadOf("web", "web:1", mounting("m")), workloadOf("db", "db:1", mounting("m")), sample.ConfigMap("m", "1")},
			[]string{workloadOf("web", "web:2", mounting("m")), workloadOf("db", "db:2", mounting("m")), sample.ConfigMap("m", "2")},
			"ConfigMap m concerns Deployment web too, and isn't the same in the two packages"},
		"a map of both that stays": {
			[]string{workloadOf("web", "web:1", mounting("m")), workloadOf("db", "db:1", mounting("m")), sample.ConfigMap("m", "1")},
			[]string{workloadOf("web", "web:2", mounting("m")), workloadOf("db", "db:2", mounting("m")), sample.ConfigMap("m", "1")}, ""},
		"a map of one that the other begins to use": {
			[]string{web, workloadOf("db", "db:1", mounting("m")), sample.ConfigMap("m", "1")},
			[]string{workloadOf("web", "web:2", mounting("m")), workloadOf("db", "db:2", mounting("m")), sample.ConfigMap("m", "2")},
			"ConfigMap m concerns Deployment web too"},
		"a claim of both that changes": {
			[]string{workloadOf("web", "web:1", claimed), workloadOf("db", "db:1", claimed), claim("1Gi")},
			[]string{workloadOf("web", "web:2", claimed), workloadOf("db", "db:2", claimed), claim("2Gi")},
			"PersistentVolumeClaim data concerns Deployment web too"},
		"a Service of both that changes": {
			[]string{part(web), part(db), both}, []string{part(newWeb), part(newDB), strings.Replace(both, "80", "81", 1)},
			"Service all concerns Deployment web too"},
		"a Service of both that stays": {[]string{part(web), part(db), both}, []string{part(newWeb), part(newDB), both}, ""},
		"a Service of both that goes": {[]string{part(web), part(db), both}, []string{part(newWeb), part(newDB)},
			"Service all concerns Deployment web too"},
		"a Service that begins to select it": {[]string{web, db, serviceOf("s", "{app: web}")}, []string{newWeb, newDB, serviceOf("s", "{app: db}")},
			"Service s of the new package would concern it, and is another or none in the package that it stays with"},
		"its workload has another name now": {[]string{web, db}, []string{newWeb, workloadOf("database", "db:2", "")},
			"each of the two packages must have one workload called db, and they have 1 and 0"},
	} {
		t.Run(name, func(t *testing.T) {
			before := sample.Source("i1", "ns", strings.Join(test.before, "---\n"), sample.Workloads("web", "db"), nil)
			_, err := manifest.NewRenderer(nil).Render(staying(before, []string{"DB"}, test.after...))
			switch {
			case test.says == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.says == "":
			case err == nil || !strings.Contains(err.Error(), "vdus.DB: VDU DB can't stay with its package while others change: "+test.says) || !strings.Contains(err.Error(), remedy):
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}

func TestAVDUThatNoVNFDHasCanNotStay(t *testing.T) {
	before := sample.Source("i1", "ns", workloadOf("web", "web:1", ""), sample.Workloads("web"), nil)
	_, err := manifest.NewRenderer(nil).Render(staying(before, []string{"nobody"}, workloadOf("web", "web:2", "")))
	if err == nil || !strings.Contains(err.Error(), "vdus.nobody") || !strings.Contains(err.Error(), "has no such VDU") {
		t.Error(err)
	}
	if _, err := manifest.NewRenderer(nil).Render(staying(before, []string{"WEB"}, workloadOf("web", "web:2", ""))); err != nil {
		t.Error(err)
	}
}
