package reconciler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// driven is the catalogue with a management driver for scaling.
type driven struct{ catalogue }

func (d driven) Open(ctx context.Context, tree string) (*vnfd.Package, error) {
	pkg, err := d.catalogue.Open(ctx, tree)
	if err == nil {
		pkg.VNFD.Flavours[0].Hooks = map[string]string{
			"scale_start": "Scripts/new.sh", "scale_end": "Scripts/new.sh",
			"scale_rollback_start": "Scripts/new.sh", "scale_rollback_end": "Scripts/new.sh",
		}
		pkg.VNFD.Flavours[0].HookTimeouts = map[string]time.Duration{"scale_end": time.Hour}
	}
	return pkg, err
}

// managed is a world of virtual machines with a management driver for scaling, at level 1.
func managed(t *testing.T) (*world, *rack, *stage) {
	return machines(t, func(c *reconciler.Config) {
		c.Packages = driven{}
		c.Seals.Hook = func(clear string) (string, error) { return "env:" + clear, nil }
		c.Seals.VIM = c.Seals.Hook
		c.Reveal = func(params map[string]any) (map[string]any, error) {
			out := map[string]any{}
			for k, v := range params {
				if s, ok := v.(string); ok {
					v = strings.TrimPrefix(s, "env:")
				}
				out[k] = v
			}
			return out, nil
		}
	})
}

// scale commits the file and waits until the scaling that it causes is in the state.
func (w *world) scale(text string, state lcm.State) *lcm.Operation {
	w.t.Helper()
	before := len(w.operations(lcm.Scale))
	w.commit(text)
	w.until("it is being scaled", func() bool { return len(w.operations(lcm.Scale)) > before })
	return w.last(lcm.Scale, state)
}

// retriedInVain retries the operation for the first time, and waits until that has failed.
func (w *world) retriedInVain(op string) {
	w.t.Helper()
	if _, err := w.log.Retry(w.t.Context(), op); err != nil {
		w.t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.until("the retry has failed", func() bool {
		op, err := w.log.Operation(w.t.Context(), op)
		return err == nil && op.Attempt == 2 && op.State == lcm.FailedTemp
	})
}

// names are the VIM's names of the targets.
func names(targets []hooks.Target) (list []string) {
	for _, t := range targets {
		list = append(list, t.VduID+" "+t.Unit.Name)
	}
	return list
}

// inputs are what the hooks were given so far.
func (s *stage) inputs() (list []hooks.Input) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		list = append(list, c.Input)
	}
	return list
}

func (s *stage) leaves(leave func(c hooks.Call) hooks.Output) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave = leave
}

// serves are the names of the servers of a VDU, the oldest first.
func (r *rack) serves(vdu string) (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.stacks {
		for _, m := range x.servers {
			if m.vdu == vdu {
				list = append(list, m.id)
			}
		}
	}
	return list
}

func TestAManagementDriverIsToldWhichVNFCsGoBeforeTheyDoAndWhichHaveCome(t *testing.T) {
	t.Parallel()

	w, r, s := managed(t)
	before := r.serves("VDU1")
	w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	come := slices.DeleteFunc(r.serves("VDU1"), func(name string) bool { return slices.Contains(before, name) })
	var want []string
	for _, name := range come {
		want = append(want, "VDU1 "+name)
	}
	in := s.inputs()
	if len(in) != 2 || in[0].Hook != "scale_start" || in[1].Hook != "scale_end" || len(come) == 0 {
		t.Fatalf("hooks %q, servers that came %q", s.told(), come)
	}
	if len(in[0].Added) != 0 || len(in[0].Removed) != 0 || !slices.Equal(names(in[1].Added), want) || len(in[1].Removed) != 0 {
		t.Errorf("scale-out: told of +%q -%q, then +%q -%q; want %q at the end", names(in[0].Added), names(in[0].Removed), names(in[1].Added), names(in[1].Removed), want)
	}
	if x := in[1].Added[0].Unit; len(x.Addresses["CP1"]) != 2 || !strings.HasPrefix(x.Addresses["CP1"][0], "192.0.2.") || len(x.Addresses["CP2"]) != 1 {
		t.Errorf("addresses of a new one: %v", x.Addresses)
	}
	if in[1].Instance.Levels["web"] != 2 || in[1].InstanceBefore == nil || in[1].InstanceBefore.Levels["web"] != 1 || in[1].Instance.VnfdID != vnfdID {
		t.Errorf("the instance is %+v, and was %+v", in[1].Instance, in[1].InstanceBefore)
	}
	if g := in[1].Grant; g.Operation != in[1].Operation.ID || len(g.Add) != len(come) || g.Add[0].ID != come[0] || g.Add[0].VduID != "VDU1" {
		t.Errorf("the grant is %+v", g)
	}

	w.scale(file("instantiated", "levels: {web: 1}\n"), lcm.Completed)
	in = s.inputs()[2:]
	if len(in) != 2 || len(in[0].Removed) != len(come) || !slices.Equal(names(in[0].Removed), names(in[1].Removed)) {
		t.Fatalf("scale-in: told that %q go, then that %q went", names(in[0].Removed), names(in[1].Removed))
	}
	if left := r.serves("VDU1"); !slices.Equal(left, before) {
		t.Errorf("left are %q, want %q", left, before)
	}
	for i, x := range in {
		if x.Removed[0].Unit.Addresses["CP1"] == nil || x.Removed[0].Unit.Ready != (i == 0) {
			t.Errorf("%s is told of %+v", x.Hook, x.Removed[0].Unit)
		}
	}
}

func TestTheVNFCsThatAManagementDriverWasToldOfAreTheOnesThatGo(t *testing.T) {
	t.Parallel()

	w, r, s := managed(t)
	w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	s.then(func(_ context.Context, c hooks.Call) error {
		return &hooks.FailedError{Path: c.Path, Reason: "exit status 1"}
	})
	op := w.scale(file("instantiated", "levels: {web: 1}\n"), lcm.FailedTemp)
	told := s.inputs()[2].Removed
	// Meanwhile another one dies, which would else be the first to go.
	var dead string
	r.meddle(func(x *stack) {
		for _, m := range x.servers {
			if m.vdu == "VDU1" && !slices.Contains(names(told), "VDU1 "+m.id) {
				m.dead, dead = "killed", m.id
				return
			}
		}
	})
	s.then(nil)
	if _, err := w.log.Retry(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.Completed)
	again := s.inputs()[3]
	if !slices.Equal(names(again.Removed), names(told)) {
		t.Errorf("first told that %q go, then that %q do", names(told), names(again.Removed))
	}
	for _, x := range told {
		if slices.Contains(r.serves("VDU1"), x.Unit.Name) {
			t.Errorf("%s, for which the driver prepared, is still there (%s died)", x.Unit.Name, dead)
		}
	}
}

func TestAScaleInThatOnlyPreparedIsRolledBack(t *testing.T) {
	t.Parallel()

	w, r, s := managed(t)
	w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	serving, calls := r.serves("VDU1"), len(s.inputs())
	s.then(func(_ context.Context, c hooks.Call) error {
		if c.Input.Hook == "scale_start" {
			return &hooks.FailedError{Path: c.Path, Reason: "exit status 1", Stderr: "a budget allows it never"}
		}
		return nil
	})
	op := w.scale(file("instantiated", "levels: {web: 1}\n"), lcm.FailedTemp)
	w.retriedInVain(op.ID) // which changes nothing of that
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.RolledBack)
	var hooks []string
	for _, in := range s.inputs()[calls:] {
		hooks = append(hooks, in.Hook)
		if len(in.Removed) == 0 && in.Hook != "scale_rollback_end" {
			t.Errorf("%s isn't told who was to go", in.Hook)
		}
	}
	if want := []string{"scale_start", "scale_start", "scale_rollback_start", "scale_rollback_end"}; !slices.Equal(hooks, want) {
		t.Errorf("run were %q", hooks)
	}
	if now := r.serves("VDU1"); !slices.Equal(now, serving) || w.head().Levels["web"] != 2 {
		t.Errorf("afterwards %q serve, and git says %v", now, w.head().Levels)
	}
}

func TestWhatAHookHandsOverReachesTheNextOneAndARetryAndIsStoredEncrypted(t *testing.T) {
	t.Parallel()

	w, _, s := managed(t)
	s.leaves(func(c hooks.Call) hooks.Output {
		return hooks.Output{HandOver: json.RawMessage(`{"seen":"` + c.Input.Hook + `"}`), Metadata: map[string]any{"dropped": "by a failure"}}
	})
	s.then(func(_ context.Context, c hooks.Call) error {
		if c.Input.Hook == "scale_end" {
			return &hooks.FailedError{Path: c.Path, Reason: "exit status 1"}
		}
		return nil
	})
	op := w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.FailedTemp)
	if op.HandOver != `env:{"seen":"scale_end"}` {
		t.Errorf("stored is %q", op.HandOver)
	}
	w.retriedInVain(op.ID)
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.RolledBack)
	var got []string
	for _, in := range s.inputs() {
		got = append(got, in.Hook+" "+string(in.HandOver))
	}
	want := []string{`scale_start `, `scale_end {"seen":"scale_start"}`, `scale_end {"seen":"scale_end"}`,
		`scale_rollback_start {"seen":"scale_end"}`, `scale_rollback_end {"seen":"scale_rollback_start"}`}
	if !slices.Equal(got, want) {
		t.Errorf("handed over: %q", got)
	}
	if in := w.head(); in.Metadata["dropped"] != nil {
		t.Errorf("git has the metadata of an operation that was rolled back: %v", in.Metadata)
	}
	last := s.inputs()[3]
	if len(last.Added) == 0 || !last.Rollback {
		t.Errorf("the rollback isn't told what was added: %+v", last)
	}
}

func TestAHookHasTheTimeThatTheVNFDGivesIt(t *testing.T) {
	t.Parallel()

	w, _, s := managed(t)
	w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	got := map[string]time.Duration{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		got[c.Input.Hook] = c.Timeout
	}
	if got["scale_start"] != 10*time.Minute || got["scale_end"] != time.Hour {
		t.Errorf("they have %v", got)
	}
}

func TestTheStoryOfAnOperationTellsItsStepsAndWhatHooksSay(t *testing.T) {
	t.Parallel()

	w, _, s := managed(t)
	s.leaves(func(c hooks.Call) hooks.Output {
		c.Said("worker5 joins")
		return hooks.Output{Message: "1 node joined"}
	})
	op := w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	var got []string
	for _, line := range op.Story {
		got = append(got, line.Text)
	}
	lines := func(hook string) []string {
		return []string{hook + ": Scripts/new.sh runs", hook + ": worker5 joins", hook + " is done: 1 node joined"}
	}
	all := strings.Join(got, "\n")
	parts := slices.Concat([]string{"STARTING", "PROCESSING"}, lines("scale_start"), []string{"scale "}, lines("scale_end"), []string{"COMPLETED"})
	at := 0
	for _, part := range parts {
		i := strings.Index(all[at:], part)
		if i < 0 {
			t.Fatalf("%q doesn't follow in\n%s", part, all)
		}
		at += i + len(part)
	}
}

func TestWhatAHookFoundOutIsInGitWhenTheOperationIsDoneAndCausesNoOther(t *testing.T) {
	t.Parallel()

	w, _, s := managed(t)
	w.commit(file("instantiated", "levels: {web: 1}\nmetadata: {old: goes, kept: stays}\nextensions: {beside: it}\n"))
	w.last(lcm.ModifyInfo, lcm.Completed)
	s.leaves(func(c hooks.Call) hooks.Output {
		if c.Input.Hook == "scale_start" {
			return hooks.Output{Metadata: map[string]any{"old": nil, "nodes": 2}}
		}
		return hooks.Output{Metadata: map[string]any{"nodes": 3}, Extensions: map[string]any{"endpoint": "https://10.0.0.1:6443"}}
	})
	op := w.scale(file("instantiated", "levels: {web: 2}\nmetadata: {old: goes, kept: stays}\nextensions: {beside: it}\n"), lcm.Completed)
	in := w.head()
	if in.Metadata["old"] != nil || in.Metadata["kept"] != "stays" || fmt.Sprint(in.Metadata["nodes"]) != "3" || in.Extensions["endpoint"] != "https://10.0.0.1:6443" || in.Extensions["beside"] != "it" {
		t.Errorf("git has metadata %v, extensions %v", in.Metadata, in.Extensions)
	}
	if seen := s.inputs()[1].Instance.Metadata; fmt.Sprint(seen["nodes"]) != "2" || seen["old"] != nil {
		t.Errorf("the second hook is given metadata %v", seen)
	}
	w.recon.Enqueue(id)
	kit.Stays(t, 100*time.Millisecond, func() error {
		inst, err := w.log.Instance(t.Context(), id)
		if err != nil || inst.Last != op.ID || inst.OutstandingCommit != "" || inst.Operated.Tree != inst.Settled.Tree {
			return fmt.Errorf("afterwards the record is %+v (%w)", inst, err)
		}
		return nil
	})
}

func TestHalfOfWhatNamesAUserDataClassIsRefused(t *testing.T) {
	t.Parallel()

	w, _, _ := managed(t)
	before := w.head()
	for params, why := range map[string]string{
		"{lcm-operation-user-data: Scripts/new.sh}":                                   "give both or neither",
		"{lcm-operation-user-data-class: C}":                                          "give both or neither",
		"{lcm-operation-user-data: nowhere.py, lcm-operation-user-data-class: C}":     "has no file nowhere.py",
		"{lcm-operation-user-data: Scripts/new.sh, lcm-operation-user-data-class: C}": "",
	} {
		after, err := desired.ParseInstance(dir+"/vnf.yaml", []byte(file("instantiated", "params: "+params+"\n")))
		if err != nil {
			t.Fatal(err)
		}
		err = w.recon.View().Check(t.Context(), nil, before, after)
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %v", params, err)
		}
	}
}
