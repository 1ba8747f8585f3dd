package kubernetes

import (
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/drivers"
)

// RenderYAML is the rendered objects as a person would write them.
func (d *Driver) RenderYAML(src drivers.Source) (string, error) {
	r, err := d.renderer.Render(src)
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

// RenderAnnotations are the annotations of the name that rendered objects have, by
// key: on their pods, else on themselves.
func (d *Driver) RenderAnnotations(src drivers.Source, name string) (map[string]string, error) {
	r, err := d.renderer.Render(src)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for key, u := range r.objects {
		if value := str(templateOf(u, u.GroupVersionKind().GroupKind()), "metadata", "annotations", name); value != "" {
			all[key] = value
		} else if value := u.GetAnnotations()[name]; value != "" {
			all[key] = value
		}
	}
	return all, nil
}
