package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/plan"
)

// work is what a batch of steps asks of one stack.
type work struct {
	name   string
	delete string         // the stack's id
	apply  bool           // create it, or bring it to its render
	counts map[string]int // by VDU
	// victims and renew are units' incarnations, dead those to be made anew, volumes the
	// ids of volumes to be made anew.
	victims, renew, dead, volumes map[string]bool
	// power are units' incarnations to be turned on (true) or off. Heat has no part in it.
	power map[string]bool
}

// Do implements [drivers.Driver]. It turns what a batch asks of one stack into one request to
// Heat, composed out of what the stack is now; before, it marks resources that must go. After
// a crash between any two requests the same plan comes to the same end.
func (d *Driver) Do(ctx context.Context, r drivers.Rendering, steps ...plan.Step) error {
	works, err := fold(r.Source.Instance.ID, steps)
	if err != nil {
		return err
	}
	// A snapshot that began before now may not show the effect.
	defer d.noteWork(r.Source.Instance.ID)
	for _, w := range works {
		if err := d.work(ctx, r, w); err != nil {
			return fmt.Errorf("VIM %s: %w", d.vim.Name, drivers.About(stackKey(w.name), err))
		}
	}
	return nil
}

// fold gathers what the steps ask of each stack, in the order of the steps.
func fold(instance string, steps []plan.Step) ([]*work, error) {
	var works []*work
	of := func(key string) *work {
		name := strings.TrimPrefix(key, "Stack/")
		i := slices.IndexFunc(works, func(w *work) bool { return w.name == name })
		if i < 0 {
			i = len(works)
			works = append(works, &work{name: name, counts: map[string]int{}, victims: map[string]bool{},
				renew: map[string]bool{}, dead: map[string]bool{}, volumes: map[string]bool{}, power: map[string]bool{}})
		}
		return works[i]
	}
	for _, s := range steps {
		switch {
		case s.Action == plan.Delete && strings.HasPrefix(s.Object, "Volume/"):
			of(stackOf(instance, s.Object)).volumes[s.Incarnation] = true
		case s.Action == plan.Delete:
			of(s.Object).delete = s.Incarnation
		case s.Action == plan.Apply:
			of(s.Object).apply = true
		case s.Action == plan.Scale:
			w := of(s.Object)
			w.counts[s.VDU] = s.To
			for _, id := range s.Victims {
				w.victims[id] = true
			}
		case s.Action == plan.DeleteUnit:
			of(stackOf(instance, s.Object)).dead[s.Incarnation] = true
		case s.Action == plan.Renew:
			of(stackOf(instance, s.Object)).renew[s.Incarnation] = true
		case s.Action == plan.Stop, s.Action == plan.Start:
			of(stackOf(instance, s.Object)).power[s.Incarnation] = s.Action == plan.Start
		default:
			return nil, fmt.Errorf("a driver doesn't do %q", s.Action)
		}
	}
	return works, nil
}

// stackOf is the key of the stack that the unit or volume under the key is of.
func stackOf(instance, key string) string {
	parts := strings.Split(key, "/")
	generation := map[string]int{"Server": 3, "Volume": 4}[parts[0]]
	name := stackPrefix + instance
	if len(parts) > generation {
		name += "-" + parts[generation]
	}
	return stackKey(name)
}

func (d *Driver) work(ctx context.Context, r drivers.Rendering, w *work) error {
	if w.delete != "" {
		name, _, _ := strings.Cut(w.name, "/") // in the key of a duplicate the id follows
		return d.deleteStack(ctx, r.Source.Instance.ID, stackID{name, w.delete})
	}
	if err := d.power(ctx, w.power); err != nil || w.onlyPower() {
		return err
	}
	found, err := d.named(d.cloud.stackNamed(ctx, w.name))
	if err != nil {
		return err
	}
	if found == nil {
		if !w.apply {
			return nil // what the steps act on is gone
		}
		if found, err = d.create(ctx, r, w); found == nil || err != nil {
			return err
		}
	}
	if found.deleting() {
		if !w.apply {
			return nil
		}
		return fmt.Errorf("%w: its predecessor is still being deleted", drivers.ErrUnavailable)
	}
	return d.update(ctx, r, w, found)
}

// deleteStack deletes that incarnation, after its servers in ERROR. Heat gets the name and
// the id together, so that a successor of the name isn't hit.
func (d *Driver) deleteStack(ctx context.Context, instance string, s stackID) error {
	found, err := d.named(d.cloud.findStack(ctx, s))
	if err != nil || found == nil || found.deleting() {
		return err
	}
	inError, err := d.failedServers(ctx, instance, found.generation(instance))
	if err != nil {
		return err
	}
	if err := d.deleteServers(ctx, inError...); err != nil {
		return err
	}
	return d.cloud.deleteStack(ctx, s)
}

// create makes the stack. Where somebody has made one of that name meanwhile, create returns
// that one, to be adopted: it is the instance's, as nothing else makes such a name.
func (d *Driver) create(ctx context.Context, r drivers.Rendering, w *work) (*stackRecord, error) {
	rendered, err := templatesOf(r)
	if err != nil {
		return nil, err
	}
	if stackName(r.Source.Instance) != w.name {
		return nil, &drivers.RefusedError{Object: stackKey(w.name), Reason: "is not part of the rendered instance"}
	}
	counts := map[string]int{}
	for _, g := range r.Groups {
		counts[g.VDU] = g.Count
	}
	body, err := rendered.Create(counts)
	if err != nil {
		return nil, &drivers.RefusedError{Object: stackKey(w.name), Reason: err.Error()}
	}
	send, err := d.send(r.Source.Instance.ID, rendered, body)
	if err != nil {
		return nil, err
	}
	send["stack_name"] = w.name
	send["disable_rollback"] = true // a stack that failed stays: people can look at it, and an update goes on with it
	err = d.cloud.createStack(ctx, send)
	if is(err, http.StatusConflict) {
		found, err := d.named(d.cloud.stackNamed(ctx, w.name))
		if err == nil && found == nil { // only another project may see it
			err = fmt.Errorf("%w: a stack of that name is in the way", drivers.ErrUnavailable)
		}
		return found, err
	}
	return nil, d.refused(stackKey(w.name), err)
}

// send is the part of a request that is the same for new stacks and for updates.
func (d *Driver) send(instance string, rendered *hot.Rendered, body *hot.Body) (stackRequest, error) {
	hash, err := (&liveBody{Template: body.Template, Files: body.Files, Parameters: body.Parameters}).hash()
	if err != nil {
		return nil, err
	}
	tags := []string{tagJibe, tagInstance + instance, tagDigest + rendered.Digest, tagBody + hash}
	if d.opts.Installation != "" {
		tags = append(tags, tagInstallation+d.opts.Installation)
	}
	return stackRequest{
		"template": body.Template, "files": nonNil(body.Files), "parameters": nonNil(body.Parameters),
		"timeout_mins": d.minutes(), "tags": strings.Join(tags, ","),
	}, nil
}

// minutes is how long Heat may work on a stack.
func (d *Driver) minutes() int { return max(1, int(d.opts.StackTimeout/time.Minute)) }

// nonNil is the map: Heat refuses null in place of an empty one.
func nonNil[M ~map[K]V, K comparable, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}

// refused turns Heat's answer to a request about the stack into an error that callers decide on.
func (d *Driver) refused(key string, err error) error {
	switch {
	case err == nil || errors.Is(err, drivers.ErrUnavailable): // such as a right that the credentials lack
		return err
	case is(err, http.StatusBadRequest), is(err, http.StatusForbidden), is(err, http.StatusRequestEntityTooLarge), is(err, http.StatusUnprocessableEntity):
		return &drivers.RefusedError{Object: key, Reason: err.Error()}
	}
	return d.cloud.asUnavailable(err)
}

// present is a stack as it was just read, for requests that are composed out of it.
type present struct {
	*stack
	units map[string]*node // its servers, by incarnation
}

func (d *Driver) fetch(ctx context.Context, r *stackRecord) (*present, error) {
	s := &stack{stackRecord: *r}
	if err := d.look(ctx, s, nil, nil, true); err != nil {
		return nil, d.cloud.asUnavailable(err)
	}
	p := &present{stack: s, units: map[string]*node{}}
	for _, n := range s.tree.all {
		if n.Type == typeServer && n.Physical != "" {
			p.units[incarnation(s, n.Physical)] = n
		}
	}
	return p, nil
}

// unit is the node of the incarnation, nil if it is no longer there. A server that is gone is
// found although nobody knows any more when it was launched.
func (p *present) unit(incarnation string) *node {
	if n := p.units[incarnation]; n != nil {
		return n
	}
	id := plan.ResourceOf(incarnation)
	if n := p.units[id+"@"]; n != nil && p.servers[id] == nil {
		return n
	}
	return nil
}

// members are the VNFCs that Heat counts, by VDU.
func (p *present) members(rendered *hot.Rendered) map[string][]hot.Member {
	all := map[string][]hot.Member{}
	seen := map[string]bool{}
	add := func(vdu, name, digest string) {
		if vdu != "" && !seen[vdu+"/"+name] {
			seen[vdu+"/"+name] = true
			all[vdu] = append(all[vdu], hot.Member{Name: name, Digest: digest})
		}
	}
	for _, n := range p.tree.all {
		if n.Type != typeServer {
			continue
		}
		digest := ""
		if v := p.servers[n.Physical]; v != nil {
			digest = v.Metadata[hot.MetaDigest]
		}
		add(p.vdu(n), n.memberName(), digest)
	}
	for _, n := range p.tree.all { // members that never came to a server
		if n.parent != nil && n.parent.Type == typeGroup {
			add(p.live.vdu(n.top().Name), n.Name, "")
		}
	}
	resources, _ := p.live.Template["resources"].(map[string]any)
	for name := range resources {
		base, index, ok := hot.Split(name)
		for _, vdu := range slices.Sorted(maps.Keys(rendered.VDUs)) {
			if def := rendered.VDUs[vdu]; ok && def.Shape == hot.Expanded && def.Resource == base {
				add(vdu, strconv.Itoa(index), "")
			}
		}
	}
	for _, members := range all {
		slices.SortFunc(members, func(a, b hot.Member) int { return cmp.Compare(a.Name, b.Name) })
	}
	return all
}
