package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/load"
	"github.com/jibe-vnfm/jibe/test/process"
)

// checkEverything compares what was asked for with git, the operations and what Jibe did
// at the API server, once all is at rest.
func (w *world) checkEverything() {
	w.t.Helper()
	ctx := w.t.Context()
	operations, err := w.people.Occurrences(ctx, w.Present())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, op := range operations {
		story := op.State
		if op.Automatic {
			story += " (automatic)"
		}
		w.log.count("operations: " + op.Type + " " + story)
	}
	if w.log.counts["operations: "+string(lcm.ChangePackage)+" "+string(lcm.Completed)] == 0 {
		w.t.Error("no change of package has completed: nothing is proven of them")
	}
	for _, err := range []error{
		w.people.Kept(ctx),
		w.people.CheckAsked(ctx, operations),
		w.checkDeletions(ctx, operations),
		w.checkTraffic(),
	} {
		if err != nil {
			w.fail(err)
		}
	}
	for _, repository := range []string{"desired.git", "packages/packages.git"} {
		if err := process.Fsck(ctx, filepath.Join(w.data, repository)); err != nil {
			w.fail(err)
		}
	}
}

// expectEnd returns an error where an operation's end has no reason: one that a person or client asked
// for has completed, or a person gave it up, or a newer one took its place. What Jibe began by itself
// has completed or made way, and says why it was.
func (w *world) expectEnd(ctx context.Context, h *process.History, op load.Occurrence, commits []string) error {
	switch {
	case op.Automatic && (len(commits) > 0 || op.Type != string(lcm.Heal)):
		return fmt.Errorf("it belongs to %d commits", len(commits))
	case op.Automatic && !strings.Contains(string(op.Params), "cause"):
		return fmt.Errorf("it doesn't say what it repairs: %s", op.Params)
	}
	asked := w.ended[op.ID]
	switch lcm.State(op.State) {
	case lcm.Completed:
		if op.Error.Detail != "" {
			return errors.New("it completed with an error")
		}
		return nil
	case lcm.Failed:
		others, err := w.people.Occurrences(ctx, w.Present(), "(eq,vnfInstanceId,"+op.Instance+")")
		superseded := slices.ContainsFunc(others, func(other load.Occurrence) bool {
			return other.ID != op.ID && !other.Started.Before(op.Started)
		})
		if err != nil || strings.Contains(asked, "fail") || superseded {
			return err
		}
	case lcm.RolledBack:
		back, err := w.wentBack(ctx, h, op.Operation, commits)
		disowned := len(w.stripped[op.Instance]) > 0 && strings.Contains(op.Error.Detail, "is not Jibe's")
		if err != nil || strings.Contains(asked, "rollback") || back || disowned {
			return err
		}
	}
	return errors.New("nobody asked for that end")
}

// checkDeletions says which pods Jibe has deleted although nobody asked for that very
// incarnation: a heal hits the pod that it names, and never the successor; a change of
// package may replace the bare Pod, and ends those that a StatefulSet of a generation that goes has left. The API server's audit log tells it.
func (w *world) checkDeletions(ctx context.Context, operations []load.Occurrence) error {
	condemned, err := w.people.Condemned(ctx, "instances")
	if err != nil {
		return err
	}
	var errs []error
	healed := 0
	err = w.audit(func(line []byte) error {
		var a auditEvent
		if json.Unmarshal(line, &a) != nil { // cut short by a kill
			return nil
		}
		if a.Agent != "jibe" || a.Verb != "delete" || a.Ref.Resource != "pods" || a.Ref.Subresource != "" || a.Response.Code >= 300 {
			return nil
		}
		healed++
		uid := a.Request.Preconditions.UID
		if condemned[uid] || w.failed[uid] {
			return nil
		}
		for _, v := range w.vnfs {
			set := a.Ref.Name[:max(strings.LastIndex(a.Ref.Name, "-"), 0)]
			// A StatefulSet waits in vain for a pod of a former template that isn't ready.
			waits := strings.HasPrefix(a.Ref.Name, "store")
			replaced := strings.HasPrefix(a.Ref.Name, "probe") || waits || slices.Contains(w.orphaned[v.id], set)
			if v.namespace == a.Ref.Namespace && !(replaced && changing(operations, v, a.At)) {
				errs = append(errs, w.about(v, "Jibe deleted pod %s %q at %s, which no commit condemns", a.Ref.Name, uid, a.At))
			}
		}
		return nil
	})
	w.log.mu.Lock()
	w.log.counts["pods that Jibe deleted"] = healed
	w.log.counts["pods that commits condemned"] = len(condemned)
	w.log.mu.Unlock()
	if healed == 0 {
		errs = append(errs, errors.New("the audit log has no pod that Jibe deleted: nothing is proven"))
	}
	return errors.Join(append(errs, err)...)
}

// changing says whether the instance's package was being changed at a moment, or a change
// that didn't complete had left something over.
func changing(operations []load.Occurrence, v *vnf, at time.Time) bool {
	return slices.ContainsFunc(operations, func(op load.Occurrence) bool {
		return op.Instance == v.id && op.Type == string(lcm.ChangePackage) && !op.Started.After(at) &&
			(op.State != string(lcm.Completed) || !op.Entered.Before(at))
	})
}
