package openstack

import "testing"

func TestAStackWithVolumesSaysThatDataGoWithIt(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		node    string
		servers map[string]*server
		want    bool
	}{
		"a volume":                    {typeVolume, nil, true},
		"a server of an image":        {typeServer, map[string]*server{"s": {Image: "i"}, "gone": nil}, false},
		"a server that boots from it": {typeServer, map[string]*server{"s": {}}, true},
		"a server that has one more":  {typeServer, map[string]*server{"s": {Image: "i", Volumes: []string{"v"}}}, true},
		"no server":                   {"OS::Neutron::Port", nil, false},
	} {
		s := &stack{tree: &tree{all: []*node{{Type: c.node}}}, servers: c.servers}
		s.Name = "vnf-i"
		v := &view{instance: "i"}

		if o := v.duplicate(s); o.Data != c.want {
			t.Errorf("%s: a duplicate's data: %t", name, o.Data)
		}
		if s.hasData() != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}
