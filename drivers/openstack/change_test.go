package openstack_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func TestChangesThatStacksCantGoThroughAreRefused(t *testing.T) {
	t.Parallel()

	d := renderer(t)
	address := func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) {
		in.ExtVirtualLinks[1] = link("CP2", "10.0.0.7")
	}
	green := func(in *desired.Instance, f *vnfd.Flavour, files map[string]string) {
		address(in, f, files)
		in.Generation = "green"
	}
	for _, c := range []struct {
		name          string
		before, after func(*desired.Instance, *vnfd.Flavour, map[string]string)
		want          string
	}{
		{"another image", nil, func(_ *desired.Instance, f *vnfd.Flavour, _ map[string]string) { f.VDUs[0].Image = "img2" }, ""},
		{"another shape", nil, func(_ *desired.Instance, _ *vnfd.Flavour, files map[string]string) {
			top := files["BaseHOT/simple/top.yaml"]
			from, to := strings.Index(top, "  VDU1:"), strings.Index(top, "  VDU2:")
			files["BaseHOT/simple/top.yaml"] = top[:from] + "  VDU1: {type: VDU1.yaml, properties: {image: img1, net: net0}}\n" + top[to:]
		}, "BaseHOT/simple/top.yaml: VDU VDU1 is the resource VDU1 for each VNFC there and the group VDU1 now"},
		{"another name", nil, func(_ *desired.Instance, _ *vnfd.Flavour, files map[string]string) {
			files["BaseHOT/simple/top.yaml"] = strings.Replace(files["BaseHOT/simple/top.yaml"], "  VDU1:\n", "  group:\n", 1)
		}, "VDU VDU1 is the group group there and the group VDU1 now"},
		{"a VDU less", nil, func(_ *desired.Instance, f *vnfd.Flavour, files map[string]string) {
			top := files["BaseHOT/simple/top.yaml"]
			files["BaseHOT/simple/top.yaml"] = top[:strings.Index(top, "  VDU2:")]
			f.VDUs = f.VDUs[:1]
		}, ""},
		{"one address in two generations", address, green, "fixed IP address 10.0.0.7, and so has what runs"},
		{"two generations", nil, func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.Generation = "green" }, ""},
		{"an address stays in a rolling change", address, address, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := d.Change(aVNF(c.before), aVNF(c.after))
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused(t, err, c.want)
		})
	}
	if files, err := d.Definitions(aVNF(nil), aVNF(nil), []string{"a"}); files != nil || err != nil {
		t.Error(files, err)
	}
}
