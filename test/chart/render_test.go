package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

func TestHelmLintFindsNothing(t *testing.T) {
	t.Parallel()
	bin, env := helm(t), environment(t)
	for _, values := range valueFiles(t) {
		if out, err := run(t.Context(), env, "", bin, "lint", "--strict", chartDir(), "--values", values); err != nil || strings.Contains(out, "[WARNING]") {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
	}
}

// helm 3 is what many have still: nothing that it renders may differ.
func TestHelm3RendersTheSame(t *testing.T) {
	t.Parallel()
	bin, env := helm(t), environment(t)
	if out, err := run(t.Context(), env, "", bin+"3", "version", "--short"); err != nil || !strings.HasPrefix(out, "v3.") {
		t.Fatalf("helm 3 says %q, %v", out, err)
	}
	for _, values := range valueFiles(t) {
		if out, err := run(t.Context(), env, "", bin+"3", "lint", "--strict", chartDir(), "--values", values); err != nil || strings.Contains(out, "[WARNING]") {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
		by := func(bin string) map[string]string {
			out, err := run(t.Context(), env, "", bin, "template", "jibe", chartDir(), "--namespace", "jibe-system", "--values", values,
				"--kube-version", "1.36.0") // helm 3 built from source takes the oldest for granted
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]string{}
			for _, obj := range objects(t, out) {
				text, err := yaml.Marshal(obj.Object)
				if err != nil {
					t.Fatal(err)
				}
				all[obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName()] = string(random.ReplaceAll(text, []byte("$1: (made at the installation)")))
			}
			return all
		}
		if differ := cmp.Diff(by(bin), by(bin+"3")); differ != "" {
			t.Errorf("%s (-helm 4, +helm 3):\n%s", values, differ)
		}
	}
}

func TestTheNotesLeadToThePageAndToTheDashboardsThatThereAre(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set        string
		has, hasnt []string
	}{
		"as it comes":       {"replicas=1", []string{"jibe ui ", "git clone https://admin:$JIBE_TOKEN@localhost:9890/git/desired.git", "test jibe --logs", "Nothing is scraped"}, []string{"Jibe / Fleet", "<no value>"}},
		"with dashboards":   {"metrics.dashboards.enabled=true", []string{`begin with "Jibe / Fleet"`}, []string{"Nothing is scraped"}},
		"with alerts alone": {"metrics.prometheusRule.enabled=true", nil, []string{"Jibe / Fleet", "Nothing is scraped"}},
		"without a page":    {"ui.enabled=false", []string{"JIBE_TOKEN"}, []string{"jibe ui"}},
		"with hooks":        {"hooks.allow={core}", []string{"only in projects that have a service account"}, nil},
		"hooks elsewhere":   {"hooks.allow={core},vim.inCluster=false", nil, []string{"only in projects that have a service account"}},
		"kept by nobody":    {"persistence.enabled=false", []string{"all is lost with the pod"}, nil},
	} {
		out, err := run(t.Context(), environment(t), "", helm(t), "install", "jibe", chartDir(), "--namespace", "jibe-system", "--dry-run=client", "--set", c.set)
		if err != nil {
			t.Fatal(err)
		}
		_, notes, _ := strings.Cut(out, "\nNOTES:\n")
		for _, text := range c.has {
			if !strings.Contains(notes, text) {
				t.Errorf("%s: no %q in\n%s", name, text, notes)
			}
		}
		for _, text := range c.hasnt {
			if strings.Contains(notes, text) {
				t.Errorf("%s: %q in\n%s", name, text, notes)
			}
		}
	}
}

// valueFiles are the cases, each a file of values.
func valueFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "values", "*.yaml"))
	if err != nil || len(files) < 12 {
		t.Fatalf("there are %d files of values, %v", len(files), err)
	}
	return files
}

// render is what helm makes of the values, object by object.
func render(t *testing.T, namespace, values string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	out, err := run(t.Context(), environment(t), "", append([]string{helm(t), "template", "jibe", chartDir(), "--namespace", namespace, "--values", values}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, out)
}

func objects(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		obj := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(doc), &obj); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if len(obj) > 0 {
			all = append(all, &unstructured.Unstructured{Object: obj})
		}
	}
	return all
}

// random is what differs from one render to the next.
var random = regexp.MustCompile(`(?m)^(  (?:admin-token|metrics-token|tokens\.yaml|ca\.crt|tls\.crt|tls\.key)): \S{20,}$`)

// rendered is one object of a rendering, as a golden file has it.
type rendered struct{ key, text string }

// goldenOf are the objects in the order in which helm has them.
func goldenOf(t *testing.T, list []*unstructured.Unstructured) (all []rendered) {
	t.Helper()
	for _, obj := range list {
		// What is in dashboards/ and rules/ has a test of its own.
		if _, dashboard := obj.GetLabels()["grafana_dashboard"]; dashboard || obj.GetKind() == "PrometheusRule" {
			continue
		}
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}

		// One file of values calls the release otherwise: its objects are the same.
		name := strings.ReplaceAll(obj.GetName(), "vnfm", "jibe")
		if namespace := obj.GetNamespace(); namespace != "" {
			name = namespace + "/" + name
		}
		all = append(all, rendered{obj.GetKind() + " " + name, string(random.ReplaceAll(text, []byte("$1: (made at the installation)")))})
	}

	return all
}

// find is the index of an object, -1 where there is none.
func find(list []rendered, key string) int {
	return slices.IndexFunc(list, func(r rendered) bool { return r.key == key })
}

// hunk matches what names a part of a difference, which moves with all that comes before.
var hunk = regexp.MustCompile(`(?m)^@@ .*$`)

// changes tells what a rendering makes otherwise than the defaults: what is left out, what differs, and what is new.
func changes(defaults, other []rendered) []byte {
	var out bytes.Buffer

	for _, was := range defaults {
		i := find(other, was.key)
		switch {
		case i < 0:
			fmt.Fprintf(&out, "=== without %s\n", was.key)
		case other[i].text != was.text:
			text := diff.Diff("defaults", []byte(was.text), "values", []byte(other[i].text))
			_, text, _ = bytes.Cut(text, []byte("+++ values\n")) // behind the names of both
			fmt.Fprintf(&out, "=== %s\n%s", was.key, hunk.ReplaceAll(text, []byte("@@")))
		}
	}
	for _, is := range other {
		if find(defaults, is.key) < 0 {
			fmt.Fprintf(&out, "=== with %s\n%s", is.key, is.text)
		}
	}

	return out.Bytes()
}

// The golden file of the defaults has all that helm renders, each other one what its values change of that. Cases
// without a golden file have assertions.
func TestEachFileOfValuesRendersWhatItIsMeantTo(t *testing.T) {
	t.Parallel()
	defaults := goldenOf(t, render(t, "jibe-system", filepath.Join("testdata", "values", "defaults.yaml")))
	asserted := assertions(t)

	for _, values := range valueFiles(t) {
		name := strings.TrimSuffix(filepath.Base(values), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "defaults" {
				var out bytes.Buffer
				for _, r := range defaults {
					fmt.Fprintf(&out, "---\n%s", r.text)
				}
				kit.Golden(t, filepath.Join("testdata", "golden", "defaults.yaml"), out.Bytes())
				return
			}

			list := goldenOf(t, render(t, "jibe-system", values))
			if of, ok := asserted[name]; ok {
				of.check(t, defaults, list)
			} else {
				kit.Golden(t, filepath.Join("testdata", "golden", name+".diff"), changes(defaults, list))
			}
		})
	}
}

// The schema alone, without helm: of the files of values, and of a value that is misspelt.
func TestTheSchemaTakesEachFileOfValues(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir(), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	// valid checks values with those of the chart, as helm does.
	valid := func(values []byte) error {
		var all, own map[string]any
		defaults, err := os.ReadFile(filepath.Join(chartDir(), "values.yaml"))
		if err := errors.Join(err, yaml.Unmarshal(defaults, &all), yaml.Unmarshal(values, &own)); err != nil {
			t.Fatal(err)
		}
		override(all, own)
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(instance)
	}

	for _, file := range valueFiles(t) {
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(values); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, values := range []string{"replica: 1", "tls: {mode: sometimes}", "git: {credentials: {configMap: forge, key: c}}", "runAsUser: 0"} {
		if valid([]byte(values)) == nil {
			t.Errorf("it takes %s", values)
		}
	}
}

// override gives values those of others, name by name.
func override(values, others map[string]any) {
	for name, other := range others {
		below, isMap := values[name].(map[string]any)
		if more, ok := other.(map[string]any); ok && isMap {
			override(below, more)
			continue
		}
		values[name] = other
	}
}

func TestWhatCannotBeIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	bin, env := helm(t), environment(t)
	for _, test := range []struct {
		set  []string
		want string
	}{
		{[]string{"replicas=2"}, "name a Redis in store.url and a git server in desired.remote"},
		{[]string{"replicas=2", "store.url=redis://redis:6379/0", "desired.remote=https://git.example.org/vnfs.git"}, "name the Secret that has it in identity.existingSecret"},
		{[]string{"replicas=2", "store.url=redis://redis:6379/0", "desired.remote=https://git.example.org/vnfs.git", "identity.existingSecret=key", "persistence.existingClaim=one"}, "a volume of its own"},
		{[]string{"replicas=2", "store.url=redis://redis:6379/0", "desired.remote=https://git.example.org/vnfs.git", "identity.existingSecret=key", "hooks.unconfined=true", "hooks.allow={core}"}, "must be confined"},
		{[]string{"replicas=2", "store.url=redis://redis:6379/0", "desired.remote=https://git.example.org/vnfs.git", "identity.existingSecret=key", "drainSeconds=60"}, "give less than terminationGracePeriodSeconds"},
		{[]string{"replicas=-1"}, "/replicas"},
		{[]string{"git.sshKey.secret=forge", "git.sshKey.key=key"}, "git.sshKey and git.knownHosts go together"},
		{[]string{"git.credentials.configMap=forge", "git.credentials.key=c"}, "/git/credentials"}, // it is a secret
		{[]string{"tests.packages={3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b01}"}, "/tests/packages"},     // there are two
		{[]string{"replica=1"}, "replica"}, // no such value
		{[]string{"tls.mode=sometimes"}, "/tls/mode"},
		{[]string{"tls.mode=existingSecret"}, "tls.existingSecret: name the Secret"},
		{[]string{"tls.mode=certManager"}, "tls.certManager.issuerRef.name: name the Issuer"},
		{[]string{"namespaces.names=[]"}, "namespaces.names: name the namespaces in which VNFs may be"},
		{[]string{"namespaces.names={jibe-system}"}, "is the namespace of Jibe itself"},
		{[]string{"namespaces.names={Not A Name}"}, "/namespaces/names/0"},
		{[]string{"serviceAccount.create=false"}, "serviceAccount.name: name the service account"},
		{[]string{"httpRoute.enabled=true"}, "httpRoute.parentRefs: name the Gateway"},
		{[]string{"desired.remote=https://git.example.org/d.git", `desired.seed.peers\.yaml=x`}, "desired.seed is for a repository on the volume"},
		{[]string{`desired.seed.instances/a/vnf\.yaml=x`}, "'instances/a/vnf.yaml' does not match"},
		{[]string{"desired.poll=often"}, "/desired/poll"},
		{[]string{"desired.pushInterval=6"}, "/desired/pushInterval"},
		{[]string{"desired.pushInterval=10s"}, "desired.pushInterval is for a forge"},
		{[]string{"desired.forge.token.secret=forge", "desired.forge.token.key=token"}, "desired.forge.token is for a forge"},
		{[]string{"desired.remote=https://git.example.org/d.git", "desired.forge.kind=gitea"}, "the forge is told nothing without a token"},
		{[]string{"desired.forge.kind=bitbucket"}, "/desired/forge/kind"},
		{[]string{"extraArgs={workers}"}, "/extraArgs/0"},
		{[]string{"persistence.size=large"}, "/persistence/size"},
		{[]string{"persistence.accessModes={}"}, "/persistence/accessModes"},
		{[]string{"image.digest=latest"}, "/image/digest"},
		{[]string{"image.pullPolicy=Sometimes"}, "/image/pullPolicy"},
		{[]string{"runAsUser=0"}, "/runAsUser"},
		{[]string{"api.baseURL=jibe.example.org"}, "/api/baseURL"},
		{[]string{"rbac.impersonate[0].name=core"}, "/rbac/impersonate/0"},
		{[]string{"service.port=70000"}, "/service/port"},
		{[]string{"vim.tokenSeconds=60"}, "/vim/tokenSeconds"},
		{[]string{"desired.requireSignedPush=true"}, "desired.requireSignedPush: name the file of trusted keys in desired.verify"},
		{[]string{"packages.requireSignatures=true"}, "packages.requireSignatures: name the file of certificates in packages.trust"},
		{[]string{"identity.kms.ca.secret=vault", "identity.kms.ca.key=ca"}, "identity.kms.url: name the key that keeps Jibe's own"},
		{[]string{"tracing.headers.secret=c", "tracing.headers.key=h"}, "tracing.endpoint: name the collector"},
		{[]string{"tracing.headers.configMap=c", "tracing.headers.key=h"}, "/tracing/headers"}, // it is a secret
		{[]string{"tracing.ratio=0"}, "/tracing/ratio"},
		{[]string{"auth.oidc.ca.secret=noc"}, "/auth/oidc/ca"}, // which key of it?
		{[]string{"auth.oidc.ca.secret=noc", "auth.oidc.ca.configMap=noc", "auth.oidc.ca.key=ca"}, "/auth/oidc/ca"},
		{[]string{"operations.timeouts.HEEL=2m"}, "HEEL"},
		{[]string{"operations.timeout=soon"}, "/operations/timeout"},
		{[]string{"egress.deny={everybody}"}, "/egress/deny/0"},
		{[]string{"hooks.ports={many}"}, "/hooks/ports/0"},
	} {
		t.Run(strings.Join(test.set, " "), func(t *testing.T) {
			t.Parallel()
			args := []string{bin, "template", "jibe", chartDir(), "--namespace", "jibe-system"}
			for _, set := range test.set {
				flag := "--set"
				if strings.HasSuffix(set, "=[]") {
					flag = "--set-json" // the other has no empty list
				}
				args = append(args, flag, set)
			}
			out, err := run(t.Context(), env, "", args...)
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), ".", "/"), strings.ReplaceAll(test.want, ".", "/")) {
				t.Errorf("%v, want %s\n%.200s", err, test.want, out)
			}
		})
	}
}

// The schema must know all values, and no others: without that, a value that is misspelt is
// passed over in silence.
func TestTheSchemaKnowsEachValueAndNoOther(t *testing.T) {
	read := func(name string, into any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(chartDir(), name))
		if err == nil {
			err = yaml.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var values, schema map[string]any
	read("values.yaml", &values)
	read("values.schema.json", &schema)
	var compare func(where string, values, schema map[string]any)
	compare = func(where string, values, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for name, is := range values {
			says, ok := properties[name].(map[string]any)
			if !ok {
				t.Errorf("%s%s isn't in values.schema.json", where, name)
			} else if below, ok := is.(map[string]any); ok && len(below) > 0 && says["properties"] != nil {
				compare(where+name+".", below, says)
			}
		}
		for name := range properties {
			if _, ok := values[name]; !ok && where+name != "resources.claims" {
				t.Errorf("%s%s isn't in values.yaml", where, name)
			}
		}
	}
	compare("", values, schema)
}

func TestEachDashboardIsAConfigMapAndEachRuleIsInTheRules(t *testing.T) {
	t.Parallel()
	dashboards, err := filepath.Glob(filepath.Join(chartDir(), "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Glob(filepath.Join(chartDir(), "rules", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	maps := map[string]string{}
	for _, obj := range render(t, "jibe-system", filepath.Join("testdata", "values", "monitoring.yaml")) {
		switch {
		case obj.GetKind() == "PrometheusRule":
			if obj.GetLabels()["release"] != "prometheus" {
				t.Errorf("the rules have the labels %v", obj.GetLabels())
			}
			groups, _, _ := unstructured.NestedSlice(obj.Object, "spec", "groups")
			for _, g := range groups {
				names = append(names, g.(map[string]any)["name"].(string))
			}
		case obj.GetKind() == "ConfigMap" && obj.GetLabels()["grafana_dashboard"] == "1":
			data, _, _ := unstructured.NestedStringMap(obj.Object, "data")
			for name, text := range data {
				maps[name] = text
			}
			if folder := obj.GetAnnotations()["grafana_folder"]; folder != "Jibe" {
				t.Errorf("%s is in folder %q", obj.GetName(), folder)
			}
		}
	}
	if len(maps) != len(dashboards) {
		t.Errorf("there are %d dashboards, and %d ConfigMaps", len(dashboards), len(maps))
	}
	for _, file := range dashboards {
		var want, got any
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(maps[filepath.Base(file)]), &got); err != nil || fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("the ConfigMap of %s has something else: %v", filepath.Base(file), err)
		}
	}
	for _, file := range rules {
		var in struct{ Groups []struct{ Name string } }
		text, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, &in)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range in.Groups {
			if !slices.Contains(names, g.Name) {
				t.Errorf("%s: the group %s isn't among %v", filepath.Base(file), g.Name, names)
			}
		}
	}
}

// foreign are kinds of others, which the control plane doesn't know.
var foreign = []string{"Certificate", "HTTPRoute", "PrometheusRule", "ServiceMonitor"}

func TestAnAPIServerTakesWhatIsRendered(t *testing.T) {
	t.Parallel()
	kubeconfig := kubeenv.Kubeconfig(t)
	namespace := kubeenv.Namespace(t, kubeconfig)
	dynamicClient := clientOf(t, kubeconfig)
	for _, values := range valueFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(values), ".yaml"), func(t *testing.T) {
			// The namespaces of VNFs, and those of accounts, aren't there: what goes into them is sent to the test's own.
			for _, obj := range render(t, namespace, values) {
				if slices.Contains(foreign, obj.GetKind()) {
					continue
				}
				if obj.GetNamespace() != "" {
					obj.SetNamespace(namespace)
				}
				if err := dynamicClient.dryRun(t.Context(), obj); err != nil {
					t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
				}
			}
		})
	}
}
