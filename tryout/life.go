package tryout

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// life is the fleet and those who work with it.
type life struct {
	Options
	url    string
	cloud  *sim.Cloud
	clone  string
	tokens map[string]string // by name, "" is the admin
	// upgraded are the members that run the newer version, by directory.
	upgraded map[string]bool
	// failing is the id of the member that was let fail last, until somebody has seen to it.
	failing string
}

// event is something that happens to a member of the fleet, or that somebody asks for.
type event struct {
	what string
	does func(ctx context.Context, m member) error
}

// events are what happens, in turn. Each leaves the fleet so that the next can follow.
func (l *life) events() []event {
	return []event{
		{"a scale out", func(ctx context.Context, m member) error { return l.scale(ctx, m, "SCALE_OUT") }},
		{"a worker that dies", l.dies},
		{"a change by hand at the VIM", l.byHand},
		{"a heal", func(ctx context.Context, m member) error {
			return l.task(ctx, "ana", m, "heal", map[string]any{"cause": "it answers slowly"})
		}},
		{"a scale in", func(ctx context.Context, m member) error { return l.scale(ctx, m, "SCALE_IN") }},
		{"a scale out that fails", l.fails},
		{"an upgrade by git", l.upgrade},
		{"a scale out", func(ctx context.Context, m member) error { return l.scale(ctx, m, "SCALE_OUT") }},
		{"a drift that is only reported", l.reported},
	}
}

// live has events happen until ctx ends.
func (l *life) live(ctx context.Context) {
	l.upgraded = map[string]bool{}
	events, members := l.events(), fleet()
	for n := 0; ; n++ {
		e, m := events[n%len(events)], members[mathrand.IntN(len(members))]
		err := e.does(ctx, m)
		var no *refused
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &no):
			// It is busy, or at its bound: so it is for people, too.
			l.Log.DebugContext(ctx, "the fleet's life: refused", "event", e.what, "instance", m.dir, "error", err)
		case err != nil:
			l.Log.WarnContext(ctx, "the fleet's life: an event went wrong", "event", e.what, "instance", m.dir, "error", err)
		}
		if !pause(ctx, l.Pace) {
			return
		}
	}
}

// pause waits, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// task asks for an operation on a member.
func (l *life) task(ctx context.Context, who string, m member, task string, body any) error {
	_, err := l.ask(ctx, who, http.MethodPost, "/vnflcm/v2/vnf_instances/"+m.id()+"/"+task, body, nil)
	return err
}

func (l *life) scale(ctx context.Context, m member, way string) error {
	return l.task(ctx, "orchestrator", m, "scale", map[string]any{"type": way, "aspectId": m.product.Worker, "numberOfSteps": 1})
}

// dies ends a worker, as a host that fails does. Its workload replaces it.
func (l *life) dies(ctx context.Context, m member) error {
	var shown struct {
		InstantiatedVnfInfo struct {
			VnfcResourceInfo []struct{ ID, VduID string }
		}
	}
	if _, err := l.ask(ctx, "", http.MethodGet, "/vnflcm/v2/vnf_instances/"+m.id(), nil, &shown); err != nil {
		return err
	}
	for _, vnfc := range shown.InstantiatedVnfInfo.VnfcResourceInfo {
		if vnfc.VduID == "WORKER" && l.cloud.Kill(vnfc.ID) {
			return nil
		}
	}
	return nil
}

// byHand changes an object of a member at the VIM, which Jibe repairs.
func (l *life) byHand(_ context.Context, m member) error {
	l.cloud.DriftBy(m.workers(), "kubectl-edit")
	return nil
}

// reported changes an object of the member whose drift is only reported. A heal ends that when
// it is this event's turn again.
func (l *life) reported(ctx context.Context, _ member) error {
	for _, m := range fleet() {
		if !m.report {
			continue
		}
		var drift []struct{}
		if _, err := l.ask(ctx, "", http.MethodGet, "/jibe/v1/drift?instance="+m.id(), nil, &drift); err != nil {
			return err
		}
		if len(drift) > 0 {
			return l.task(ctx, "ben", m, "heal", map[string]any{"cause": "bring it back to what git says"})
		}
		l.cloud.DriftBy(m.workers(), "night-shift")
	}
	return nil
}

// fails lets a scale out fail, and has somebody see to it a while later.
func (l *life) fails(ctx context.Context, m member) error {
	if settled, err := l.settleFailed(ctx); err != nil || !settled {
		return err
	}
	for members := fleet(); ; m = members[mathrand.IntN(len(members))] {
		l.cloud.Fail(m.workers(), "image registry.example/"+m.product.Name+":"+m.product.Version+" can't be pulled: 503 Service Unavailable")
		err := l.scale(ctx, m, "SCALE_OUT")
		var no *refused
		if !errors.As(err, &no) {
			l.failing = m.id()
			return err
		}
		l.cloud.Fail(m.workers(), "") // it is busy, or at its bound: another one
		if !pause(ctx, l.Pace/10) {
			return nil
		}
	}
}

// settleFailed ends what made operations fail, and has them tried again, or taken back. It is false
// where the last one hasn't failed yet: nobody would see it fail.
func (l *life) settleFailed(ctx context.Context) (bool, error) {
	if l.failing != "" {
		var going []struct{ ID string }
		filter := "(eq,vnfInstanceId," + l.failing + ");(in,operationState,STARTING,PROCESSING)"
		if _, err := l.ask(ctx, "", http.MethodGet, "/vnflcm/v2/vnf_lcm_op_occs?filter="+url.QueryEscape(filter), nil, &going); err != nil || len(going) > 0 {
			return false, err
		}
		l.failing = ""
	}
	for _, m := range fleet() {
		l.cloud.Fail(m.workers(), "")
	}
	var failed []struct {
		ID        string
		Automatic bool `json:"isAutomaticInvocation"`
	}
	if _, err := l.ask(ctx, "", http.MethodGet, "/vnflcm/v2/vnf_lcm_op_occs?filter="+url.QueryEscape("(eq,operationState,FAILED_TEMP)"), nil, &failed); err != nil {
		return false, err
	}
	for _, op := range failed {
		task := []string{"retry", "rollback"}[mathrand.IntN(2)]
		var no *refused
		_, err := l.ask(ctx, "ana", http.MethodPost, "/vnflcm/v2/vnf_lcm_op_occs/"+op.ID+"/"+task, nil, nil)
		if err != nil && !errors.As(err, &no) {
			return false, err
		}
	}
	return true, nil
}

// upgrade takes a UPF to the other version by a commit.
func (l *life) upgrade(ctx context.Context, _ member) error {
	var members []member
	for _, m := range fleet() {
		if m.product.Name == "upf" {
			members = append(members, m)
		}
	}
	m := members[mathrand.IntN(len(members))]
	to, verb := products()[1], "Upgrade"
	if l.upgraded[m.dir] {
		to, verb = products()[0], "Take back"
	}
	file := "instances/" + m.dir + "/vnf.yaml"
	var err error
	for range 5 { // Jibe itself commits meanwhile
		r := git.Runner{Clone: l.clone}
		_, err1 := r.Run(ctx, "fetch", "--quiet", "origin", "main")
		_, err2 := r.Run(ctx, "reset", "--quiet", "--hard", "FETCH_HEAD")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if err := l.edit(file, to); err != nil {
			return err
		}
		if err = l.push(ctx, l.clone, "ben", fmt.Sprintf("%s %s to %s %s", verb, m.dir, to.Name, to.Version)); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	l.upgraded[m.dir] = !l.upgraded[m.dir]
	return nil
}
