package hot_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func TestValidateSaysWhatIsWrongWithTemplates(t *testing.T) {
	t.Parallel()
	const head = "heat_template_version: 2021-04-16\n"
	server := "  VDU1:\n    type: OS::Nova::Server\n    properties: {image: i, PROPERTY}\n"
	with := func(property string) string {
		return head + "parameters:\n  size: {type: string, default: a}\nresources:\n" + strings.Replace(server, "PROPERTY", property, 1)
	}
	bounded := func(declared, read string) string {
		return head + "parameters:\n  sizes: " + declared + "\nresources:\n  VDU1:\n    type: OS::Heat::AutoScalingGroup\n    properties: {min_size: {get_param: " + read + "}, max_size: 3, resource: {type: one.yaml}}\n"
	}
	optional := head + "conditions: {big: false}\nresources:\n  VDU1: {type: OS::Nova::Server, properties: {image: i, flavor: f}}\n  extra: {type: more.yaml, condition: big}\n"
	scaled := []vnfd.VDU{{ID: "VDU1", Name: "web", Image: "i"}, {ID: "VDU2", Name: "db", Deltas: map[string]int{"db_aspect": 1}}}
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		vdus  []vnfd.VDU
		want  string // "" is nothing
	}{
		{"sound", folder(with("flavor: {get_param: size}, name: {get_param: 'OS::stack_name'}")), nil, ""},
		{"sound, but for parameters that instances give", folder(minimal), []vnfd.VDU{{ID: "VDU1"}}, ""},
		{"a resource with a description", folder(with("flavor: f") + "    description: the web server\n"), nil, ""},
		{"syntax", folder("a: ["), nil, "BaseHOT/simple/top.yaml:1: isn't valid YAML"},
		{"no version", folder("resources: {}"), nil, "BaseHOT/simple/top.yaml: heat_template_version is missing"},
		{"a parameter that isn't declared", folder(with("flavor: {get_param: siez}")), nil, "BaseHOT/simple/top.yaml:5: VDU1 reads the parameter siez, which the template doesn't declare: it has size"},
		{"in a list", folder(with("networks: [{port: {get_param: [nfv, CP, a]}}]")), nil, "BaseHOT/simple/top.yaml:5: VDU1 reads the parameter nfv"},
		{"a resource that isn't there", folder(with("networks: [{port: {get_resource: CP9}}]")), nil, "BaseHOT/simple/top.yaml:5: VDU1 refers to the resource CP9, which isn't in the template: it has VDU1"},
		{"an attribute of one", folder(with("name: {get_attr: [CP9, name]}")), nil, "VDU1 refers to the resource CP9"},
		{"a dependency on one", folder(with("flavor: f") + "    depends_on: [CP9]\n"), nil, "VDU1 refers to the resource CP9"},
		{"where it may not be read", folder(with("flavor: {if: [big, {get_param: siez}, f]}") + "conditions: {big: true}\n"), nil, "top.yaml:5: warning: VDU1 reads the parameter siez"},
		{"in an output", folder(with("flavor: f") + "outputs:\n  o: {value: {get_attr: [CP9, name]}}\n"), nil, "top.yaml:9: warning: o refers to the resource CP9"},
		{"a name with a variable", folder(with("flavor: {get_param: '%index%'}")), nil, ""},
		{"in a nested file", folder(head+"resources:\n  VDU1: {type: one.yaml}\n", "nested/one.yaml", with("flavor: {get_param: siez}")), nil, "BaseHOT/simple/nested/one.yaml:5: VDU1 reads the parameter siez"},
		{"a nested file that isn't there", folder(head + "resources:\n  VDU1: {type: one.yaml}\n"), nil, "top.yaml:3: names the file one.yaml, which is neither beside it nor in BaseHOT/simple/nested"},
		{"a text that isn't there", folder(with("user_data: {get_file: init.sh}")), nil, "names the file init.sh"},
		{"a server that is no VDU", folder(strings.Replace(with("flavor: f"), "VDU1", "other", 1)), nil, "server other (resource other) is no VDU of flavour simple"},
		{"a group whose bounds are none", folder(head+"resources:\n  VDU1:\n    type: OS::Heat::AutoScalingGroup\n    properties: {min_size: 1, max_size: many, resource: {type: one.yaml}}\n", "nested/one.yaml", with("flavor: f")), nil,
			"top.yaml:5: max_size of group VDU1 must be a whole number"},
		{"a group whose bounds instances give", folder(bounded("{type: json, default: {}}", "[sizes, min]"), "nested/one.yaml", with("flavor: f")), nil, "top.yaml:7: warning: min_size of group VDU1 must be a whole number"},
		{"as a text", folder(bounded("{type: string, default: ''}", "sizes"), "nested/one.yaml", with("flavor: f")), nil, "top.yaml:7: warning: min_size of group VDU1 must be a whole number"},
		{"a long row of references", folder(head + row(2000)), []vnfd.VDU{{ID: "r01999", Name: "web", Image: "i"}}, ""},
		{"a nested file of a resource with a condition", folder(optional, "nested/more.yaml", head+"resources:\n  more: {type: below.yaml}\n", "nested/below.yaml", head+"resources:\n  net: {type: OS::Neutron::Net, properties: {name: {get_param: siez}}}\n"), nil,
			"nested/below.yaml:3: warning: net reads the parameter siez"},
		{"a nested file of one without, too", folder(optional+"  sure: {type: more.yaml}\n", "nested/more.yaml", head+"resources:\n  net: {type: OS::Neutron::Net, properties: {name: {get_param: siez}}}\n"), nil,
			"nested/more.yaml:3: net reads the parameter siez"},
		{"a template of another kind where there are manifests", fstest.MapFS{
			"Files/kubernetes/a.yaml": &fstest.MapFile{}, "BaseHOT/simple/aws.yaml": &fstest.MapFile{Data: []byte("AWSTemplateFormatVersion: '2010-09-09'\nResources: {}\n")},
		}, nil, "BaseHOT/simple/aws.yaml: warning: heat_template_version is missing"},
		{"a VDU that scales and has no group", folder(with("flavor: f")), scaled, "top.yaml: warning: VDU VDU2 of flavour simple has no server or group here, and its scaling aspect would scale nothing"},
		{"a VDU that may be in manifests", func() fstest.MapFS {
			files := folder(with("flavor: f"))
			files["Files/kubernetes/a.yaml"] = &fstest.MapFile{}
			return files
		}(), scaled, ""},
		{"a folder of no flavour", fstest.MapFS{
			"BaseHOT/simple/top.yaml": &fstest.MapFile{Data: []byte(with("flavor: f"))}, "BaseHOT/smiple/top.yaml": &fstest.MapFile{Data: []byte("a: [")},
		}, nil, "BaseHOT/smiple: warning: the VNFD has no deployment flavour smiple: nothing uses these templates\nBaseHOT/smiple/top.yaml:1: warning: isn't valid YAML"},
		{"a flavour of no folder", fstest.MapFS{"BaseHOT/readme.txt": &fstest.MapFile{}}, nil, "BaseHOT: warning: flavour simple has no templates"},
		{"none at all", fstest.MapFS{}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			vdus := c.vdus
			if vdus == nil {
				vdus = vdu1("i").VDUs
			}
			var got strings.Builder
			for _, p := range hot.Validate(&vnfd.Package{Files: c.files, VNFD: &vnfd.VNFD{Flavours: []vnfd.Flavour{{ID: "simple", VDUs: vdus}}}}) {
				got.WriteString(p.String() + "\n")
			}
			lines, n := strings.Count(got.String(), "\n"), strings.Count(c.want, "\n")
			if c.want != "" {
				n++
			}
			if lines != n || !strings.Contains(got.String(), c.want) {
				t.Errorf("got %q, want %q", got.String(), c.want)
			}
		})
	}
}

func TestValidateOfTemplatesNeedsNoVNFD(t *testing.T) {
	t.Parallel()
	problems := hot.Validate(&vnfd.Package{Files: folder("resources: {}")})
	if len(problems) != 1 || problems[0].Severity != vnfd.Error {
		t.Errorf("problems are %v", problems)
	}
}
