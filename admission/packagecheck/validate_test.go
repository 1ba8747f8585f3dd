package packagecheck_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/jibe-vnfm/jibe/admission/packagecheck"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Each golden file adds its files to the webapp example (an entry "delete" lists
// those to remove, "meta" is added to TOSCA.meta) and says what Validate finds.
func TestValidateSaysWhatIsWrongWithAPackage(t *testing.T) {
	paths, err := filepath.Glob("testdata/validate/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, p := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(p)
			if err != nil {
				t.Fatal(err)
			}
			files := fstest.MapFS{}
			copyInto(t, files, filepath.Join(examples, "webapp"))
			want := -1
			for i, f := range a.Files {
				switch f.Name {
				case "want":
					want = i
				case "delete":
					for _, n := range strings.Fields(string(f.Data)) {
						delete(files, n)
					}
				case "meta":
					files[vnfd.MetaFile].Data = append(files[vnfd.MetaFile].Data, f.Data...)
				default:
					files[f.Name] = &fstest.MapFile{Data: f.Data}
				}
			}
			if want < 0 {
				t.Fatal("no want")
			}
			var got strings.Builder
			for _, p := range packagecheck.Validate(files) {
				got.WriteString(p.String() + "\n")
			}
			a.Files[want].Data = []byte(got.String())
			kit.Golden(t, p, txtar.Format(a))
			if got.Len() == 0 {
				t.Error("nothing is wrong")
			}
		})
	}
}

// copyInto puts the files of a directory into files.
func copyInto(t testing.TB, files fstest.MapFS, dir string) {
	t.Helper()
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, p)
		files[p] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Lists of a kind, merge keys and a list whose items a template left out run on a server: they
// were refused by validate, or taken by it and refused there.
func TestFormsThatKubectlTakesAreValid(t *testing.T) {
	t.Parallel()

	for name, text := range map[string]string{
		"a list of a kind": "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nitems:\n  - metadata: {name: r1}\n",
		"a merge key":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: &l {app: app}}\ndata: {<<: *l, tier: core}\n",
		"empty items":      "apiVersion: v1\nkind: List\nitems:\n",
	} {
		files := bare(t)
		files["Files/kubernetes/a.yaml"] = &fstest.MapFile{Data: []byte(text)}
		pkg, err := vnfd.Load(files)
		if err != nil {
			t.Fatal(err)
		}

		problems := packagecheck.Validate(files)

		for _, p := range problems {
			if p.Severity == vnfd.Error {
				t.Errorf("%s: %v", name, p)
			}
		}
		if err := render(pkg, "Files/kubernetes/a.yaml"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
