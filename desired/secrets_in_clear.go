package desired

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Secrets returns the secrets of the instance, references among them, with paths as in
// vnf.yaml. nil has none.
func (in *Instance) Secrets(names SecretNames) []Secret {
	if in == nil {
		return nil
	}
	var found []Secret
	for _, part := range []struct {
		path []string
		v    map[string]any
	}{
		{[]string{"params"}, in.Params},
		{[]string{"update", "coordinate", "params"}, in.Update.Coordinate.Params},
		{[]string{"metadata"}, in.Metadata},
		{[]string{"extensions"}, in.Extensions},
		{[]string{"vnfConfigurableProperties"}, in.ConfigurableProperties},
	} {
		if len(part.v) > 0 {
			found = names.find(part.path, part.v, false, found)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(in.VIMConnections)) {
		c, path := in.VIMConnections[id], []string{"vimConnectionInfo", id}
		found = names.find(append(path[:2:2], "interfaceInfo"), c.InterfaceInfo, false, found)
		found = names.find(append(path[:2:2], "accessInfo"), c.AccessInfo, false, found)
		found = names.find(append(path[:2:2], "extra"), c.Extra, false, found)
	}
	return found
}

// Exposed returns one problem for each secret that stands in clear in after, with its line in
// text, the file that after was read from. added are secrets that before doesn't have; no push
// may bring them. left are those that stood there before, and have been seen already. before
// may be nil. No problem quotes a value.
func Exposed(file string, text []byte, before, after *Instance, names SecretNames) (added, left []*Problem) {
	was := map[[2]string]bool{}
	for _, s := range before.Secrets(names) {
		was[s.identity()] = true
	}
	var root *yaml.Node
	for _, s := range after.Secrets(names) {
		if IsRef(s.Value) {
			continue
		}
		if root == nil {
			root = (&document{file: file}).root(text)
		}
		p := &Problem{File: file, Line: lineOf(root, s.Path)}
		if was[s.identity()] {
			p.Message = fmt.Sprintf("%q is a secret that stands here in clear, and in the history of the repository", s.Where())
			p.Remedy = "replace the secret itself, then write the new one as \"age:…\" (jibe secret encrypt), \"env:NAME\" or \"file:/path\""
			left = append(left, p)
			continue
		}
		p.Message = fmt.Sprintf("%q is a secret and must not stand in git in clear", s.Where())
		p.Remedy = "write \"age:…\" in its place (jibe secret encrypt), \"env:NAME\" or \"file:/path\", and amend the commit, as git keeps what was committed"
		added = append(added, p)
	}
	return added, left
}

// identity is equal for the same secret at two places, so that a longer list or a moved
// mapping exposes nothing new.
func (s Secret) identity() [2]string {
	for i := len(s.Path) - 1; i >= 0; i-- {
		if _, err := strconv.Atoi(s.Path[i]); err != nil {
			return [2]string{s.Path[i], s.Value}
		}
	}
	return [2]string{"", s.Value}
}

// lineOf is the line of what the path leads to, or that of the last that there is on the
// way; 0 where there is none.
func lineOf(n *yaml.Node, path []string) int {
	line := 0
	for _, part := range path {
		var next *yaml.Node
		switch {
		case n == nil:
		case n.Kind == yaml.MappingNode:
			if at := child(n, part); at >= 0 {
				line, next = n.Content[at-1].Line, n.Content[at]
			}
		case n.Kind == yaml.SequenceNode:
			if i, err := strconv.Atoi(part); err == nil && i < len(n.Content) {
				next = n.Content[i]
				line = next.Line
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	return line
}
