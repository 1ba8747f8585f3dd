package hot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const minimal = `heat_template_version: 2021-04-16
parameters:
  nfv: {type: json}
resources:
  VDU1:
    type: OS::Nova::Server
    properties:
      image: {get_param: [nfv, VDU, VDU1, vcImageId]}
      flavor: m1.tiny
      networks: [{port: {get_resource: CP1}}]
  CP1:
    type: OS::Neutron::Port
    properties: {network: net0}
`

func folder(top string, more ...string) fstest.MapFS {
	files := fstest.MapFS{"BaseHOT/simple/top.yaml": &fstest.MapFile{Data: []byte(top)}}
	for i := 0; i+1 < len(more); i += 2 {
		files["BaseHOT/simple/"+more[i]] = &fstest.MapFile{Data: []byte(more[i+1])}
	}
	return files
}

// chain are the names and texts of n files, the top template first, of which each uses the next
// one so many times.
func chain(n, times int) []string {
	var files []string
	for i := range n {
		files = append(files, fmt.Sprintf("nested/n%d.yaml", i), uses(times, fmt.Sprintf("n%d.yaml", i+1)))
	}
	return append(files, fmt.Sprintf("nested/n%d.yaml", n), "heat_template_version: 2021-04-16\nresources: {VDU1: {type: OS::Nova::Server}}\n")
}

// uses is a template that uses the file so many times.
func uses(times int, file string) string {
	text := "heat_template_version: 2021-04-16\nresources:\n"
	for i := range times {
		text += fmt.Sprintf("  r%d: {type: %s}\n", i, file)
	}
	return text
}

// row is n resources, of which each refers to the next one and the last one is a server.
func row(n int) string {
	text := "resources:\n"
	for i := range n - 1 {
		text += fmt.Sprintf("  r%05d: {type: OS::Heat::Value, properties: {value: {get_resource: r%05d}}}\n", i, i+1)
	}
	return text + fmt.Sprintf("  r%05d: {type: OS::Nova::Server, properties: {image: i, flavor: f}}\n", n-1)
}

func vdu1(image string) given {
	return given{VDUs: []vnfd.VDU{{ID: "VDU1", Name: "web", Image: image}}}
}

func TestWhatIsWrongInTemplatesIsNamedWithFileAndLine(t *testing.T) {
	const group = `heat_template_version: 2021-04-16
resources:
  VDU1:
    type: OS::Heat::AutoScalingGroup
    properties: {min_size: 1, max_size: 2, resource: {type: one.yaml}}
`
	const byNumber = `heat_template_version: 2021-04-16
resources:
  VDU1:
    type: OS::Heat::ResourceGroup
    properties: {count: 2, resource_def: {type: one.yaml}}
`
	one := "heat_template_version: 2021-04-16\nresources: {VDU1: {type: OS::Nova::Server}}\n"
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		want  string
	}{
		{"syntax", folder("a: ["), "BaseHOT/simple/top.yaml:1: isn't valid YAML"},
		{"alias bomb", folder("heat_template_version: 2021-04-16\nx: &a [1]\nresources: {r: {type: t, properties: {a: [" + strings.Repeat("*a, ", 40) + "]}}}"), "top.yaml:3: more than 32 aliases"},
		{"values", folder("heat_template_version: 2021-04-16\nx: &a [" + strings.Repeat("1, ", 4000) + "1]\ny: [" + strings.Repeat("*a, ", 20) + "1]"), "holds more than 50000 values"},
		{"size", folder("# " + strings.Repeat("x", 600<<10)), "top.yaml: has more than 524288 bytes"},
		{"tag", folder("heat_template_version: 2021-04-16\nresources: {r: {type: !custom t}}"), "top.yaml:2: tag !custom isn't supported"},
		{"no version", folder("resources: {}"), "top.yaml: heat_template_version is missing"},
		{"section", folder("heat_template_version: 2021-04-16\nresource: {}"), "top.yaml:2: resource isn't a section of a Heat template"},
		{"resource key", folder("heat_template_version: 2021-04-16\nresources:\n  r:\n    type: t\n    property: 1"), "top.yaml:5: resource r has property, which no resource has"},
		{"no type", folder("heat_template_version: 2021-04-16\nresources:\n  r: {}"), "top.yaml:3: resource r must be a mapping with a type"},
		{"parameter", folder("heat_template_version: 2021-04-16\nparameters:\n  p: {type: text}"), "top.yaml:3: parameter p needs a type"},
		{"missing file", folder("heat_template_version: 2021-04-16\nresources:\n  r: {type: other.yaml}"), "top.yaml:3: names the file other.yaml, which is neither beside it nor in BaseHOT/simple/nested"},
		{"outside", folder("heat_template_version: 2021-04-16\nresources:\n  r: {type: ../../x.yaml}"), "names the file ../../x.yaml"},
		{"network", folder("heat_template_version: 2021-04-16\nresources:\n  r: {type: 'http://h/x.yaml'}"), "http://h/x.yaml would be fetched from elsewhere"},
		{"circle", folder("heat_template_version: 2021-04-16\nresources:\n  r: {type: a.yaml}", "nested/a.yaml", "heat_template_version: 2021-04-16\nresources:\n  r: {type: a.yaml}"), "uses itself"},
		{"each file twice in the one above", folder(chain(90, 2)[1], chain(90, 2)[2:]...), "top.yaml: makes more than 10000 resources with its nested files"},
		{"a chain of files", folder(chain(120, 1)[1], chain(120, 1)[2:]...), "BaseHOT/simple: leads to more than 100 files"},
		{"a large file again and again", folder(uses(150, "n.yaml"), "nested/n.yaml", "heat_template_version: 2021-04-16\n#"+strings.Repeat(" ", 500<<10)), "top.yaml: has more than 67108864 bytes with its nested files"},
		{"too many resources", folder("heat_template_version: 2021-04-16\n" + row(2001)), "top.yaml:2: has 2001 resources, and at most 2000 are read of one template"},
		{"foreign server", folder(strings.ReplaceAll(minimal, "VDU1", "other")), "top.yaml:5: server other (resource other) is no VDU of flavour simple: call either as a VDU's id; there are VDU1"},
		{"two servers", folder("heat_template_version: 2021-04-16\nresources:\n  VDU1: {type: one.yaml}", "one.yaml", "heat_template_version: 2021-04-16\nresources: {a: {type: OS::Nova::Server}, b: {type: OS::Nova::Server}}"), "top.yaml:3: resource VDU1 makes more than one server at once (a, b)"},
		{"by number", folder(byNumber, "one.yaml", one), "top.yaml:3: resource VDU1 of type OS::Heat::ResourceGroup makes servers by number"},
		{"bounds", folder(strings.Replace(group, "max_size: 2", "max_size: many", 1), "one.yaml", one), "top.yaml:5: max_size of group VDU1 must be a whole number"},
		{"shape twice", folder("heat_template_version: 2021-04-16\nresources:\n  a: {type: one.yaml}\n  b: {type: one.yaml}", "one.yaml", one), "resources a and b both stand for VDU VDU1"},
		{"name of a VNFC", folder(minimal + "  VDU1-0: {type: OS::Heat::Value}\n"), "top.yaml:14: resource VDU1-0 has the name that VDU1 gets for one of its VNFCs"},
		{"no top", fstest.MapFS{"BaseHOT/simple/nested/a.yaml": &fstest.MapFile{Data: []byte(one)}}, "BaseHOT/simple: holds no top template"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := render(c.files, vdu1("img1"))
			var wrong *hot.Error
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestWhatIsMissingOrUnknownInTheIntentIsRefusedByName(t *testing.T) {
	plain := "heat_template_version: 2013-05-23\nparameters:\n  image_id: {type: string}\n  size: {type: number, default: 1}\nresources:\n  VDU1: {type: OS::Nova::Server, properties: {image: {get_param: image_id}}}\n"
	link := strings.Replace(minimal, "network: net0", "network: {get_param: [nfv, CP, CP1, network]}", 1)
	for _, c := range []struct {
		name, top string
		given     given
		want      string
	}{
		{"image", minimal, vdu1(""), "params.nfv.VDU.VDU1.vcImageId: no image is known"},
		{"network", link, vdu1("img1"), "extVirtualLinks: no network is known for connection point CP1"},
		{"address that isn't read", link, given{VDUs: vdu1("img1").VDUs, ExtVirtualLinks: []desired.ExtVirtualLink{{ID: "l", ResourceID: "n", ExtCps: []desired.ExtCp{{CpdID: "CP1", CpConfig: map[string]desired.ExtCpConfig{
			"a": {Protocols: []desired.CpProtocol{{IPOverEthernet: &desired.IPOverEthernet{MACAddress: "fa:16:3e:00:00:01"}}}},
		}}}}}}, "extVirtualLinks: mac_address is given for connection point CP1, and no template in BaseHOT/simple reads [nfv, CP, CP1, mac_address]"},
		{"nfv misspelled", minimal, with(vdu1("img1"), map[string]any{"nfv": map[string]any{"VDU": map[string]any{"VDU1": map[string]any{"vcImage": "x"}}}}), "params.nfv.VDU.VDU1.vcImage: the templates in BaseHOT/simple don't read it"},
		{"nfv isn't read", plain, with(vdu1("img1"), map[string]any{"image_id": "x", "nfv": map[string]any{}}), "params.nfv: BaseHOT/simple/top.yaml has no parameter nfv: it has image_id, size"},
		{"parameter", plain, vdu1(""), "params.image_id: the parameter is missing"},
		{"type", plain, with(vdu1(""), map[string]any{"image_id": "x", "size": "big"}), "params.size: big is no number"},
		{"unknown", plain, with(vdu1(""), map[string]any{"image_id": "x", "siez": 1}), "params.siez: BaseHOT/simple/top.yaml has no such parameter: it has image_id, size"},
		{"managed", plain, given{VDUs: vdu1("").VDUs, Params: map[string]any{"image_id": "x"}, ExtManaged: managed("inner")}, "extManagedVirtualLinks: virtual link inner isn't a network"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.given.Strict = true
			_, err := render(folder(c.top), c.given)
			var wrong *hot.InputError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func with(s given, params map[string]any) given {
	s.Params = params
	return s
}

func TestAFlavourWithoutTemplatesIsToldApart(t *testing.T) {
	if _, err := hot.Parse(fstest.MapFS{}, "simple"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := hot.Parse(fstest.MapFS{}, "../etc"); err == nil {
		t.Error("a flavour led out of BaseHOT")
	}
}

func TestNumbersThatTheTemplatesDontAllowAreRefused(t *testing.T) {
	a := open(t, "testdata/nfv.txtar")
	r, err := a.render(t, "input.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		counts map[string]int
		want   string
	}{
		{map[string]int{"VDU1": 5, "VDU2": 2}, ""},
		{map[string]int{"VDU1": 6, "VDU2": 2}, "top.yaml:14: group VDU1_group has at most 5 members, and VDU VDU1 would have 6"},
		{map[string]int{"VDU1": 1, "VDU2": 3}, "top.yaml: CP2: fixed IP address 10.0.0.7 would be that of several of the 3 VNFCs of VDU VDU2"},
	} {
		err := r.Check(c.counts)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %s", c.counts, err, c.want)
		}
	}
	if _, err := r.Update(hot.Live{Members: map[string][]hot.Member{"VDU2": {{Name: "0"}, {Name: "1"}}}}, hot.Want{Counts: map[string]int{"VDU2": 1}}); err == nil {
		t.Error("Heat was left to choose who goes")
	}
}

func FuzzTemplatesNeverPanic(f *testing.F) {
	f.Add(minimal)
	f.Add("heat_template_version: 2013-05-23\nresources: {VDU1: {type: OS::Heat::AutoScalingGroup, properties: {min_size: 1, max_size: 2, resource: {type: one.yaml}}}}")
	f.Add("heat_template_version: 2021-04-16\nresources: {VDU1: {type: OS::Nova::Server, depends_on: [VDU1, x], properties: {metadata: {get_attr: [VDU1, x]}}}}\noutputs: {o: {value: {get_attr: [VDU1]}}}")
	f.Fuzz(func(t *testing.T, top string) {
		one := "heat_template_version: 2021-04-16\nresources: {VDU1: {type: OS::Nova::Server}}\n"
		r, err := render(folder(top, "nested/one.yaml", one), vdu1("img1"))
		if err != nil {
			return
		}
		b, err := r.Create(map[string]int{"VDU1": 2})
		if err != nil {
			t.Fatalf("what renders can't be composed: %v", err)
		}
		if _, err := b.JSON(); err != nil {
			t.Fatal(err)
		}
		r.Facts()
	})
}
