package desired

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// dropFoot removes the comments after the last value of n: they stand below the
// lines that are replaced.
func dropFoot(n *yaml.Node) {
	n.FootComment = ""
	if n.Kind == yaml.MappingNode && len(n.Content) > 1 {
		n.Content[len(n.Content)-2].FootComment = ""
	}
	if len(n.Content) > 0 {
		dropFoot(n.Content[len(n.Content)-1])
	}
}

// set makes the change in the mapping n, and keeps the comments of what stays.
func set(n *yaml.Node, path []string, value any) error {
	at := child(n, path[0])
	if value == nil {
		switch {
		case at < 0:
		case len(path) == 1:
			n.Content = slices.Delete(n.Content, at-1, at+1)
		case n.Content[at].Kind == yaml.MappingNode:
			return set(n.Content[at], path[1:], nil)
		}
		return nil
	}
	if at < 0 {
		n.Content = append(n.Content, keyNode(path[0]), &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"})
		at = len(n.Content) - 1
	}
	old := n.Content[at]
	if len(path) > 1 {
		if old.Kind != yaml.MappingNode {
			n.Content[at] = instead(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, old)
		} else if len(old.Content) == 0 {
			old.Style &^= yaml.FlowStyle
		}
		return set(n.Content[at], path[1:], value)
	}
	fresh, err := node(reflect.ValueOf(value))
	if err != nil {
		return err
	}
	n.Content[at] = merge(old, fresh)
	return nil
}

// merge returns the value of fresh in the style of old, with its comments.
func merge(old, fresh *yaml.Node) *yaml.Node {
	var d document
	if sameAny(d.value(old, ""), d.value(fresh, "")) {
		return old
	}
	if old.Kind == yaml.SequenceNode && fresh.Kind == yaml.SequenceNode && len(old.Content) > 0 && len(fresh.Content) > 0 {
		items := slices.Clone(fresh.Content)
		for i := range min(len(items), len(old.Content)) {
			items[i] = merge(old.Content[i], items[i])
		}
		old.Content = items
		return old
	}
	if old.Kind != yaml.MappingNode || fresh.Kind != yaml.MappingNode || len(old.Content) == 0 {
		return instead(fresh, old)
	}
	old.Content = slices.Clone(old.Content)
	for i := 0; i+1 < len(old.Content); {
		if child(fresh, old.Content[i].Value) < 0 {
			old.Content = slices.Delete(old.Content, i, i+2)
			continue
		}
		i += 2
	}
	for i := 0; i+1 < len(fresh.Content); i += 2 {
		if at := child(old, fresh.Content[i].Value); at >= 0 {
			old.Content[at] = merge(old.Content[at], fresh.Content[i+1])
		} else {
			old.Content = append(old.Content, fresh.Content[i], fresh.Content[i+1])
		}
	}
	return old
}

// instead returns fresh with the comments of old, whose place it takes.
func instead(fresh, old *yaml.Node) *yaml.Node {
	fresh.HeadComment, fresh.LineComment, fresh.FootComment = old.HeadComment, old.LineComment, old.FootComment
	return fresh
}

func lastLeaf(n *yaml.Node) *yaml.Node {
	for len(n.Content) > 0 {
		n = n.Content[len(n.Content)-1]
	}
	return n
}
