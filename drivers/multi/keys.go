package multi

import (
	"net/url"
	"strings"
)

// vimEnd ends the name of the VIM in the key of an object or unit that isn't at the main VIM:
// "Pod/kube-b:amf/vdu1-x7k2p". The kind stays in front.
const vimEnd = ":"

// prefix is the part's name as it stands in keys: escaped, as '/' and ':' have a meaning there.
func prefix(p Part) string { return url.QueryEscape(p.Name) + vimEnd }

// outer is a key of the part as everybody else knows it.
func (d *Driver) outer(i int, key string) string {
	if i == 0 || key == "" {
		return key
	}
	kind, rest, ok := strings.Cut(key, "/")
	if !ok {
		return prefix(d.parts[i]) + key
	}
	return kind + "/" + prefix(d.parts[i]) + rest
}

// inner is the part that has the key, and the key as that part knows it.
func (d *Driver) inner(key string) (i int, own string) {
	kind, rest, ok := strings.Cut(key, "/")
	if !ok {
		kind, rest = "", key
	}
	for i, p := range d.parts {
		if own, found := strings.CutPrefix(rest, prefix(p)); found && i > 0 {
			if ok {
				own = kind + "/" + own
			}
			return i, own
		}
	}
	return 0, key
}
