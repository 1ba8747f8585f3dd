package kubernetes

import (
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/drivers"
)

// RenderYAML is the rendered objects as a person would write them.
func (d *Driver) RenderYAML(src drivers.Source) (string, error) {
	r, err := d.render(src)
	if err != nil {
		return "", err
	}
	out := ""
	for _, x := range r.desired.Objects {
		content, err := yaml.Marshal(r.objects[x.Key].Object)
		if err != nil {
			return "", err
		}
		out += "--- # " + x.Key + "\n" + string(content)
	}
	return out, nil
}
