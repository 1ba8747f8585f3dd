package multi

import (
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers"
)

// Access implements [drivers.Driver]: it is the files of all parts. Where several parts have
// the same variable, the first of them, the main one if it is among them, has it as it is; the
// others have it with the name of their VIM in capitals at its end ("KUBECONFIG_KUBE_B").
func (d *Driver) Access() (map[string][]byte, error) {
	return d.access(func(part drivers.Driver) (map[string][]byte, error) { return part.Access() })
}

// access joins what of gives for each part.
func (d *Driver) access(of func(drivers.Driver) (map[string][]byte, error)) (map[string][]byte, error) {
	var all map[string][]byte
	for i, p := range d.parts {
		files, err := of(p.Driver)
		if err != nil {
			return nil, d.at(i, err)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if all == nil {
				all = map[string][]byte{}
			}
			as := name
			if _, taken := all[name]; taken {
				as += "_" + variable(p.Name)
			}
			all[as] = files[name]
		}
	}
	return all, nil
}

// variable is the name in the form that may stand in the name of an environment variable.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}
