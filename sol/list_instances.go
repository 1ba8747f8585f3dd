package sol

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/filter"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// instanceShape returns the attributes that selectors may leave out (SOL003 clause
// 5.4.2.3.2).
func instanceShape() filter.Shape {
	def := []string{"vnfConfigurableProperties", "vimConnectionInfo", "instantiatedVnfInfo", "metadata", "extensions"}
	return filter.Shape{Default: def, Optional: append([]string{"vnfInstanceName", "vnfInstanceDescription", "jibe"}, def...)}
}

// row is an instance of a list, as the indexes of git and of the operation log have it. It
// is never changed.
type row struct {
	id     string
	head   desired.Head
	inHead bool // see known
	entry  *oplog.InstanceEntry
	// brief is what is shown, if it has been read.
	brief brief
	read  bool
}

// brief is what the default list shows of an instance's file, see [api.shown].
type brief struct{ name, description, vnfdID, pkg, state string }

// source is the content of which a brief is made.
type source struct {
	tree string
	// never says that it was never brought about.
	never bool
}

func (r *row) source() source {
	switch {
	case r.entry.Settled.Tree != "":
		return source{tree: r.entry.Settled.Tree}
	case r.inHead:
		return source{tree: r.head.Tree, never: true}
	}
	return source{tree: r.entry.Operated.Tree, never: true}
}

// key is the source in a cache.
func (s source) key() string {
	if s.never {
		return "never " + s.tree
	}
	return s.tree
}

// describe sets the brief, if that is possible without reading git. old is the former row of
// the instance, nil if there was none.
func (r *row) describe(old *row) {
	of := r.source()
	switch {
	case r.inHead && of.tree == r.head.Tree:
		h := &r.head
		r.brief, r.read = brief{h.Name, h.Description, h.VnfdID, h.Package, h.State}, true
		if of.never {
			r.brief.state = desired.NotInstantiated
		}
	case old != nil && old.read && old.source() == of:
		r.brief, r.read = old.brief, true
	}
}

// visible says whether clients see the instance.
func (r *row) visible() bool {
	return r.inHead || r.entry.Open != "" || r.entry.OutstandingCommit != ""
}

// directory returns where the instance is or was in git.
func (r *row) directory() string {
	if r.inHead {
		return r.head.Dir
	}
	return r.entry.Operated.Dir
}

// known returns what handlers of one instance work with. The record lacks units.
func (r *row) known() known {
	e := r.entry
	return known{id: r.id, head: r.head, inHead: r.inHead, lacksUnits: true, record: &lcm.Instance{ID: r.id, Seq: e.Seq, VNF: e.VNF,
		Operated: e.Operated, Settled: e.Settled, Open: e.Open, Prepared: e.Prepared, Proposed: e.Proposed,
		OutstandingCommit: e.OutstandingCommit, Last: e.Last, LastState: e.LastState}}
}

// inInstanceIndex are the attributes that the indexes have.
func inInstanceIndex(path []string) int {
	switch path[0] {
	case "id", "vnfInstanceName", "vnfdId", "vnfProvider", "vnfProductName", "vnfSoftwareVersion", "vnfdVersion", "instantiationState":
		return 1
	case "jibe":
		if len(path) > 1 && slices.Contains([]string{"directory", "suspended", "held", "driftPolicy"}, path[1]) {
			return 2
		}
	}
	return 0
}

// instanceList is one request for instances.
type instanceList struct {
	*api
	ctx      context.Context
	query    rest.Query
	products products
	// whole says that attributes are wanted that no index has.
	whole bool
	// scope is what the caller sees.
	scope *access.Scope
	// asked says that the client asks for the directory.
	asked bool
}

// listInstances is GET vnf_instances (clause 5.4.2.3.2), by id.
func (a *api) listInstances(w http.ResponseWriter, r *http.Request) error {
	shape := instanceShape()
	q, err := rest.ParseQuery(r, rest.Resource{Shape: &shape, Schema: a.schemas.instance, Indexed: inInstanceIndex})
	if err != nil {
		return err
	}
	scope, err := a.scope(r.Context())
	if err != nil {
		return err
	}
	l := &instanceList{scope: scope, api: a, ctx: r.Context(), query: q, products: products{}, whole: slices.ContainsFunc(shape.Default, q.Wants),
		asked: q.Selector.Names("jibe") || q.Decided.Needs("jibe/directory")}
	return rest.List(a.API, w, r, &l.query, rest.Listing[*row]{All: l.matches(), Position: func(r *row) string { return r.id }, Body: l.body})
}

// matches yields the instances that pass what is decided of the filter, by id.
func (l *instanceList) matches() iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		v := rowValues{list: l}
		of, all := v.value, l.scope.Everything()
		for r := range l.candidates() {
			if !all && !l.scope.Sees(r.place()) {
				continue
			}
			v.row, v.err = r, nil
			ok, err := l.query.Decided.Match(of)
			if err = cmp.Or(v.err, err); err != nil {
				yield(nil, err)
				return
			}
			if ok && !yield(r, nil) {
				return
			}
		}
	}
}

// candidates are the instances among which those are that the filter matches, by id.
func (l *instanceList) candidates() iter.Seq[*row] {
	rows := l.roster.now()
	if ids, ok := l.query.Filter.OneOf("id"); ok {
		return rows.having(slices.Compact(slices.Sorted(slices.Values(ids))), l.query.After)
	}
	return rows.find(l.query.Filter, l.query.After)
}

// body makes an entry of the list.
func (l *instanceList) body(r *row) (any, error) {
	if l.whole {
		v, err := l.instanceBody(l.ctx, r.known(), l.query.Wants)
		if err == nil && l.asked {
			v.Jibe = v.Jibe.in(r.directory())
		}
		return v, err
	}
	b, err := l.briefOf(l.ctx, r)
	if err != nil {
		return nil, err
	}
	v := l.plainBody(r.id, desired.IsInstantiated(b.state))
	v.Name, v.Description, v.VnfdID = b.name, b.description, b.vnfdID
	p := l.product(r, b)
	v.describe(&p.VNF)
	v.Links = l.instanceLinks(r.id, b.state, p.flavours)
	if l.query.Wants("jibe") {
		v.Jibe = l.status(l.ctx, r.id, &r.head, r.known().record)
		if l.asked {
			v.Jibe = v.Jibe.in(r.directory())
		}
	}
	return v, nil
}

// rowValues are what the filter sees of the rows, one after the other.
type rowValues struct {
	list *instanceList
	row  *row
	err  error
}

// value returns an attribute of the row.
func (s *rowValues) value(attr string) filter.Value {
	r := s.row
	switch attr {
	case "id":
		return filter.Text(r.id)
	case "jibe/directory":
		return filter.Optional(r.directory())
	case "jibe/suspended":
		if !r.head.Suspend {
			return filter.Value{}
		}
		return filter.Bool(true)
	case "jibe/held":
		return filter.Optional(r.head.Held)
	case "jibe/driftPolicy":
		status := s.list.status(s.list.ctx, r.id, &r.head, r.known().record)
		if status == nil {
			return filter.Value{}
		}
		return filter.Text(status.DriftPolicy)
	}
	b, err := s.list.briefOf(s.list.ctx, r)
	if err != nil {
		s.err = err
		return filter.Value{}
	}
	switch attr {
	case "vnfInstanceName":
		return filter.Optional(b.name)
	case "vnfdId":
		return filter.Text(b.vnfdID)
	case "instantiationState":
		return filter.Text(instantiationState(desired.IsInstantiated(b.state)))
	}
	p := s.list.product(r, b)
	switch attr {
	case "vnfProvider":
		return filter.Text(p.Provider)
	case "vnfProductName":
		return filter.Text(p.ProductName)
	case "vnfSoftwareVersion":
		return filter.Text(p.SoftwareVersion)
	}
	return filter.Text(p.VnfdVersion)
}

// briefOf returns what is shown of the row. It reads git only where head isn't what was
// brought about, and no former row was.
func (a *api) briefOf(ctx context.Context, r *row) (*brief, error) {
	if r.read {
		return &r.brief, nil
	}
	of := r.source()
	if b, ok := a.briefs.Get(of.key()); ok {
		return b, nil
	}
	in, lost, err := a.shownOrLost(ctx, r.known())
	if err != nil {
		return nil, err
	}
	b := &brief{in.Name, in.Description, in.VnfdID, in.Package, in.State}
	if of.tree != "" && lost == nil {
		a.briefs.Add(of.key(), b, len(b.name)+len(b.description)+len(b.vnfdID)+len(b.pkg)+briefSize)
	}
	return b, nil
}

// products are the products of packages, as one request has met them.
type products map[productKey]*packaged

// packaged is what lists show of a package; flavours says that it has several.
type packaged struct {
	lcm.VNF
	flavours bool
}

type productKey struct{ pkg, vnfdID, state string }

// product returns the product of the row's package. A row whose package can't be read has
// the product of its last operation.
func (l *instanceList) product(r *row, b *brief) *packaged {
	key := productKey{b.pkg, b.vnfdID, b.state}
	if p, met := l.products[key]; met && p != nil {
		return p
	}
	pkg, shared, err := l.packageOf(r, b)
	if err != nil {
		if _, told := l.products[key]; !told {
			l.products[key] = nil
			l.Log.WarnContext(l.ctx, "package of an instance can't be read", "instance", r.id, "error", err)
		}
		return &packaged{VNF: r.entry.VNF}
	}
	p := packaged{product(lcm.VNF{}, pkg.VNFD), len(pkg.VNFD.Flavours) > 1}
	if shared {
		l.products[key] = &p
	}
	return &p
}

// packageOf returns the package of the row. shared says that it is that of all rows with the
// same brief: it is none that the instance's own history tells.
func (l *instanceList) packageOf(r *row, b *brief) (pkg *vnfd.Package, shared bool, err error) {
	if b.pkg == "" {
		if pkg, err = l.View.Find(l.ctx, b.vnfdID); err == nil {
			return pkg, true, nil
		}
	}
	pkg, err = l.View.Package(l.ctx, &desired.Instance{ID: r.id, VnfdID: b.vnfdID, Package: b.pkg, State: b.state})
	return pkg, err == nil && pkg.Tree == b.pkg, err
}
