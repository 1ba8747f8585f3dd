package vnfd_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/rogpeppe/go-internal/txtar"
)

// base is the package of testdata/base.txtar.
func base(t testing.TB) fstest.MapFS {
	t.Helper()
	a, err := txtar.ParseFile("testdata/base.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, f := range a.Files {
		files[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return files
}

// apply makes a defective package of the base: an entry "delete" lists files to
// remove; "edit/<file>" holds hunks of lines, those after "-" replaced by those
// after "+"; any other entry is a file to add or replace, but for "want".
func apply(t *testing.T, files fstest.MapFS, a *txtar.Archive) {
	t.Helper()
	for _, f := range a.Files {
		name, edit := strings.CutPrefix(f.Name, "edit/")
		switch {
		case f.Name == "want":
		case f.Name == "delete":
			for _, n := range strings.Fields(string(f.Data)) {
				delete(files, n)
			}
		case edit:
			var before, after strings.Builder
			text := string(files[name].Data)
			replace := func() {
				if n := strings.Count(text, before.String()); n != 1 {
					t.Fatalf("%s: hunk is %d times in the file:\n%s", f.Name, n, before.String())
				}
				text = strings.Replace(text, before.String(), after.String(), 1)
				before.Reset()
				after.Reset()
			}
			for line := range strings.Lines(string(f.Data)) {
				if line[0] == '-' {
					if after.Len() > 0 {
						replace()
					}
					before.WriteString(line[1:])
				} else {
					after.WriteString(line[1:])
				}
			}
			replace()
			files[name] = &fstest.MapFile{Data: []byte(text)}
		default:
			files[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
}

func TestEveryDefectIsNamedWithFileAndLine(t *testing.T) {
	paths, err := filepath.Glob("testdata/defects/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no defects", err)
	}
	for _, p := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(p)
			if err != nil {
				t.Fatal(err)
			}
			files := base(t)
			apply(t, files, a)
			_, problems, err := vnfd.Check(files)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, p := range problems {
				got.WriteString(p.String() + "\n")
			}
			for i := range a.Files {
				if a.Files[i].Name == "want" {
					a.Files[i].Data = []byte(got.String())
				}
			}
			kit.Golden(t, p, txtar.Format(a))
			if got.Len() == 0 {
				t.Error("nothing is wrong")
			}
		})
	}
}

func TestLoadReadsEveryPartOfTheDescriptor(t *testing.T) {
	p, err := vnfd.Load(base(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(p.VNFD, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	kit.Golden(t, filepath.Join("testdata", "base.json"), append(got, '\n'))
	if diff := cmp.Diff([]string{"Scripts/scale.py"}, p.Artifacts); diff != "" {
		t.Error(diff)
	}
}
