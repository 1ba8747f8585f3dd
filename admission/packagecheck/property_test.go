package packagecheck_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/admission/packagecheck"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// documents are what the manifests of generated packages are made of: each in a form in which
// published manifests are written, or are wrong.
var documents = []string{
	"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: vdu1}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}\n",
	"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: vdu1}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two, namespace: a}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: three, namespace: b}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 5}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a/b}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: {a: 1}}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nulls, labels: null}\ndata: {a: null}\n",
	"apiVersion: v1\nkind: ConfigMap\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: g-}\n",
	"apiVersion: a/b/c\nkind: X\nmetadata: {name: x}\n",
	"apiVersion: v1\n", "kind: Pod\n", "5\n", "- 1\n", "a: [\n", "a\tb: \"\n", "null\n", "# nothing\n", "",
	"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nitems:\n  - {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}\n",
	"apiVersion: v1\nkind: ConfigMapList\nitems:\n  - metadata: {name: inherits}\n",
	"apiVersion: v1\nkind: List\nitems:\n", "apiVersion: v1\nkind: List\nitems: []\n", "apiVersion: v1\nkind: List\n", "apiVersion: v1\nkind: List\nitems: 5\n",
	"apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: List, items: []}\n", "apiVersion: v1\nkind: List\nitems: [5]\n",
	"apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: item}}\n  -\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: &m {name: alias}\ndata: {<<: *m, b: c}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: many}\ndata: {a: &a x" + aliases(40) + "}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\nkind: Secret\n",
	"apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\n",
	"apiVersion: example.com/v1\nkind: PackageReview\nmetadata: {}\n",
	"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: 1}\n",
	"apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: vdu1}\n",
	"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: odd}\nspec: {selector: 5, template: {metadata: {labels: [a]}}}\n",
	"apiVersion: v1\nkind: Service\nmetadata: {name: svc}\nspec: 7\n",
	`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "json"}}` + "\n",
	`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "j1"}}{"apiVersion": "v1"}` + "\n",
	"%YAML 1.1\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: directive}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: end}\n...\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: unread}\n",
	"apiVersion: v1\r\nkind: ConfigMap\r\nmetadata: {name: crlf}\r\n",
	"\ufeffapiVersion: v1\nkind: ConfigMap\nmetadata: {name: bom}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: deep}\ndata: " + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yes}\ndata: {on: off, 1: 2, ~: x}\n",
}

// generated is a package with generated manifests.
func generated(t *rapid.T, base fstest.MapFS) fstest.MapFS {
	files := fstest.MapFS{}
	for name, f := range base {
		files[name] = f
	}
	names := []string{"a.yaml", "b.yml", "c.json", "D.YAML", "sub/e.yaml", "sub.yaml/f.yml", "g.txt"}
	separators := []string{"---\n", "--- # more\n", "---  \n", "...\n---\n", "\n---\n\n", "--- {}\n", "----\n"}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "files") {
		var text strings.Builder
		text.WriteString(rapid.SampledFrom([]string{"", "", "---\n"}).Draw(t, "first"))
		for i, d := range rapid.SliceOfN(rapid.SampledFrom(documents), 0, 3).Draw(t, "documents") {
			if i > 0 {
				text.WriteString(rapid.SampledFrom(separators).Draw(t, "separator"))
			}
			text.WriteString(d)
		}
		files["Files/kubernetes/"+name] = &fstest.MapFile{Data: []byte(text.String())}
	}
	return files
}

// bare is the example without its manifests.
func bare(t testing.TB) fstest.MapFS {
	files := fstest.MapFS{}
	copyInto(t, files, filepath.Join(examples, "webapp"))
	for name := range files {
		if strings.HasPrefix(name, "Files/") {
			delete(files, name)
		}
	}
	meta, _, _ := strings.Cut(string(files[vnfd.MetaFile].Data), "\nName:")
	files[vnfd.MetaFile] = &fstest.MapFile{Data: []byte(meta)}
	return files
}

// What validate says of a package is what happens when instances of it are rendered, whichever
// manifests they name.
func TestValidateSaysOfManifestsWhatRenderingDoes(t *testing.T) {
	t.Parallel()

	base := bare(t)
	rapid.Check(t, func(t *rapid.T) {
		files := generated(t, base)
		pkg, err := vnfd.Load(files)
		if err != nil {
			t.Fatal(err)
		}

		problems := packagecheck.Validate(files)

		applied := false // by itself, without being named
		for name := range files {
			if !strings.HasPrefix(name, "Files/kubernetes/") || name == "Files/kubernetes/g.txt" {
				continue
			}
			byItself := slices.Contains([]string{"Files/kubernetes/a.yaml", "Files/kubernetes/b.yml"}, name)
			applied = applied || byItself
			refused := slices.ContainsFunc(problems, func(p vnfd.Problem) bool {
				return p.File == name && (byItself && p.Severity == vnfd.Error || !byItself && strings.Contains(p.Message, "is refused"))
			})
			err := render(pkg, name)
			if refused != (err != nil) {
				t.Errorf("%s, named by an instance: %v; validate: %v", name, err, problems)
			}
		}
		refused := slices.ContainsFunc(problems, func(p vnfd.Problem) bool {
			return p.Severity == vnfd.Error || strings.HasPrefix(p.Message, "an instance of flavour")
		})
		if err := render(pkg, ""); applied && refused != (err != nil) {
			t.Errorf("named by nothing: %v; validate: %v", err, problems)
		}
	})
}

// render renders an instance as the server does, of one of the manifests or of all.
func render(pkg *vnfd.Package, file string) error {
	if file != "" {
		// What one file says is looked at: VDUs may have their workloads in others.
		one, flavour := *pkg.VNFD, pkg.VNFD.Flavours[0]
		flavour.VDUs = nil
		one.Flavours = []vnfd.Flavour{flavour}
		pkg = &vnfd.Package{Files: pkg.Files, VNFD: &one}
	}

	in := &desired.Instance{ID: "a", VnfdID: pkg.VNFD.ID, Flavour: pkg.VNFD.Flavours[0].ID}
	if file != "" {
		in.Params = map[string]any{"lcm-kubernetes-def-files": []any{file}, "namespace": "n"}
	}
	_, err := manifest.NewRenderer([]byte("key")).Render(drivers.Source{Instance: in, Package: pkg})
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	return nil
}

// aliases are keys whose values are the same alias.
func aliases(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", k%d: *a", i)
	}
	return b.String()
}
