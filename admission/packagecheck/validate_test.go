package csar_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
	"github.com/rogpeppe/go-internal/txtar"
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
			for name, data := range content(t, os.DirFS(filepath.Join(examples, "webapp"))) {
				files[name] = &fstest.MapFile{Data: []byte(data)}
			}
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
			for _, p := range csar.Validate(files) {
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
