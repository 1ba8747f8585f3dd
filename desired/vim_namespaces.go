package desired

import (
	"fmt"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// MaxVIMNamespaces is how many namespaces a VIM may name: each kind of object is watched once in each.
const MaxVIMNamespaces = 100

// namespaceName is the name of one namespace (RFC 1123 label).
var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// CheckNamespaces returns why the names can't be the namespaces in which a VIM is used; nil where they can.
func CheckNamespaces(names []string) error {
	if len(names) > MaxVIMNamespaces {
		return fmt.Errorf("%d namespaces are named, and %d may be: name none, for all of the cluster", len(names), MaxVIMNamespaces)
	}
	for i, name := range names {
		switch {
		case !namespaceName.MatchString(name):
			return fmt.Errorf("%q is not the name of a namespace: write small letters, digits and '-'", clip(name))
		case ReservedNamespace(name):
			return fmt.Errorf("no VNF may be in namespace %s, in which Kubernetes itself runs", name)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("namespace %s is named twice", name)
		}
	}
	return nil
}

func (d *document) vimNamespaces(n *yaml.Node) (names []string) {
	before := len(d.problems)
	d.list(n, "namespaces", func(where string, v *yaml.Node) { names = append(names, d.text(v, where, maxName)) })
	if len(d.problems) > before {
		return nil
	}
	if len(names) == 0 {
		d.fail(n, "remove it, for all namespaces, or write their names: [vnfs]", "\"namespaces\" names none")
		return nil
	}
	if err := CheckNamespaces(names); err != nil {
		d.fail(n, "write each namespace once: [vnfs, edge]", "\"namespaces\": %v", err)
		return nil
	}
	slices.Sort(names)
	return names
}
