package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/process"
)

// checkEverything compares what was asked for with git, the operations and what Jibe did
// at the API server, once all is at rest.
func (w *world) checkEverything() {
	w.t.Helper()
	ctx := w.t.Context()
	operations, err := process.All[occurrence](ctx, w.Present(), process.Operations+"?all_fields")
	if err != nil {
		w.t.Fatal(err)
	}
	history, err := process.ReadHistory(ctx, w.repository)
	if err != nil {
		w.t.Fatal(err)
	}
	known := map[string]*occurrence{}
	var bare []process.Operation
	for i, op := range operations {
		known[op.ID] = &operations[i]
		bare = append(bare, op.Operation)
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
		w.checkRequests(ctx, history, known),
		history.CheckPushes(ctx, w.pushes, bare),
		w.checkStories(ctx, history, operations),
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

// outcome says whether a commit puts a directory back after an operation, and isn't the
// one that asked for it.
func outcome(subject string) bool {
	return strings.HasPrefix(subject, "Roll back ") || strings.HasPrefix(subject, "Take back the failed ")
}

// askedBy are the commits that asked for an operation. One that was pushed while there was
// no Jibe may be named after any later commit that found the directory so, even after the
// outcome of another operation.
func askedBy(h *process.History, op process.Operation) []string {
	var commits []string
	for _, at := range h.Of(op) {
		if !outcome(h.Lines[at]) || !slices.Contains(h.Trailers[op.ID], at) {
			commits = append(commits, h.Commits[at])
		}
	}
	return commits
}

// checkRequests says which acknowledged request was lost: each has its operation, and one
// commit that wants what was asked for.
func (w *world) checkRequests(ctx context.Context, h *process.History, known map[string]*occurrence) error {
	var errs []error
	for _, r := range w.requests {
		op := known[r.operation]
		if op == nil || op.Instance != r.vnf.id || op.Type != r.what || op.Automatic {
			errs = append(errs, w.about(r.vnf, "the acknowledged %s %s is shown as %+v", r.what, r.operation, op))
			continue
		}
		commits := askedBy(h, op.Operation)
		if len(commits) != 1 {
			errs = append(errs, w.about(r.vnf, "%d commits have the trailer of the acknowledged %s %s", len(commits), r.what, r.operation))
			continue
		}
		after, err := process.Intent(ctx, w.repository, commits[0], r.vnf.dir)
		if err != nil {
			return err
		}
		for _, pod := range r.pods {
			if !hasValue(after.Condemned, pod) {
				errs = append(errs, w.about(r.vnf, "HEAL %s of pod %s: commit %s doesn't condemn it", r.operation, pod, commits[0]))
			}
		}
		if r.what == string(lcm.Heal) && len(after.Condemned) == 0 {
			errs = append(errs, w.about(r.vnf, "HEAL %s: commit %s condemns nothing", r.operation, commits[0]))
		}
		if r.vnfd != "" && (after.VnfdID != r.vnfd || w.trees[after.Package] == nil || w.trees[after.Package].vnfd != r.vnfd) {
			errs = append(errs, w.about(r.vnf, "%s %s to %s: commit %s says %s, %s", r.what, r.operation, r.vnfd, commits[0], after.VnfdID, after.Package))
		}
		if r.blueGreen {
			before, err := process.Intent(ctx, w.repository, commits[0]+"^", r.vnf.dir)
			if err != nil {
				return err
			}
			if before.Generation == after.Generation {
				errs = append(errs, w.about(r.vnf, "%s %s: commit %s has no new generation", r.what, r.operation, commits[0]))
			}
		}
		if r.steps != 0 {
			before, err := process.Intent(ctx, w.repository, commits[0]+"^", r.vnf.dir)
			if err != nil {
				return err
			}
			if after.Levels["front"]-before.Levels["front"] != r.steps {
				errs = append(errs, w.about(r.vnf, "SCALE %s by %d: commit %s goes from %d to %d", r.operation, r.steps, commits[0], before.Levels["front"], after.Levels["front"]))
			}
		}
	}
	return errors.Join(errs...)
}

func hasValue(m map[string]string, value string) bool {
	for _, v := range m {
		if v == value {
			return true
		}
	}
	return false
}

// checkStories says which operation's end has no reason: one that a person or client asked
// for belongs to one commit; it has completed, or somebody gave it up, or a newer one took
// its place. What Jibe began by itself has completed or made way, and says why it was.
func (w *world) checkStories(ctx context.Context, h *process.History, operations []occurrence) error {
	seen := map[string]string{}
	var errs []error
	for _, op := range operations {
		v := w.vnf(op.Instance)
		what := fmt.Sprintf("%s %s (automatic: %t), which is %s: %d %s", op.Type, op.ID, op.Automatic, op.State, op.Error.Status, op.Error.Detail)
		commits := askedBy(h, op.Operation)
		switch {
		case op.Automatic && (len(commits) > 0 || op.Type != string(lcm.Heal)):
			errs = append(errs, w.about(v, "%s: it belongs to %d commits", what, len(commits)))
		case op.Automatic && !strings.Contains(string(op.Params), "cause"):
			errs = append(errs, w.about(v, "%s: it doesn't say what it repairs: %s", what, op.Params))
		case !op.Automatic && len(commits) != 1:
			errs = append(errs, w.about(v, "%s: it belongs to %d commits", what, len(commits)))
		case !op.Automatic:
			key := commits[0] + " " + op.Instance
			if other, ok := seen[key]; ok {
				errs = append(errs, w.about(v, "%s and %s are of the same commit", what, other))
			}
			seen[key] = what
		}
		asked := w.ended[op.ID]
		superseded := slices.ContainsFunc(operations, func(other occurrence) bool {
			return other.Instance == op.Instance && other.ID != op.ID && !other.Started.Before(op.Started)
		})
		switch lcm.State(op.State) {
		case lcm.Completed:
			if op.Error.Detail != "" {
				errs = append(errs, w.about(v, "%s: it completed with an error", what))
			}
			continue
		case lcm.Failed:
			if strings.Contains(asked, "fail") || superseded {
				continue
			}
		case lcm.RolledBack:
			back, err := w.wentBack(ctx, h, op.Operation)
			if err != nil {
				return err
			}
			disowned := len(w.stripped[op.Instance]) > 0 && strings.Contains(op.Error.Detail, "is not Jibe's")
			if strings.Contains(asked, "rollback") || back || disowned {
				continue
			}
		}
		errs = append(errs, w.about(v, "%s: nobody asked for that end", what))
	}
	return errors.Join(errs...)
}

// checkDeletions says which pods Jibe has deleted although nobody asked for that very
// incarnation: a heal hits the pod that it names, and never the successor; a change of
// package may replace the bare Pod, and ends those that a StatefulSet of a generation that goes has left. The API server's audit log tells it.
func (w *world) checkDeletions(ctx context.Context, operations []occurrence) error {
	log, err := process.Git(ctx, w.repository, "log", "--format=", "-p", "-U0", "main", "--", "instances")
	if err != nil {
		return err
	}
	condemned := map[string]bool{}
	pattern := regexp.MustCompile(`^\+.*Pod/.*([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})`)
	for line := range strings.SplitSeq(log, "\n") {
		if m := pattern.FindStringSubmatch(line); m != nil {
			condemned[m[1]] = true
		}
	}
	var errs []error
	healed := 0
	err = w.plane.audit(func(line []byte) error {
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
			replaced := strings.HasPrefix(a.Ref.Name, "probe") || slices.Contains(w.orphaned[v.id], set)
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
func changing(operations []occurrence, v *vnf, at time.Time) bool {
	return slices.ContainsFunc(operations, func(op occurrence) bool {
		return op.Instance == v.id && op.Type == string(lcm.ChangePackage) && !op.Started.After(at) &&
			(op.State != string(lcm.Completed) || !op.Entered.Before(at))
	})
}
