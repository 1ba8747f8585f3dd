package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Problem is a file at the head of the desired repository that isn't obeyed, and why.
type Problem struct {
	desired.Problem
	// Instance is the id of the VNF instance that the file is of, "" where that isn't known.
	Instance string `json:"instance,omitempty"`
	// Since is when this process saw it first.
	Since time.Time `json:"since,omitzero"`
	// VIM is set where the problem isn't one of the file, but of what is at the VIM: objects that belong to no VNF.
	VIM string `json:"vim,omitempty"`
	// Repository is set where the problem isn't one of the file, but of a package repository that can't be fetched or read.
	Repository string `json:"repository,omitempty"`

	tree string // of the directory that isn't obeyed
}

// unobeyed holds why git's head isn't obeyed, for every instance of which that is so.
// It is a view of facts: a restart sees them anew.
type unobeyed struct {
	mu sync.Mutex
	of map[string]Problem
}

func newUnobeyed() *unobeyed { return &unobeyed{of: make(map[string]Problem)} }

// note takes down what is wrong. Its age counts from when the instance's file wasn't
// obeyed first for this reason.
func (u *unobeyed) note(head desired.Revision, problem desired.Problem, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := Problem{Problem: problem, Instance: head.Instance, Since: now, tree: head.Tree}
	if was, ok := u.of[head.Instance]; ok && was.Message == x.Message {
		x.Since = was.Since
	}
	u.of[head.Instance] = x
}

// at says whether this very content isn't obeyed.
func (u *unobeyed) at(head desired.Revision) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	x, ok := u.of[head.Instance]
	return ok && x.tree == head.Tree
}

func (u *unobeyed) clear(instance string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, instance)
}

// headProblems notes why what git's head asks of one instance isn't done.
type headProblems struct {
	id       string
	repo     desired.Repo
	unobeyed *unobeyed
	now      func() time.Time
}

// note notes why what head asks of the instance isn't done. It stands until
// [headProblems.obeyed] is called. A problem that names no file is one of the instance's own.
func (h headProblems) note(head desired.Revision, problem *desired.Problem) {
	noted := *problem
	noted.File = cmp.Or(noted.File, path.Join(head.Dir, desired.InstanceFile))
	h.unobeyed.note(head, noted, h.now())
}

// stuck notes what of err is the fault of the instance's file at head, and says whether
// that is all of it: what stands in the way may go without a commit.
func (h headProblems) stuck(ctx context.Context, head desired.Revision, err error) bool {
	text := ""
	if files, failed := h.repo.Files(ctx, head); failed == nil {
		text = string(files[desired.InstanceFile])
	}
	problem, ok := ProblemOf(head.Dir, text, err)
	if ok {
		h.note(head, problem)
	}
	return ok
}

// outstanding notes that git still asks for what an operation has ended with, as the outcome
// can't be committed.
func (h headProblems) outstanding(inst *lcm.Instance, err error) {
	head, exists := h.repo.Lookup(h.id)
	if !exists {
		head.Dir = inst.Operated.Dir
	}
	h.note(head, &desired.Problem{
		Message: fmt.Sprintf("operation %s has ended, and git doesn't say so yet: %v", inst.OutstandingCommit, err),
		Remedy:  "the repository must take Jibe's commits; it is tried again",
	})
}

// unproven notes that a record names what git doesn't prove, where that is why nothing of the instance goes on.
func (h headProblems) unproven(ctx context.Context, err error) {
	var unproven *desired.UnprovenError
	if !errors.As(err, &unproven) {
		return
	}
	head, exists := h.repo.Lookup(h.id)
	if !exists {
		head = desired.Revision{Instance: h.id, Dir: unproven.Dir}
	}
	h.stuck(ctx, head, err)
}

// remains notes that objects of an instance are left which an operation that was set to FAILED had made.
func (h headProblems) remains(head desired.Revision, inst *desired.Instance, keys []string) {
	h.note(head, &desired.Problem{
		Message: fmt.Sprintf("operation %s was set to FAILED, and left what it had made: %s", inst.Held, some(keys)),
		Remedy:  "POST …/vnf_instances/" + h.id + "/terminate ends it, and so does the removal of " + head.Dir + "; an INSTANTIATE takes it over",
	})
}

// mostKeys is how many objects a message names.
const mostKeys = 10

// some names the objects, as many as a message has room for.
func some(keys []string) string {
	if n := len(keys) - mostKeys; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(keys[:mostKeys], ", "), n)
	}
	return strings.Join(keys, ", ")
}

// obeyed notes that nothing keeps git's head from being obeyed.
func (h headProblems) obeyed() { h.unobeyed.clear(h.id) }

// Problems lists why git's head isn't obeyed, by file: an instance whose file can be
// read, but asks for what can't be done, that runs what its project doesn't allow any
// more, or of which the VIM can't list a kind of object. Files that can't be read are reported by the desired repository itself.
func (v *View) Problems() []Problem {
	u := v.r.unobeyed
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]Problem, 0, len(u.of))
	for _, x := range u.of {
		list = append(list, x)
	}
	unlisted := make(map[string]bool)
	for _, x := range v.r.unlisted.list() {
		unlisted[x.Instance] = true
		list = append(list, x.problem())
	}
	for _, x := range v.r.outside.list() {
		if _, other := u.of[x.Instance]; !other && !unlisted[x.Instance] {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Instance, b.Instance))
	})
	return list
}

// Problem says why git's head of one instance isn't obeyed; false where it is.
func (v *View) Problem(instance string) (Problem, bool) {
	u := v.r.unobeyed
	u.mu.Lock()
	defer u.mu.Unlock()
	if x, ok := u.of[instance]; ok {
		return x, true
	}
	if x, ok := v.r.unlisted.problem(instance); ok {
		return x, true
	}
	return v.r.outside.problem(instance)
}

// EnqueueUnobeyed asks for a look at every instance whose head isn't obeyed: what stood
// in the way may have gone.
func (r *Reconciler) EnqueueUnobeyed() {
	for _, x := range r.View().Problems() {
		r.Enqueue(x.Instance)
	}
}

// ProblemOf makes a refusal a problem of the instance's file in the directory dir, whose
// text is text; false for an error that isn't about the file at all.
func ProblemOf(dir, text string, err error) (*desired.Problem, bool) {
	p := &desired.Problem{File: path.Join(dir, desired.InstanceFile)}
	var broken *vnfd.InvalidError
	if errors.Is(err, packages.ErrUnknown) || errors.As(err, &broken) {
		p.Line, p.Message, p.Remedy = LineOf(text, "vnfdId"), err.Error(), "`jibe get packages` lists what is known"
		return p, true
	}
	field, reason, ok := Refused(err)
	if !ok {
		return nil, false
	}
	p.Line, p.Message = LineOf(text, field), reason
	if need, ok := strings.CutPrefix(field, needsField+"."); ok {
		p.Line = lineOfNeed(text, need)
	}
	return p, true
}

// Refused says whether err means that a change can never be accepted, and names
// the field that is at fault, "" where that is an object or a file, which reason names then.
func Refused(err error) (field, reason string, ok bool) {
	var refused *drivers.RefusedError
	if errors.As(err, &refused) {
		if refused.Object != "" {
			return "", refused.Error(), true
		}
		return refused.Field, refused.Reason, true
	}
	var p *desired.Problem
	if errors.As(err, &p) {
		return "", p.Error(), true
	}
	return "", "", false
}

// LineOf is the line of a top-level key, or 0.
func LineOf(text, field string) int {
	key, _, _ := strings.Cut(field, ".")
	if key == "" {
		return 0
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, key+":") {
			return i + 1
		}
	}
	return 0
}
