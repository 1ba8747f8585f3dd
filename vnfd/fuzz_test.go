package vnfd_test

import (
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// FuzzLoad varies the files of a package. Whatever they are, reading them ends,
// and a package that loads can be asked for every count without panic.
func FuzzLoad(f *testing.F) {
	files := base(f)
	const top, types, df = "Definitions/top.yaml", "Definitions/types.yaml", "Definitions/df.yaml"
	meta := files[vnfd.MetaFile].Data
	f.Add(meta, files[top].Data, files[types].Data, files[df].Data)
	f.Add(meta, []byte("imports: [types.yaml]"), []byte("node_types: {'': {derived_from: ''}}"), []byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		files := fstest.MapFS{
			vnfd.MetaFile: {Data: a}, top: {Data: b}, types: {Data: c}, df: {Data: d},
			"Scripts/scale.py": {Data: nil},
		}
		p, err := vnfd.Load(files)
		if err != nil {
			return
		}
		if p.VNFD == nil || p.VNFD.ID == "" || len(p.VNFD.Flavours) == 0 {
			t.Fatalf("loaded without what every VNFD has: %+v", p.VNFD)
		}
		for i := range p.VNFD.Flavours {
			fl := &p.VNFD.Flavours[i]
			levels, err := fl.ScaleLevels("", nil)
			if err != nil {
				t.Fatal(err)
			}
			for j := range fl.VDUs {
				n, err := fl.Count(&fl.VDUs[j], "", levels)
				if err == nil && (n < 0 || n < fl.VDUs[j].Min || fl.VDUs[j].Max >= 0 && n > fl.VDUs[j].Max) {
					t.Fatalf("%d instances of %+v", n, fl.VDUs[j])
				}
			}
		}
	})
}
