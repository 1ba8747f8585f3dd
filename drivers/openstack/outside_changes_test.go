package openstack_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	goopenstack "github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

// outsider is somebody who works at the cloud beside Jibe.
type outsider struct {
	t                   *testing.T
	heat, nova, neutron *gophercloud.ServiceClient
	// breakServer puts a server into ERROR, stripPort takes the addresses off a port.
	breakServer, stripPort func(id string)
}

func newOutsider(t *testing.T, vim drivers.VIM) *outsider {
	t.Helper()
	p, err := goopenstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: vim.Endpoint, Username: vim.Username, Password: vim.Password, DomainName: vim.UserDomain,
		Scope: &gophercloud.AuthScope{ProjectName: vim.Project, DomainName: vim.ProjectDomain},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &outsider{t: t}
	region := gophercloud.EndpointOpts{Region: vim.Region}
	if h.heat, err = goopenstack.NewOrchestrationV1(p, region); err != nil {
		t.Fatal(err)
	}
	if h.nova, err = goopenstack.NewComputeV2(p, region); err != nil {
		t.Fatal(err)
	}
	if h.neutron, err = goopenstack.NewNetworkV2(p, region); err != nil {
		t.Fatal(err)
	}
	h.stripPort = func(id string) {
		h.ask(h.neutron, http.MethodPut, map[string]any{"port": map[string]any{"fixed_ips": []string{}}}, nil, "ports", id)
	}
	h.breakServer = func(id string) {
		h.ask(h.nova, http.MethodPost, map[string]any{"os-resetState": map[string]any{"state": "error"}}, nil, "servers", id, "action")
	}
	return h
}

func (h *outsider) ask(c *gophercloud.ServiceClient, method string, body, answer any, path ...string) {
	h.t.Helper()
	_, err := c.Request(h.t.Context(), method, c.ServiceURL(path...), &gophercloud.RequestOpts{
		JSONBody: body, JSONResponse: answer, OkCodes: []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent},
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *outsider) deleteServer(id string) { h.ask(h.nova, http.MethodDelete, nil, nil, "servers", id) }

func (h *outsider) deleteStack(o plan.Observed) {
	name, id := stackOf(o)
	h.ask(h.heat, http.MethodDelete, nil, nil, "stacks", name, id)
}

// rewrite changes the description in the stack's template.
func (h *outsider) rewrite(o plan.Observed) {
	name, id := stackOf(o)
	var template map[string]any
	h.ask(h.heat, http.MethodGet, nil, &template, "stacks", name, id, "template")
	template["description"] = "changed by hand"
	var files map[string]string
	h.ask(h.heat, http.MethodGet, nil, &files, "stacks", name, id, "files")
	h.ask(h.heat, http.MethodPatch, map[string]any{"template": template, "files": files}, nil, "stacks", name, id)
}

// stacks are the stacks of the name.
func (h *outsider) stacks(name string) int {
	var list struct {
		Stacks []struct {
			Name string `json:"stack_name"`
		} `json:"stacks"`
	}
	h.ask(h.heat, http.MethodGet, nil, &list, "stacks")
	n := 0
	for _, s := range list.Stacks {
		if s.Name == name {
			n++
		}
	}
	return n
}

func stackOf(o plan.Observed) (name, id string) {
	for _, x := range o.Objects {
		if rest, ok := strings.CutPrefix(x.Key, "Stack/"); ok {
			return rest, x.Incarnation
		}
	}
	return "", ""
}

// troubled takes one instance through what others do to it.
func troubled(t *testing.T, v *vnf, h *outsider, top string) {
	src := source(v.id, top, 1)
	var o plan.Observed

	t.Log("two processes make the stack at once")
	want, err := v.d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		d := connect(t, v.vim, openstack.Options{})
		wg.Go(func() {
			if err := d.Do(t.Context(), want, plan.Compute(want.Desired, plan.Observed{}, plan.Journal{})[0]); err != nil && !errors.Is(err, drivers.ErrUnavailable) {
				t.Errorf("Do = %v", err)
			}
		})
	}
	wg.Wait()
	o = v.reach(src)
	name, _ := stackOf(o)
	if n := h.stacks(name); n != 1 || len(o.Units) != 2 {
		t.Fatalf("there are %d stacks with %d servers", n, len(o.Units))
	}

	t.Log("somebody deletes a server")
	h.deleteServer(unitsOf(o, "VDU1")[0].Resource())
	o = v.repaired(src, o, "VDU1")

	t.Log("a server is in ERROR")
	volume := volumeOf(t, o)
	h.breakServer(unitsOf(o, "VDU2")[0].Resource())
	o = v.repaired(src, o, "VDU2")
	if now := volumeOf(t, o); now.Incarnation != volume.Incarnation {
		t.Errorf("the volume of the server in ERROR was made anew: %v, then %v", volume, now)
	}

	t.Log("a VNFC is healed with its storage")
	data := unitsOf(o, "VDU2")[0]
	o = v.reach(condemned(src, map[string]string{data.Key: data.ID, volume.Key: volume.Incarnation}))
	if now := volumeOf(t, o); now.Incarnation == volume.Incarnation || unitsOf(o, "VDU2")[0].ID == data.ID {
		t.Errorf("after the heal there still is %v of %v", now, data)
	}

	t.Log("somebody changes the template")
	before := o
	h.rewrite(o)
	v.until(src, func(o plan.Observed) bool {
		return slices.ContainsFunc(o.Objects, func(x plan.ObservedObject) bool { return x.Key == "Stack/"+name && x.Digest == "" })
	})
	found, err := v.d.Examine(t.Context(), want, plan.Step{Action: plan.Apply, Object: "Stack/" + name})
	if err != nil || !slices.ContainsFunc(found, func(d drivers.Deviation) bool { return d.Field == "template.description" }) {
		t.Errorf("Examine = %+v, %v", found, err)
	}
	o = v.reach(src)
	if !slices.Equal(names(before.Units), names(o.Units)) {
		t.Errorf("repairing the template changed servers: %v, then %v", names(before.Units), names(o.Units))
	}

	t.Log("a port has no address any more, as after a change that failed")
	port := func() plan.Resource {
		i := slices.IndexFunc(o.Resources, func(r plan.Resource) bool { return r.Kind == plan.LinkPort && r.Unit == unitsOf(o, "VDU1")[0].Key })
		if i < 0 {
			t.Fatalf("VDU1 has no port among %+v", o.Resources)
		}
		return o.Resources[i]
	}
	h.stripPort(port().ID)
	// Ports are looked at where their stack moved, as in such a change, and by a new process.
	v.d = connect(t, v.vim, v.speed.options)
	v.until(src, func(o plan.Observed) bool {
		return slices.ContainsFunc(o.Objects, func(x plan.ObservedObject) bool { return x.Key == "Stack/"+name && x.Digest == "" })
	})
	if o = v.reach(src); len(port().Addresses) == 0 {
		t.Errorf("it has none yet: %+v", port())
	}

	t.Log("a blue-green change")
	green := source(v.id, top, 1, "img2")
	green.Instance.Generation, green.Instance.Update.Strategy = "1", desired.BlueGreen
	old := o
	o, failure := v.operate(green, &plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true})
	if now, _ := stackOf(o); failure != "" || now != name+"-1" || h.stacks(name) != 0 {
		t.Fatalf("the change ended with %q at stack %s", failure, now)
	}
	for _, id := range names(old.Units) {
		if slices.Contains(names(o.Units), id) {
			t.Errorf("server %s is of both generations", id)
		}
	}

	t.Log("somebody deletes the stack")
	h.deleteStack(o)
	_, was := stackOf(o)
	v.until(green, func(o plan.Observed) bool { _, now := stackOf(o); return now == "" })
	o = v.reach(green)
	if _, now := stackOf(o); now == was || len(o.Units) != 2 {
		t.Errorf("after the stack was deleted there is %+v", o)
	}
	if rest := v.gone(); len(rest.Objects)+len(rest.Units) > 0 {
		t.Errorf("terminating left %+v", rest)
	}
}

// repaired waits until a server of the VDU is seen to be dead, and for its successor. No
// other server may change.
func (v *vnf) repaired(src drivers.Source, before plan.Observed, vdu string) plan.Observed {
	v.t.Helper()
	v.until(src, func(o plan.Observed) bool {
		return slices.ContainsFunc(unitsOf(o, vdu), func(u plan.Unit) bool { return u.Dead != "" })
	})
	after := v.reach(src)
	if now := unitsOf(after, vdu); len(now) != 1 || now[0].Resource() == unitsOf(before, vdu)[0].Resource() {
		v.t.Errorf("the dead server %v has the successor %v", names(unitsOf(before, vdu)), names(now))
	}
	for _, u := range before.Units {
		if u.VDU != vdu && !slices.Contains(names(after.Units), u.Resource()) {
			v.t.Errorf("server %s was lost, too", u.Name)
		}
	}
	return after
}

// until waits until something is seen, doing nothing.
func (v *vnf) until(src drivers.Source, seen func(o plan.Observed) bool) {
	v.t.Helper()
	want, err := v.d.Render(src)
	if err != nil {
		v.t.Fatal(err)
	}
	kit.EventuallyWithin(v.t, v.speed.patience, func() error {
		o, err := v.d.Observe(v.t.Context(), want)
		if err == nil && !seen(o) {
			err = fmt.Errorf("there still is %+v", o)
		}
		return err
	})
}

func TestWhatOthersDoAtARealCloudIsRepaired(t *testing.T) {
	t.Parallel()
	vim := lab(t)
	osenv.NeedFull(t)
	troubled(t, begin(t, vim, realSpeed), newOutsider(t, vim), expanded)
}

func TestWhatOthersDoAtAFakeCloudIsRepaired(t *testing.T) {
	t.Parallel()

	for name, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
		t.Run(name, func(t *testing.T) {
			cloud := fakeCloud(t)
			h := newOutsider(t, cloud.VIM())
			cloud.Race(2)
			h.breakServer = func(id string) { cloud.BreakServer(id, "its host burnt down") }
			h.stripPort = func(id string) { cloud.StripPort(id) }
			troubled(t, start(t, cloud), h, top)
			if left := cloud.Left(); len(left) > 0 {
				t.Errorf("terminating left %v", left)
			}
		})
	}
}
