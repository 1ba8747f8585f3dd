package packagecheck_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/admission/packagecheck"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// change is something that an author may do to a package.
type change struct {
	name string
	do   func(fstest.MapFS)
}

func put(name, content string) func(fstest.MapFS) {
	return func(files fstest.MapFS) { files[name] = &fstest.MapFile{Data: []byte(content)} }
}

const lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

var changes = []change{
	{"a file more", put("Files/more", "1")},
	{"a name with a colon", put("Files/a:b", "1")},
	{"names that differ in case", func(files fstest.MapFS) { put("Files/UPPER", "1")(files); put("Files/upper", "1")(files) }},
	{"a folder called .Git", put("Files/.Git/config", "1")},
	{"folders in folders", put(strings.Repeat("d/", 32)+"x", "1")},
	{"too many folders in folders", put(strings.Repeat("d/", 33)+"x", "1")},
	{"a long name", put(strings.Repeat("n", 255), "1")},
	{"a long path", put(strings.Repeat(strings.Repeat("n", 200)+"/", 3)+"x", "1")},
	{"a link to a file", func(files fstest.MapFS) {
		files["Files/link"] = &fstest.MapFile{Data: []byte("../" + vnfd.MetaFile), Mode: fs.ModeSymlink}
	}},
	{"a link to a folder", func(files fstest.MapFS) {
		files["Files/link"] = &fstest.MapFile{Data: []byte("../Definitions"), Mode: fs.ModeSymlink}
	}},
	{"a pointer of git-lfs", put("Files/images/disk.qcow2", lfs)},
	{"a VNFD that is a pointer", func(files fstest.MapFS) {
		for name := range files {
			if strings.HasSuffix(name, "_df_simple.yaml") {
				put(name, lfs)(files)
			}
		}
	}},
	{"a changed manifest", put("Files/kubernetes/configmap.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: webapp-config}\n")},
	{"a manifest that is no object", put("Files/kubernetes/more.yaml", "apiVersion: v1\nkind: ConfigMap\n")},
	{"a manifest that is no YAML", put("Files/kubernetes/more.yaml", "a: [")},
	{"a manifest of an object twice", put("Files/kubernetes/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")},
	{"a Heat template without a version", put("BaseHOT/simple/top.yaml", "resources: {}\n")},
	{"a Heat template of a parameter that isn't there", put("BaseHOT/simple/top.yaml", "heat_template_version: 2021-04-16\nresources:\n  r: {type: OS::Neutron::Net, properties: {name: {get_param: n}}}\n")},
	{"no metadata", func(files fstest.MapFS) { delete(files, vnfd.MetaFile) }},
	{"no metadata, but a main definition and its manifest", func(files fstest.MapFS) {
		delete(files, vnfd.MetaFile)
		put("main.yaml", "imports:\n  - Definitions/webapp_top.vnfd.yaml\n")(files)
		put("main.mf", "metadata:\n  vnf_product_name: webapp\n")(files)
	}},
	{"a second main definition", func(files fstest.MapFS) { put("other.yml", "{}")(files); put("other.mf", "")(files) }},
	{"metadata that are no metadata", put(vnfd.MetaFile, "hello\n")},
}

// What validate says of a folder holds for its archive and for its folder in git: an error is
// refused at both doors, a sound package is taken at both, and a warning names the door that
// refuses it.
func TestValidateSaysOfAFolderWhatEachDoorDoes(t *testing.T) {
	t.Parallel()

	up := filepath.Join(t.TempDir(), "packages", "vendor")
	names, want := map[string]bool{}, map[string][]vnfd.Problem{} // folder -> what validate says
	drawn := rapid.SliceOfNDistinct(rapid.IntRange(0, len(changes)-1), 0, 3, rapid.ID)
	for seed := range 60 {
		picked := drawn.Example(seed)
		if seed < len(changes) {
			picked = []int{seed}
		}
		name := ""
		files := fstest.MapFS{}
		copyInto(t, files, filepath.Join(examples, "webapp"))
		for _, i := range picked {
			name += changes[i].name + ", "
			changes[i].do(files)
		}
		if names[name] {
			continue
		}
		names[name] = true
		folder := "p" + strings.Repeat("x", len(want))
		materialize(t, files, filepath.Join(up, folder), folder)

		dir, err := csar.Dir(filepath.Join(up, folder))
		if err != nil { // a link that leads nowhere
			want[folder] = []vnfd.Problem{{File: ".", Message: err.Error(), Severity: vnfd.Error}}
			continue
		}
		problems := packagecheck.Validate(dir)
		want[folder] = problems

		if err := byArchive(dir); (err != nil) != refusedBy(problems, "an archive") {
			t.Errorf("%s: as an archive: %v; validate: %v", name, err, problems)
		}
	}

	refused := byGit(t, up)
	for _, folder := range slices.Sorted(maps.Keys(want)) {
		if problem, is := refused[folder]; is != refusedBy(want[folder], "git") {
			t.Errorf("%s: in git: %q; validate: %v", folder, problem, want[folder])
		}
	}
}

// refusedBy reports whether the problems say that a door refuses the package.
func refusedBy(problems []vnfd.Problem, door string) bool {
	return slices.ContainsFunc(problems, func(p vnfd.Problem) bool {
		return p.Severity == vnfd.Error ||
			door == "an archive" && strings.Contains(p.Message, "can't be in an archive") ||
			door == "git" && strings.Contains(p.Message, "in git refuses it")
	})
}

// materialize writes the files to the disk, as the package with the id.
func materialize(t *testing.T, files fstest.MapFS, dir, id string) {
	t.Helper()
	for name, f := range files {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		// In git each package is to have an id of its own.
		data := bytes.Replace(f.Data, []byte("3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b01"), []byte(id), 1)
		err := error(nil)
		if f.Mode&fs.ModeSymlink != 0 {
			err = os.Symlink(string(data), to)
		} else {
			err = os.WriteFile(to, data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// byArchive is what comes of an upload of the folder.
func byArchive(dir fs.FS) error {
	var b bytes.Buffer
	if err := csar.Build(dir, &b); err != nil {
		return err
	}
	files, err := csar.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), csar.Limits{})
	if err != nil {
		return err
	}
	problems := slices.DeleteFunc(packagecheck.Validate(files), func(p vnfd.Problem) bool { return p.Severity != vnfd.Error })
	if len(problems) > 0 {
		return &vnfd.InvalidError{Problems: problems}
	}
	return nil
}

// byGit commits the folders and returns what the catalogue says of those that it can't use.
func byGit(t *testing.T, up string) map[string]string {
	t.Helper()
	refused := map[string]string{}
	hidden, err := filepath.Glob(filepath.Join(up, "*", "Files", ".Git"))
	for _, name := range hidden { // git itself refuses it
		folder := filepath.Dir(filepath.Dir(name))
		refused[filepath.Base(folder)] = "git doesn't add it"
		err = errors.Join(err, os.RemoveAll(folder))
	}
	if err != nil {
		t.Fatal(err)
	}

	store := filepath.Join(t.TempDir(), "desired.git")
	for _, args := range [][]string{
		{"init", "-q", "--bare", store}, {"init", "-q", "-b", "main", up},
		{"-C", up, "add", "-A"}, {"-C", up, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "packages"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	c := packages.New(store, filepath.Dir(up), slog.New(slog.DiscardHandler))
	c.JudgeBy(packagecheck.Judge)
	if err := c.Sync(t.Context(), []desired.Repository{{Name: "vendor", URL: "vendor"}}); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, e := range c.List() {
		used[e.Path] = true
		if e.Flaw != nil {
			refused[e.Path] = e.Flaw.Error()
		}
	}
	for _, p := range c.Problems() {
		refused[p.Path] = p.Err.Error()
	}
	items, err := os.ReadDir(up)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if _, named := refused[i.Name()]; i.IsDir() && i.Name() != ".git" && !used[i.Name()] && !named {
			refused[i.Name()] = "isn't in the catalogue"
		}
	}
	return refused
}
