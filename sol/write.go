package sol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// request is one change of an instance, asked for through the API.
type request struct {
	typ lcm.Type
	// params is operationParams, free of secrets.
	params json.RawMessage
	// next makes the intent that is asked for out of the present one, or refuses.
	next func(ctx context.Context, now *desired.Instance, seen sight) (*desired.Instance, error)
	// born, if not nil, adds to the operation what the change from now to after, as it
	// will be committed, says of it, or refuses.
	born func(op *lcm.Operation, now, after *desired.Instance) error
	// note, if not nil, is the body of the commit's message.
	note func(seen sight) string
}

// sight is what was seen of the instance when the request came. There is one for
// each request: what it condemns, what its operation aims at and what that began
// with can't contradict each other.
type sight struct {
	plan.Observed
	// fresh is false while the VIM can't be seen; there is then nothing in Observed.
	fresh bool
	// pinnedVIM is the VIM that was filled in when the VNF was instantiated.
	pinnedVIM string
}

// begin carries a request out as far as an API does: the operation is reserved,
// the change is committed, the operation begins, and only then is 202 answered.
// Whatever happens in between, [Recover] finds out at the next start.
func (a *api) begin(w http.ResponseWriter, r *http.Request, req request) error {
	// A client that goes away doesn't stop a write that has begun.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), writeTimeout)
	defer cancel()
	k, now, err := a.ready(ctx, r)
	if err != nil {
		return err
	}
	seen := a.look(ctx, k.id)
	seen.pinnedVIM = k.record.PinnedVIM
	next, err := req.next(ctx, now, seen)
	if err != nil {
		return err
	}
	if seen.fresh {
		next.Condemned = seen.Unspent(next.Condemned)
	}
	files, after, err := a.edited(ctx, k, now, next)
	if err != nil {
		return err
	}
	names := a.secretNames(ctx, now, after)
	op := lcm.Operation{
		ID: a.NewID(), Instance: k.id, Type: req.typ, RequestedBy: callerOf(ctx),
		Before: k.head, Params: names.StripJSON(req.params), VNF: a.vnf(ctx, after), UnitsBefore: k.record.Units,
		ResourcesBefore: k.record.Resources, ExtLinks: lcm.ChangedLinks(now, after),
	}
	if req.born != nil {
		if err := req.born(&op, now, after); err != nil {
			return err
		}
	}
	op.ChangedInfo, op.PkgChange = names.StripJSON(op.ChangedInfo), names.StripJSON(op.PkgChange)
	if err := a.View.Check(ctx, now, after); err != nil {
		return err
	}
	if seen.fresh {
		op.UnitsBefore, op.ResourcesBefore = sorted(seen.Units), seen.Resources
	}
	if req.typ == lcm.Heal {
		op.Journal = op.Journal.Aim(plan.Desired{Condemned: after.Condemned}, seen.Observed)
	}
	note := ""
	if req.note != nil {
		note = req.note(seen)
	}
	if err := a.Operations.Prepare(ctx, op); err != nil {
		return err
	}
	rev, err := a.write(ctx, k, op, note, files)
	if err != nil {
		return err
	}
	if _, err := a.Operations.Commit(ctx, op.ID, rev); err != nil {
		return fmt.Errorf("%w: commit %s of operation %s is made, but the store could not record it; the operation goes on when the server is restarted: %w",
			desired.ErrUnavailable, rev.Commit, op.ID, err)
	}
	a.Poke(k.id)
	a.Logger.InfoContext(ctx, "operation requested", "instance", k.id, "operation", op.ID, "type", op.Type, "revision", rev.Commit, "by", op.RequestedBy)
	w.Header().Set("Location", a.link("vnf_lcm_op_occs", op.ID))
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// look is the one look at the VIM that a request takes.
func (a *api) look(ctx context.Context, id string) sight {
	seen, fresh := a.View.Running(ctx, id)
	return sight{Observed: seen, fresh: fresh}
}

// patience is how long a request waits for what Jibe does by itself, and what no
// client can know of: the commit of a former operation's outcome, which follows the
// record within milliseconds, and a repair of drift, which takes little more.
const (
	patience = 2 * time.Second
	pause    = 5 * time.Millisecond
)

// findSettled is find for a request that changes the instance.
func (a *api) findSettled(ctx context.Context, id string) (known, error) {
	var k known
	var failed error
	settled := func(context.Context) (bool, error) {
		if k, failed = a.find(ctx, id); failed != nil {
			return true, nil
		}
		var repaired bool
		if repaired, failed = a.repaired(ctx, k); failed != nil || repaired && k.record.Owed == "" {
			return true, nil
		}
		a.Poke(id)
		return false, nil
	}
	// Where the time runs out, idle answers 409 for what is still under way.
	_ = wait.PollUntilContextTimeout(ctx, pause, patience, true, settled)
	return k, failed
}

// repaired says whether no repair of drift is under way on the instance. One that
// failed gives way to any request.
func (a *api) repaired(ctx context.Context, k known) (bool, error) {
	if k.record.Open == "" {
		return true, nil
	}
	open, err := a.Operations.Operation(ctx, k.record.Open)
	if err != nil {
		return false, err
	}
	return !open.Automatic || open.State == lcm.FailedTemp, nil
}

// ready finds the request's instance, holds it against If-Match, and returns its
// present intent if nothing else is under way on it.
func (a *api) ready(ctx context.Context, r *http.Request) (known, *desired.Instance, error) {
	// Who pushes and then asks must not be answered on what was before the push.
	if err := a.Repo.Refresh(ctx); err != nil {
		return known{}, nil, fmt.Errorf("%w: the desired repository can't be followed: %w", desired.ErrUnavailable, err)
	}
	k, err := a.findSettled(ctx, r.PathValue("id"))
	if err != nil {
		return k, nil, err
	}
	if err := match(r, k.etag()); err != nil {
		return k, nil, err
	}
	now, err := a.idle(ctx, k)
	return k, now, err
}

// idle returns the present intent if nothing else is under way on the instance.
// Prepare checks the log's part of it again, and the write git's.
func (a *api) idle(ctx context.Context, k known) (*desired.Instance, error) {
	rec := k.record
	if rec.Prepared != "" {
		return nil, oplog.ErrBusy{Instance: k.id, Operation: rec.Prepared, State: lcm.Prepared}
	}
	if rec.Open != "" {
		open, err := a.Operations.Operation(ctx, rec.Open)
		if err != nil {
			return nil, err
		}
		if !open.Automatic || open.State != lcm.FailedTemp {
			return nil, oplog.ErrBusy{Instance: k.id, Operation: open.ID, State: open.State}
		}
	}
	if rec.Owed != "" {
		return nil, oplog.ErrBusy{Instance: k.id, Operation: rec.Owed, State: rec.LastState}
	}
	if !k.inHead {
		return nil, problem(http.StatusConflict, "VNF instance %s was removed from the desired repository", k.id)
	}
	now, err := a.Repo.Read(ctx, k.head)
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", k.id, err)
	}
	if k.head.Tree == rec.Operated.Tree {
		return now, nil
	}
	// A commit that means something is waiting for its operation: it goes first.
	var was *desired.Instance
	if rec.Operated.Tree != "" {
		if was, err = a.Repo.Read(ctx, rec.Operated); err != nil {
			return nil, fmt.Errorf("instance %s: %w", k.id, err)
		}
	}
	if t, _, due := lcm.Classify(was, now); due {
		return nil, problem(http.StatusConflict, "commit %s changed VNF instance %s, and its %s has not begun yet: ask again when it has ended", k.head.Commit, k.id, t)
	}
	if was != nil {
		// A commit that met no hook may ask for what is refused. Nothing is built on that.
		if err := a.View.Check(ctx, was, now); err != nil {
			return nil, problem(http.StatusConflict, "commit %s of VNF instance %s is not obeyed: %v", k.head.Commit, k.id, err)
		}
	}
	return now, nil
}

// edited makes the directory's new content out of its present one, and reads it
// back: what is checked is what will stand there.
func (a *api) edited(ctx context.Context, k known, now, next *desired.Instance) (desired.Files, *desired.Instance, error) {
	next, err := sealer{a.Secrets.Keep, a.secretNames(ctx, now, next)}.seal(next, now)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt the credentials of instance %s: %w", k.id, err)
	}
	old, err := a.Repo.Files(ctx, k.head)
	if err != nil {
		return nil, nil, fmt.Errorf("instance %s: %w", k.id, err)
	}
	file := path.Join(k.head.Dir, desired.InstanceFile)
	text, after, err := desired.EditInstance(file, old[desired.InstanceFile], differences(now, next)...)
	if err != nil {
		return nil, nil, fmt.Errorf("instance %s: %w", k.id, err)
	}
	files := maps.Clone(old)
	files[desired.InstanceFile] = text
	return files, after, nil
}

// differences are the edits that lead from one intent to the other. Maps are
// edited key by key, so that a person's comments in them stay. The id is written
// out in every file that Jibe touches: moving the directory is then no new VNF.
func differences(now, next *desired.Instance) []desired.KeyValue {
	edits := []desired.KeyValue{{Path: []string{"id"}, Value: now.ID}}
	text := func(key, was, is string) {
		if was == is {
			return
		}
		var v any // nil removes the key
		if is != "" {
			v = is
		}
		edits = append(edits, desired.KeyValue{Path: []string{key}, Value: v})
	}
	text("name", now.Name, next.Name)
	text("description", now.Description, next.Description)
	text("vnfdId", now.VnfdID, next.VnfdID)
	text("package", now.Package, next.Package)
	text("base", now.Base, next.Base)
	text("generation", now.Generation, next.Generation)
	text("state", now.State, next.State)
	text("flavour", now.Flavour, next.Flavour)
	text("instantiationLevel", now.InstantiationLevel, next.InstantiationLevel)
	text("vim", now.VIM, next.VIM)
	text("held", now.Held, next.Held)
	edits = append(edits, updates(now, next)...)
	edits = append(edits, entries("levels", now.Levels, next.Levels)...)
	edits = append(edits, entries("vimConnectionInfo", now.VIMConnections, next.VIMConnections)...)
	edits = append(edits, entries("placement", now.Placement, next.Placement)...)
	edits = append(edits, list("extVirtualLinks", now.ExtVirtualLinks, next.ExtVirtualLinks)...)
	edits = append(edits, list("extManagedVirtualLinks", now.ExtManagedVirtualLinks, next.ExtManagedVirtualLinks)...)
	edits = append(edits, entries("params", now.Params, next.Params)...)
	edits = append(edits, entries("condemned", now.Condemned, next.Condemned)...)
	edits = append(edits, entries("metadata", now.Metadata, next.Metadata)...)
	edits = append(edits, entries("extensions", now.Extensions, next.Extensions)...)
	return append(edits, entries("vnfConfigurableProperties", now.ConfigurableProperties, next.ConfigurableProperties)...)
}

// updates are the edits of what a change of package is made by, and leaves behind.
func updates(now, next *desired.Instance) []desired.KeyValue {
	edits := list("overlays", now.Overlays, next.Overlays)
	was, is := now.Update, next.Update
	for _, text := range [][3]string{{"strategy", was.Strategy, is.Strategy}, {"drain", was.Drain, is.Drain}} {
		if text[1] != text[2] {
			edits = append(edits, desired.KeyValue{Path: []string{"update", text[0]}, Value: text[2]})
		}
	}
	if !reflect.DeepEqual(was.Coordinate, is.Coordinate) {
		e := desired.KeyValue{Path: []string{"update", "coordinate"}}
		if !reflect.DeepEqual(is.Coordinate, desired.Coordination{}) {
			e.Value = is.Coordinate
		}
		edits = append(edits, e)
	}
	return edits
}

// list is the edit of a list, which is written as a whole.
func list[V any](key string, now, next []V) []desired.KeyValue {
	if len(now) == 0 && len(next) == 0 || reflect.DeepEqual(now, next) {
		return nil
	}
	e := desired.KeyValue{Path: []string{key}}
	if len(next) > 0 {
		e.Value = next
	}
	return []desired.KeyValue{e}
}

func entries[V any](key string, now, next map[string]V) []desired.KeyValue {
	if len(next) == 0 {
		if len(now) == 0 {
			return nil
		}
		return []desired.KeyValue{{Path: []string{key}}}
	}
	if len(now) == 0 {
		return []desired.KeyValue{{Path: []string{key}, Value: next}}
	}
	var edits []desired.KeyValue
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if _, ok := next[k]; !ok {
			edits = append(edits, desired.KeyValue{Path: []string{key, k}})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(next)) {
		if was, ok := now[k]; !ok || !reflect.DeepEqual(was, next[k]) {
			edits = append(edits, desired.KeyValue{Path: []string{key, k}, Value: next[k]})
		}
	}
	return edits
}

// errMoved is returned by a write's function when the directory isn't what the
// request was checked against.
var errMoved = errors.New("the instance's directory was changed meanwhile")

// write commits the files for the operation, with note as the body of the message.
// If there is no commit afterwards, the operation is abandoned; if that can't be
// told, it stays prepared.
func (a *api) write(ctx context.Context, k known, op lcm.Operation, note string, files desired.Files) (desired.Revision, error) {
	since := a.Repo.Head()
	rev, err := a.Repo.Write(ctx, desired.Write{
		Instance: k.id, Dir: k.head.Dir,
		Subject:  fmt.Sprintf("%s %s", op.Type, k.head.Dir),
		Body:     note,
		Trailers: trailers(op.ID, string(op.Type), op.RequestedBy),
		By:       author(op.RequestedBy),
		Change: func(at desired.Revision, _ desired.Files) (desired.Files, error) {
			if at.Tree != k.head.Tree {
				return nil, errMoved
			}
			return files, nil
		},
	})
	if err == nil {
		return rev, nil
	}
	if !errors.Is(err, errMoved) {
		// The error may have come after the commit: ask git before forgetting.
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		commit, lerr := a.Repo.FindTrailer(look, since, desired.TrailerOperation, op.ID)
		switch {
		case lerr == nil:
			if rev, ok := a.Repo.Lookup(k.id); ok && rev.Commit == commit {
				return rev, nil
			}
			return rev, fmt.Errorf("%w: commit %s was made, but the repository then failed; operation %s goes on when the server is restarted: %w", desired.ErrUnavailable, commit, op.ID, err)
		case !errors.Is(lerr, desired.ErrNotFound):
			return rev, fmt.Errorf("%w: it isn't known whether operation %s was committed; that shows when the server is restarted: %w", desired.ErrUnavailable, op.ID, errors.Join(err, lerr))
		}
	}
	if aerr := a.Operations.Abandon(context.WithoutCancel(ctx), op.ID); aerr != nil {
		a.Logger.ErrorContext(ctx, "prepared operation could not be abandoned", "instance", k.id, "operation", op.ID, "error", aerr)
	}
	if errors.Is(err, errMoved) {
		return rev, problem(http.StatusConflict, "VNF instance %s was changed by a commit while the request was checked: read it again and repeat the request", k.id)
	}
	return rev, fmt.Errorf("commit the change of instance %s: %w", k.id, err)
}

func trailers(op, typ, by string) []desired.Trailer {
	var t []desired.Trailer
	if op != "" {
		t = append(t, desired.Trailer{Key: desired.TrailerOperation, Value: op})
	}
	t = append(t, desired.Trailer{Key: desired.TrailerType, Value: typ})
	if by != "" {
		t = append(t, desired.Trailer{Key: desired.TrailerRequestedBy, Value: by})
	}
	return t
}

// author is the API user as git writes people.
func author(user string) string {
	if user == "" {
		return ""
	}
	return user + " <" + user + "@jibe.invalid>"
}

// vnf is what notifications say of the instance.
func (a *api) vnf(ctx context.Context, in *desired.Instance) lcm.VNF {
	v := lcm.VNF{Name: in.Name, VnfdID: in.VnfdID}
	if pkg, err := a.View.Package(ctx, in); err == nil {
		v = product(v, pkg.VNFD)
	}
	return v
}

func product(v lcm.VNF, d *vnfd.VNFD) lcm.VNF {
	v.Provider, v.ProductName, v.SoftwareVersion, v.VnfdVersion = d.Provider, d.ProductName, d.SoftwareVersion, d.Version
	return v
}
