package sol_test

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// memRepo is a desired.Repo in memory: directories by path, every commit kept.
type memRepo struct {
	t        testing.TB
	mu       sync.Mutex
	commits  []desired.Write
	dirs     map[string]dir // by instance
	trees    map[string]desired.Files
	at       map[string]desired.Revision // commit/instance
	settings desired.Settings
	changes  changed.Feed
	// before runs before each write, outside the lock: someone else's push.
	before func()
	// fails is returned by Write: after the commit if late, else without one.
	fails error
	late  bool
}

type dir struct {
	rev   desired.Revision
	files desired.Files
	in    *desired.Instance // nil where the file can't be read
}

func (d dir) head() desired.Head {
	if d.in == nil {
		return desired.Head{Revision: d.rev}
	}
	return desired.HeadOf(d.rev, d.in)
}

func newRepo(t testing.TB) *memRepo {
	return &memRepo{t: t, dirs: map[string]dir{}, trees: map[string]desired.Files{}, at: map[string]desired.Revision{},
		settings: desired.Settings{VIMs: map[string]*desired.VIM{}}}
}

func hash(files desired.Files) string {
	if len(files) == 0 {
		return ""
	}
	h := sha1.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s\x00%d\x00%s", name, len(files[name]), files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (*memRepo) Stale() error                 { return nil }
func (*memRepo) Problems() []*desired.Problem { return nil }

func (r *memRepo) head() string {
	if len(r.commits) == 0 {
		return ""
	}
	return fmt.Sprintf("%040d", len(r.commits))
}

func (r *memRepo) Head() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head()
}

func (r *memRepo) Lookup(id string) (desired.Revision, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.dirs[id]
	return d.rev, ok
}

func (r *memRepo) List() []desired.Revision {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []desired.Revision
	for _, id := range slices.Sorted(maps.Keys(r.dirs)) {
		out = append(out, r.dirs[id].rev)
	}
	return out
}

func (r *memRepo) LookupHead(id string) (desired.Head, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.dirs[id]
	return d.head(), ok
}

func (r *memRepo) InDir(dir string) (desired.Head, bool) {
	for h := range r.Heads("") {
		if h.Dir == dir {
			return h, true
		}
	}
	return desired.Head{}, false
}

func (r *memRepo) Heads(after string) iter.Seq[desired.Head] {
	return func(yield func(desired.Head) bool) {
		for _, rev := range r.List() {
			if rev.Instance <= after {
				continue
			}
			if h, ok := r.LookupHead(rev.Instance); ok && !yield(h) {
				return
			}
		}
	}
}

func (r *memRepo) Knows(context.Context, string) (bool, error) { return true, nil }

func (r *memRepo) WaitFor(context.Context, string) error { return nil }

func (r *memRepo) WatchHeads() changed.Take {
	take := r.changes.Watch()
	return func() ([]string, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return take()
	}
}

func (r *memRepo) Settings() (*desired.Settings, error) { return &r.settings, nil }

func (r *memRepo) Files(_ context.Context, rev desired.Revision) (desired.Files, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.trees[rev.Tree]; ok {
		return f, nil
	}
	return nil, desired.ErrNotFound
}

func (r *memRepo) Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error) {
	f, err := r.Files(ctx, rev)
	if err != nil {
		return nil, err
	}
	return desired.ParseInstance(rev.Dir+"/"+desired.InstanceFile, f[desired.InstanceFile])
}

func (r *memRepo) Earlier(context.Context, string, func(*desired.Instance) bool) error {
	return errors.New("the API has no need of earlier files")
}

func (r *memRepo) Maintenance(context.Context, string) ([]*desired.Maintenance, error) {
	return nil, nil
}

func (r *memRepo) Override(context.Context, desired.Revision) (reason, by string, err error) {
	return "", "", nil
}

func (r *memRepo) FormerSettings(context.Context, string, func(*desired.Settings) bool) (*desired.Settings, error) {
	return nil, errors.New("the API has no need of former settings")
}

func (r *memRepo) WriteVIM(context.Context, string, string, []desired.Trailer, func([]byte) ([]byte, error)) (string, error) {
	return "", errors.New("the API writes no VIMs")
}

func (r *memRepo) Write(_ context.Context, w desired.Write) (desired.Revision, error) {
	if r.before != nil {
		r.before()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil && !r.late {
		return desired.Revision{}, r.fails
	}
	old := r.dirs[w.Instance]
	if old.rev.Dir == "" {
		old.rev = desired.Revision{Instance: w.Instance, Dir: w.Dir, Commit: r.head()}
	}
	files, err := w.Change(old.rev, old.files)
	if err != nil {
		return desired.Revision{}, err
	}
	if hash(files) == old.rev.Tree {
		return old.rev, nil
	}
	r.commits = append(r.commits, w)
	rev := desired.Revision{Instance: w.Instance, Dir: old.rev.Dir, Commit: r.head(), Tree: hash(files)}
	if len(files) == 0 {
		delete(r.dirs, w.Instance)
	} else {
		in, _ := desired.ParseInstance(rev.Dir+"/"+desired.InstanceFile, files[desired.InstanceFile])
		r.dirs[w.Instance] = dir{rev, files, in}
		r.trees[rev.Tree] = files
	}
	r.changes.Note(w.Instance)
	r.at[rev.Commit+"/"+w.Instance] = rev
	if r.fails != nil {
		return desired.Revision{}, r.fails
	}
	return rev, nil
}

func (r *memRepo) locate(_ context.Context, commit, instance string) (desired.Revision, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rev, ok := r.at[commit+"/"+instance]; ok {
		return rev, nil
	}
	return desired.Revision{}, desired.ErrNotFound
}

func (r *memRepo) Prove(context.Context, desired.Revision, string, func(*desired.Instance) error) error {
	return nil
}

func (r *memRepo) FindTrailer(_ context.Context, _, key, value string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range r.commits {
		if slices.Contains(w.Trailers, desired.Trailer{Key: key, Value: value}) {
			return fmt.Sprintf("%040d", i+1), nil
		}
	}
	return "", desired.ErrNotFound
}

func (r *memRepo) Refresh(context.Context) error { return nil }

func (r *memRepo) Requested(context.Context, desired.Revision) (map[string]string, error) {
	return nil, nil
}

func (r *memRepo) Author(context.Context, desired.Revision) (string, error) {
	return "Ann <ann@example.com>", nil
}

func (r *memRepo) Attest(string, string, []byte) {}

// push writes a file as a person would.
func (r *memRepo) push(id, text string) desired.Revision {
	r.t.Helper()
	before := r.before
	r.before = nil
	defer func() { r.before = before }()
	rev, err := r.Write(r.t.Context(), desired.Write{Instance: id, Dir: "instances/" + id, Subject: "by hand",
		Change: func(_ desired.Revision, old desired.Files) (desired.Files, error) {
			if text == "" {
				return nil, nil
			}
			out := maps.Clone(old)
			if out == nil {
				out = desired.Files{}
			}
			out[desired.InstanceFile] = []byte(text)
			return out, nil
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	return rev
}

// text is the instance's file at head.
func (r *memRepo) text(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.dirs[id].files[desired.InstanceFile])
}

// memView is a sol.View over a few packages.
type memView struct {
	mu     sync.Mutex
	units  map[string][]plan.Unit
	stale  bool
	refuse error
	// unproven answers Prove.
	unproven error
	// closed answers MayBegin; nil says yes.
	closed func(t lcm.Type) (why string, until time.Time, err error)
	pkg    *vnfd.Package
	// newer are further packages; of those with one vnfdId the last is the newest.
	newer []*vnfd.Package
	// objects and others run beside the units; drifted differ from git.
	objects map[string][]plan.ObservedObject
	others  map[string][]plan.Unit
	drifted map[string][]string
	// problems are why files aren't obeyed.
	problems map[string][]desired.Problem
	// resources are what the units use.
	resources map[string][]plan.Resource
	// workloads are by VDU id.
	workloads map[string]map[string]any
}

func newView() *memView {
	return &memView{units: map[string][]plan.Unit{}, objects: map[string][]plan.ObservedObject{}, others: map[string][]plan.Unit{},
		drifted: map[string][]string{}, problems: map[string][]desired.Problem{}, resources: map[string][]plan.Resource{}, workloads: map[string]map[string]any{}, pkg: &vnfd.Package{
			Tree: tree1, Artifacts: []string{"Files/a.yaml"},
			VNFD: &vnfd.VNFD{ID: "vnfd-1", Version: "1.0", Provider: "Company", ProductName: "Sample VNF", SoftwareVersion: "2.0",
				DefaultFlavour: "simple",
				Flavours: []vnfd.Flavour{{ID: "simple", DefaultLevel: "one",
					VDUs: []vnfd.VDU{{ID: "VDU1", Name: "vdu1", Initial: 1, Deltas: map[string]int{"vdu1_aspect": 1}, Min: 1, Max: 3},
						{ID: "VDU2", Name: "vdu2", Initial: 1, Deltas: map[string]int{"vdu2_aspect": 2}, Min: 1, Max: -1}},
					Aspects: []vnfd.Aspect{{ID: "vdu1_aspect", MaxLevel: 2}, {ID: "vdu2_aspect", MaxLevel: 3}},
					Levels:  []vnfd.Level{{ID: "one", Aspects: map[string]int{"vdu2_aspect": 1}}, {ID: "big", Aspects: map[string]int{"vdu1_aspect": 2}}}}}}}}
}

func (v *memView) Running(_ context.Context, id string) (plan.Observed, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stale {
		return plan.Observed{}, false
	}
	return plan.Observed{Objects: v.objects[id], Units: v.units[id], Others: v.others[id], Resources: v.resources[id]}, true
}

func (v *memView) Remains(_ context.Context, id string) (left []string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stale {
		return nil, errors.New("the VIM can't be seen")
	}
	for _, x := range v.objects[id] {
		left = append(left, x.Key)
	}
	return left, nil
}

func (v *memView) Workloads(_ context.Context, id string) (map[string]any, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stale {
		return nil, errors.New("the VIM isn't known")
	}
	return v.workloads[id], nil
}

func (v *memView) Prove(context.Context, string, desired.Revision) error { return v.unproven }

func (v *memView) MayBegin(_ context.Context, _, _ string, t lcm.Type) (why string, until time.Time, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed == nil {
		return "", until, nil
	}
	return v.closed(t)
}

func (v *memView) WaitingFor(string) (string, time.Time, bool) { return "", time.Time{}, false }

func (v *memView) Waiting(string) (sol.StartWait, bool) { return sol.StartWait{}, false }

func (v *memView) Problems(id string) []desired.Problem {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.problems[id]
}

func (v *memView) Drifted(id string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.drifted[id]
}

func (v *memView) Check(ctx context.Context, _, after *desired.Instance) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refuse != nil {
		return v.refuse
	}
	if after == nil || after.State != desired.Instantiated {
		return nil
	}
	pkg, err := v.Package(ctx, after)
	if err != nil {
		return err
	}
	f, ok := pkg.VNFD.Flavour(after.Flavour)
	if !ok {
		return &rest.InvalidError{Status: 400, Detail: "unknown flavour"}
	}
	for i := range f.VDUs {
		if _, err := f.Count(&f.VDUs[i], after.InstantiationLevel, after.Levels); err != nil {
			return err
		}
	}
	return nil
}

// Complete fills in what the fake's packages tell: the same as the reconciler
// does, but for levels.
func (v *memView) Complete(ctx context.Context, before, after *desired.Instance) (*desired.Instance, error) {
	out := *after
	if out.Package == "" {
		pkg, err := v.Find(ctx, out.VnfdID)
		if err != nil {
			return nil, err
		}
		out.Package = pkg.Tree
	}
	if names := out.Update.VDUs; len(names) > 0 {
		out.VDUs = map[string]desired.VDUPin{}
		for _, vdu := range v.pkg.VNFD.Flavours[0].VDUs {
			if !slices.Contains(names, vdu.ID) {
				out.VDUs[vdu.ID] = desired.VDUPin{Package: cmp.Or(before.VDUs[vdu.ID].Package, before.Package)}
			}
		}
	}
	out.Overlays = slices.Clone(after.Overlays)
	for i := range out.Overlays {
		out.Overlays[i].Package = cmp.Or(out.Overlays[i].Package, out.Package)
	}
	if out.Package == before.Package || len(out.Overlays) > len(before.Overlays) {
		return &out, nil
	}
	out.Base, out.Overlays = "", nil
	if out.Update.Strategy == desired.BlueGreen {
		n, _ := strconv.Atoi(before.Generation)
		out.Generation = strconv.Itoa(n + 1)
	}
	return &out, nil
}

// Definitions are the files listed, and those of before that the package has.
func (v *memView) Definitions(ctx context.Context, before, after *desired.Instance, listed []string) ([]string, error) {
	pkg, err := v.Package(ctx, after)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(listed)
	for _, f := range listed {
		if !pkg.HasArtifact(f) {
			return nil, &rest.InvalidError{Status: 400, Detail: fmt.Sprintf("%s isn't in the package", f)}
		}
	}
	was, _ := before.Params["lcm-kubernetes-def-files"].([]any)
	for _, f := range was {
		if f := f.(string); pkg.HasArtifact(f) && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out, nil
}

func (v *memView) Find(_ context.Context, id string) (*vnfd.Package, error) {
	for _, p := range slices.Backward(v.newer) {
		if p.VNFD.ID == id {
			return p, nil
		}
	}
	if id == v.pkg.VNFD.ID {
		return v.pkg, nil
	}
	return nil, sol.ErrUnknownPackage
}

func (v *memView) Package(ctx context.Context, in *desired.Instance) (*vnfd.Package, error) {
	for _, p := range append([]*vnfd.Package{v.pkg}, v.newer...) {
		if p.Tree == in.Package {
			return p, nil
		}
	}
	return v.Find(ctx, in.VnfdID)
}

var errBroken = errors.New("broken on purpose")
