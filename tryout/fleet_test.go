package tryout

import (
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

func TestThePackagesOfTheFleetAreValidAndAreWhatTheyAreCalled(t *testing.T) {
	files, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range products() {
		dir := p.Name + "-" + p.Version + "/"
		pkg := fstest.MapFS{}
		for name, text := range files {
			if len(name) > len(dir) && name[:len(dir)] == dir {
				pkg[name[len(dir):]] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		_, problems := csar.Check(pkg)
		for _, problem := range problems {
			if problem.Severity != vnfd.Warning {
				t.Errorf("%s: %s", dir, problem.String())
			}
		}
		loaded, err := vnfd.Load(pkg)
		if err != nil {
			t.Fatal(err)
		}
		if d := loaded.VNFD; d.ID != p.ID || d.ProductName != p.Name || d.Version != p.Version {
			t.Errorf("%s is %s %s, %s", dir, d.ProductName, d.Version, d.ID)
		}
	}
}
