package multi

import (
	"net/url"
	"strings"
)

// vimEnd stands behind the name of the VIM in the key of what isn't the main one's:
// "Pod/kube-b:amf/vdu1-x7k2p". What the key is of stays in front.
const vimEnd = ":"

// prefix is how the part's name stands in keys: without what has a meaning there.
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

// inner is whose a key is, and what it is called there.
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
