package openstack

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/orchestration/v1/stackresources"

	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
)

// tree is a stack's resources and those of the stacks in it.
type tree struct {
	all []*node // in the order of their names, the outer before the inner
}

// node is one resource in its place, with what a snapshot keeps of it.
type node struct {
	Name     string
	Type     string
	Physical string // the id of what it stands for, "" before that exists
	Status   string
	Reason   string // of the status
	Created  time.Time
	stack    stackID // that it stands in
	nested   stackID // that it is, if any
	parent   *node   // the resource that is that stack; nil in the top stack
}

func (n *node) inProgress() bool { return strings.HasSuffix(n.Status, inProgress) }

func newTree(top stackID, resources []stackresources.Resource) *tree {
	t := &tree{}
	nested := map[string]*node{}
	for _, r := range resources {
		n := &node{
			Name: r.Name, Type: r.Type, Physical: r.PhysicalID, Status: r.Status, Reason: r.StatusReason, Created: r.CreationTime,
			stack: linkedStack(r.Links, "stack"), nested: linkedStack(r.Links, "nested"),
		}
		t.all = append(t.all, n)
		if n.nested.id != "" {
			nested[n.nested.id] = n
		}
	}
	for _, n := range t.all {
		if n.stack.id != top.id {
			n.parent = nested[n.stack.id]
		}
	}
	slices.SortStableFunc(t.all, func(a, b *node) int { return strings.Compare(a.path(), b.path()) })
	return t
}

// path names the node in its tree.
func (n *node) path() string {
	if n.parent == nil {
		return n.Name
	}
	return n.parent.path() + "/" + n.Name
}

// top is the resource of the top stack that the node belongs to.
func (n *node) top() *node {
	for n.parent != nil {
		n = n.parent
	}
	return n
}

// member is the resource that stands for one VNFC: the one in a group that the node
// belongs to, else the one in the top stack.
func (n *node) member() *node {
	for n.parent != nil && n.parent.Type != typeGroup {
		n = n.parent
	}
	return n
}

// grouped says whether the node belongs to a member of a group.
func (n *node) grouped() bool {
	m := n.member()
	return m.parent != nil && m.parent.Type == typeGroup
}

// memberName is what the member is called in its VDU: the group's name for it, or its index.
func (n *node) memberName() string {
	m := n.member()
	if m.parent != nil {
		return m.Name
	}
	if _, index, ok := hot.Split(m.Name); ok {
		return strconv.Itoa(index)
	}
	return m.Name
}

// name is that of the resource in the package's templates.
func (n *node) name() string {
	if n.parent == nil {
		if base, _, ok := hot.Split(n.Name); ok {
			return base
		}
	}
	return n.Name
}

// servers are the ids of the servers that Heat made.
func (t *tree) servers() []string { return t.physical(typeServer) }

func (t *tree) physical(kind string) []string {
	var ids []string
	for _, n := range t.all {
		if n.Type == kind && n.Physical != "" {
			ids = append(ids, n.Physical)
		}
	}
	return ids
}

// portsFingerprint changes when there are other servers or ports.
func (t *tree) portsFingerprint() string {
	return strings.Join(t.servers(), " ") + "\n" + strings.Join(t.physical(typePort), " ")
}
