package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
)

// Orphan is an object of this installation at a VIM that belongs to no VNF: its instance isn't instantiated, or runs at
// another VIM.
type Orphan struct {
	VIM string `json:"vim"`
	// Instance is the id that the object names. Dir and VNF are the directory and name that the instance has, or had when
	// it was last operated on; "" where no record says.
	Instance string `json:"instance"`
	Dir      string `json:"dir,omitempty"`
	VNF      string `json:"vnfName,omitempty"`
	// Object is its key, and Incarnation the VIM's id of it.
	Object      string    `json:"object"`
	Incarnation string    `json:"incarnation"`
	Created     time.Time `json:"created,omitzero"`
	// Data reports that data are lost with it, Deleting that it is being deleted.
	Data     bool `json:"data,omitempty"`
	Deleting bool `json:"deleting,omitempty"`
	// Why says why it belongs to no VNF.
	Why string `json:"why"`
}

// Orphans is what a survey of all VIMs found, by VIM, instance and object.
type Orphans struct {
	Orphans []Orphan `json:"orphans"`
	// VIMs are those that were looked at.
	VIMs []string `json:"vims"`
	// Unseen are the VIMs of which nothing is known now.
	Unseen []Unseen `json:"unseen"`
}

const (
	// surveyPause is the time between two surveys that no caller asks for. They read what the drivers hold anyway.
	surveyPause = 30 * time.Second
	// surveySoon is that after one that couldn't be made, as a process that starts hasn't read everything yet, and after
	// something moved that may be an orphan.
	surveySoon = 2 * time.Second
	// surveyLater is that after an orphan moved that is known.
	surveyLater = 10 * time.Second
	// surveyPatience bounds the wait for one VIM, whose watches may just have begun.
	surveyPatience = 5 * time.Second
	// surveyParallel is how many VIMs are surveyed at once.
	surveyParallel = 16
)

// orphans is what the last survey found. It is a view of facts: a restart sees them again.
type orphans struct {
	mu    sync.Mutex
	last  Orphans
	since map[string]time.Time // by VIM: when the first that is there was found
	again chan struct{}        // has one where a survey is due soon
	later chan struct{}        // has one where it isn't as soon: what moved was known
	// moving are the instances that moved since the last survey began, and surveyed those that it was made for.
	moving, surveyed map[string]bool
}

func newOrphans() *orphans {
	return &orphans{since: map[string]time.Time{}, again: make(chan struct{}, 1), later: make(chan struct{}, 1), moving: map[string]bool{}}
}

// moved has a survey made for an instance that nothing should be of: soon, or later where the last one found it already, or
// was made for it and didn't: an orphan whose pods crash moves all the time, and another replica may survey its VIM.
func (o *orphans) moved(instance string) {
	o.mu.Lock()
	o.moving[instance] = true
	known := o.surveyed[instance] || slices.ContainsFunc(o.last.Orphans, func(x Orphan) bool { return x.Instance == instance })
	o.mu.Unlock()
	if !known {
		o.wake()
		return
	}
	select {
	case o.later <- struct{}{}:
	default:
	}
}

// wake has a survey made soon.
func (o *orphans) wake() {
	select {
	case o.again <- struct{}{}:
	default:
	}
}

// begin notes that a survey begins, and failed that it couldn't be made.
func (o *orphans) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.surveyed, o.moving = o.moving, map[string]bool{}

	for _, due := range []chan struct{}{o.again, o.later} { // this one is made for them
		select {
		case <-due:
		default:
		}
	}
}

func (o *orphans) failed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.surveyed = nil
}

// note takes down what was found, and returns those VIMs that had no orphans before. What is known of a VIM that
// can't be seen stands.
func (o *orphans) note(found *Orphans, now time.Time) (news []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.Clone(found.Orphans)
	for _, x := range o.last.Orphans {
		if slices.ContainsFunc(found.Unseen, func(u Unseen) bool { return u.VIM == x.VIM }) {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, compareOrphans)
	o.last = Orphans{all, found.VIMs, found.Unseen}

	since := map[string]time.Time{}
	for _, x := range all {
		if since[x.VIM].IsZero() {
			if since[x.VIM] = cmp.Or(o.since[x.VIM], now); o.since[x.VIM].IsZero() {
				news = append(news, x.VIM)
			}
		}
	}
	o.since = since
	return news
}

func compareOrphans(a, b Orphan) int {
	return cmp.Or(strings.Compare(a.VIM, b.VIM), strings.Compare(a.Instance, b.Instance), strings.Compare(a.Object, b.Object),
		strings.Compare(a.Incarnation, b.Incarnation))
}

// surveyAgain keeps what is known of orphans up to date, until ctx ends.
func (r *Reconciler) surveyAgain(ctx context.Context) error {
	for {
		r.orphans.begin()
		found, err := r.survey(ctx, r.surveys)
		pause := surveySoon
		if err == nil {
			pause = surveyPause
			for _, vim := range r.orphans.note(found, r.Now()) {
				r.Log.WarnContext(ctx, "objects at the VIM belong to no VNF: see jibe get orphans", "vim", vim)
			}
		} else if r.orphans.failed(); ctx.Err() == nil {
			r.Log.DebugContext(ctx, "no survey of orphans can be made now", "error", err)
		}
		if !r.orphans.due(ctx, pause) {
			return nil
		}
	}
}

// due returns once a survey is due, after the pause at the latest; false where ctx ended.
func (o *orphans) due(ctx context.Context, pause time.Duration) bool {
	end := time.Now().Add(pause)
	later := o.later
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Until(end)):
			return true
		case <-later:
			later = nil
			end = sooner(end, surveyLater)
		case <-o.again:
			end = sooner(end, surveySoon) // what moves at a VIM moves more than once
		}
	}
}

// sooner returns the end of the pause from now on, or the other one where that is earlier.
func sooner(end time.Time, pause time.Duration) time.Time {
	if at := time.Now().Add(pause); at.Before(end) {
		return at
	}
	return end
}

// surveys reports whether it is this replica that surveys the VIM unasked: one does, so that not each connects to all VIMs.
func (r *Reconciler) surveys(vim string) bool { return r.Member.Mine("vim/" + vim) }

// everyVIM is for a survey that a caller asks for.
func everyVIM(string) bool { return true }

// Orphans surveys all VIMs for objects of this installation that belong to no VNF. An error wraps
// [desired.ErrUnavailable]: what should run isn't known for sure now, so that nothing counts as an orphan.
func (v *View) Orphans(ctx context.Context) (*Orphans, error) { return v.r.survey(ctx, everyVIM) }

// KnownOrphans returns what the last survey found, without another one.
func (v *View) KnownOrphans() Orphans {
	o := v.r.orphans
	o.mu.Lock()
	defer o.mu.Unlock()
	return Orphans{slices.Clone(o.last.Orphans), slices.Clone(o.last.VIMs), slices.Clone(o.last.Unseen)}
}

// OrphanProblems returns one problem for each VIM at which the last survey found orphans, by VIM.
func (v *View) OrphanProblems() []Problem {
	o := v.r.orphans
	o.mu.Lock()
	defer o.mu.Unlock()
	keys := map[string][]string{}
	var vims []string
	for _, x := range o.last.Orphans {
		if keys[x.VIM] == nil {
			vims = append(vims, x.VIM)
		}
		keys[x.VIM] = append(keys[x.VIM], x.Object)
	}

	list := make([]Problem, 0, len(vims))
	for _, vim := range vims {
		list = append(list, Problem{VIM: vim, Since: o.since[vim], Problem: desired.Problem{
			File:    v.fileOfVIM(vim),
			Message: fmt.Sprintf("objects of this installation at the VIM belong to no VNF: %s", some(keys[vim])),
			Remedy:  "`jibe get orphans` shows them and why, and `jibe orphans delete --vim " + vim + "` deletes them",
		}})
	}
	return list
}

// fileOfVIM names where the connection stands: a file under vims/, or an instance that brings its own.
func (v *View) fileOfVIM(name string) string {
	if settings, err := v.r.Repo.Settings(); err == nil && settings.VIMs[name] == nil {
		return "vimConnectionInfo " + name
	}
	return "vims/" + name + ".yaml"
}

// surveyor finds orphans by what git, the records and the VIMs say at one moment.
type surveyor struct {
	resolver
	oplog    *oplog.Log
	settings *desired.Settings
	sites    []*site
	unseen   []Unseen
	// named are the ids of which the desired repository has a problem: what they should be isn't known.
	named map[string]bool
}

// survey looks at those VIMs that files under vims/ name and that which picks, and at those of instances' own connections.
func (r *Reconciler) survey(ctx context.Context, which func(vim string) bool) (*Orphans, error) {
	s, err := r.newSurveyor(ctx, which)
	if err != nil {
		return nil, err
	}
	return s.all(ctx), nil
}

// newSurveyor refuses where what should run isn't known for sure.
func (r *Reconciler) newSurveyor(ctx context.Context, which func(vim string) bool) (*surveyor, error) {
	if r.Whole != nil && !r.Whole() {
		return nil, fmt.Errorf("%w: the records are being made of what git says", desired.ErrUnavailable)
	}
	if err := r.Repo.Stale(); err != nil {
		return nil, fmt.Errorf("%w: what runs may be desired by commits that aren't known here: %w", desired.ErrUnavailable, err)
	}
	if known, err := r.Repo.Knows(ctx, ""); err != nil || !known {
		return nil, fmt.Errorf("%w: commits that other replicas have made are still to be fetched: %w", desired.ErrUnavailable, cmp.Or(err, errBehind))
	}
	if err := r.Oplog.Sync(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
	}
	settings, err := r.Repo.Settings()
	if err != nil {
		return nil, err
	}

	s := &surveyor{resolver: r.resolver, oplog: r.Oplog, settings: settings, named: map[string]bool{}}
	for _, p := range r.Repo.Problems() {
		s.named[p.Instance] = true
	}
	s.sites, s.unseen = r.vims.sites(ctx, settings, which)
	return s, nil
}

// errBehind is why nothing is surveyed by a replica that is behind.
var errBehind = errors.New("try again")

// all surveys all VIMs, side by side.
func (s *surveyor) all(ctx context.Context) *Orphans {
	found := make([]*Orphans, len(s.sites))
	var g errgroup.Group
	g.SetLimit(surveyParallel)
	for n, x := range s.sites {
		g.Go(func() error {
			found[n] = s.at(ctx, x)
			return nil
		})
	}
	_ = g.Wait() // nothing fails

	all := &Orphans{Orphans: []Orphan{}, VIMs: []string{}, Unseen: append([]Unseen{}, s.unseen...)}
	once := map[string]bool{} // two connections may lead to one VIM
	for n, f := range found {
		f.Orphans = slices.DeleteFunc(f.Orphans, func(o Orphan) bool {
			key := s.sites[n].identity + " " + o.Object + " " + o.Incarnation
			again := s.sites[n].identity != "" && once[key]
			once[key] = true
			return again
		})
		all.Orphans, all.VIMs, all.Unseen = append(all.Orphans, f.Orphans...), append(all.VIMs, f.VIMs...), append(all.Unseen, f.Unseen...)
	}
	slices.SortFunc(all.Orphans, compareOrphans)
	return all
}

// at surveys one VIM. One of which a part can't be seen has no orphans for sure.
func (s *surveyor) at(ctx context.Context, x *site) *Orphans {
	sees, ok := x.driver.(drivers.Surveyor)
	if !ok {
		return &Orphans{}
	}
	ctx, cancel := context.WithTimeout(ctx, surveyPatience)
	defer cancel()
	unseen := func(err error) *Orphans { return &Orphans{Unseen: []Unseen{{x.name, sentence(err)}}} }
	ids, err := sees.Instances(ctx)
	if err != nil {
		return unseen(err)
	}

	found := &Orphans{VIMs: []string{x.name}}
	for _, id := range ids {
		why, in, err := s.ownerless(ctx, id, x)
		if err != nil {
			return unseen(err)
		}
		if why == "" {
			continue
		}
		l, err := s.look(ctx, x, in)
		if errors.As(err, new(*drivers.RefusedError)) {
			continue // it isn't for sure this installation's
		}
		if err != nil {
			return unseen(err)
		}
		found.Orphans = append(found.Orphans, s.listed(x, in, why, l)...)
	}
	return found
}

// ownerless returns why objects of the instance at the VIM belong to no VNF; "" where they belong to one, or may: whatever
// is under way, or can't be known, leaves them to their instance. in is what to find them by.
func (s *surveyor) ownerless(ctx context.Context, id string, x *site) (why string, in *desired.Instance, err error) {
	head, exists := s.repo.LookupHead(id)
	if exists && head.State != desired.NotInstantiated && (slices.Contains(x.names, head.VIM) || slices.Contains(x.also, head.VIM)) {
		return "", nil, nil // most are like this, and no record is read for it
	}
	if s.named[id] {
		return "", nil, nil
	}
	record, err := s.oplog.Instance(ctx, id)
	if err != nil {
		return "", nil, fmt.Errorf("record of instance %s: %w", id, err)
	}
	switch blank := record.Seq == 0 && record.Operated.Tree == "" && record.Last == ""; {
	case record.Open != "" || record.Prepared != "" || record.Proposed != "" || record.OutstandingCommit != "":
		return "", nil, nil
	case !exists && blank:
		return "no VNF instance has this id", s.former(ctx, id), nil
	case !exists || head.Tree != record.Operated.Tree || head.Suspend:
		return "", nil, nil // something is still to be done about it, or must not be
	}

	in, err = s.read(ctx, head.Revision)
	switch {
	case err != nil:
		return "", nil, nil //nolint:nilerr // what can't be read may want anything
	case !desired.MayHaveObjects(in):
		return "the VNF isn't instantiated", in, nil
	}
	if at := s.elsewhere(ctx, record, in, x); len(at) > 0 {
		return "the VNF runs at " + strings.Join(at, ", "), in, nil
	}
	return "", nil, nil
}

// elsewhere returns the VIMs at which the instance runs, none where one of them is, was or may be the VIM x.
func (s *surveyor) elsewhere(ctx context.Context, record *lcm.Instance, in *desired.Instance, x *site) (at []string) {
	list, err := places(s.settings, in)
	if err != nil || x.identity == "" {
		return nil
	}
	for _, p := range list {
		is, err := s.vims.identityOf(ctx, s.settings, p)
		if was := record.VIMs[p.Name]; err != nil || is == "" || was == "" || is == x.identity || was == x.identity {
			return nil
		}
		at = append(at, p.Name)
	}
	for _, was := range record.VIMs { // it was instantiated there, under a name that it doesn't use any more
		if was == x.identity {
			return nil
		}
	}
	return at
}

// former is an instance that nothing knows any more, with the directory that it had where an operation's record says.
func (s *surveyor) former(ctx context.Context, id string) *desired.Instance {
	in := &desired.Instance{ID: id}
	last := ""
	for e := range s.oplog.OperationEntries(oplog.OperationQuery{Instance: id}) {
		last = e.ID
	}
	if last == "" {
		return in
	}
	op, err := s.oplog.Operation(ctx, last)
	if err != nil {
		return in // it is only a name
	}
	in.Name, in.Dir = op.VNF.Name, cmp.Or(op.After.Dir, op.Before.Dir)
	return in
}

// look sees what the VIM has of an instance that should not exist there.
func (s *surveyor) look(ctx context.Context, x *site, in *desired.Instance) (sight, error) {
	p, err := s.whose(in)
	if err != nil {
		return sight{}, err
	}
	l := sight{drv: x.driver, want: drivers.Absent(in.WithGrant()).Bounded(standing(p))}
	l.seen, err = x.driver.Observe(ctx, l.want)
	return l, err
}

// deletions returns the steps by which the end of the instance would delete what was seen.
func (l sight) deletions() []plan.Step {
	return slices.DeleteFunc(plan.Compute(l.want.Desired, l.seen, plan.Journal{}), func(s plan.Step) bool {
		return s.Action != plan.Delete && s.Action != plan.DeleteUnit
	})
}

// object returns the object under the key, nil where none is seen.
func (l sight) object(key string) *plan.ObservedObject {
	n := slices.IndexFunc(l.seen.Objects, func(x plan.ObservedObject) bool { return x.Key == key })
	if n < 0 {
		return nil
	}
	return &l.seen.Objects[n]
}

// listed returns what of the instance is there, as the end of the instance would delete it, and what is being deleted.
func (s *surveyor) listed(x *site, in *desired.Instance, why string, l sight) (list []Orphan) {
	base := Orphan{VIM: x.name, Instance: in.ID, Dir: in.Dir, VNF: in.Name, Why: why}
	for _, step := range l.deletions() {
		o := base
		o.Object, o.Incarnation = step.Object, step.Incarnation
		if seen := l.object(step.Object); seen != nil {
			o.Created, o.Data = seen.Created, seen.Data
		}
		list = append(list, o)
	}
	for _, seen := range l.seen.Objects {
		if seen.Deleting && seen.Retention != plan.RetainAlways {
			o := base
			o.Object, o.Incarnation, o.Created, o.Data, o.Deleting = seen.Key, seen.Incarnation, seen.Created, seen.Data, true
			list = append(list, o)
		}
	}
	return list
}
