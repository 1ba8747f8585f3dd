package vnfd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const examples = "../examples/packages"

func TestWebappExampleScalesEachVDUAloneAndBothTogether(t *testing.T) {
	p, err := vnfd.Load(os.DirFS(filepath.Join(examples, "webapp")))
	if err != nil {
		t.Fatal(err)
	}
	if p.VNFD.DefaultFlavour != "simple" {
		t.Errorf("default flavour is %q", p.VNFD.DefaultFlavour)
	}
	f, ok := p.VNFD.Flavour("simple")
	if !ok {
		t.Fatal("no flavour simple")
	}
	for _, c := range []struct {
		level  string
		levels map[string]int
		want   map[string]int
	}{
		{"", nil, map[string]int{"VDU1": 1, "VDU2": 1}},
		{"instantiation_level_2", nil, map[string]int{"VDU1": 3, "VDU2": 2}},
		{"", map[string]int{"vdu1_aspect": 4}, map[string]int{"VDU1": 5, "VDU2": 1}},
		{"", map[string]int{"both": 2}, map[string]int{"VDU1": 3, "VDU2": 3}},
		{"instantiation_level_2", map[string]int{"both": 5, "vdu1_aspect": 0}, map[string]int{"VDU1": 6, "VDU2": 7}},
	} {
		got := map[string]int{}
		for i := range f.VDUs {
			n, err := f.Count(&f.VDUs[i], c.level, c.levels)
			if err != nil {
				t.Fatal(err)
			}
			got[f.VDUs[i].ID] = n
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("level %q, %v: %s", c.level, c.levels, diff)
		}
	}
}
