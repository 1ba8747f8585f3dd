package sol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// shown returns the intent that was last brought about in full. Where none ever was, it
// returns that of head, as not instantiated.
func (a *api) shown(ctx context.Context, k known) (*desired.Instance, error) {
	if k.record.Settled.Tree != "" {
		in, err := a.Repo.Read(ctx, k.record.Settled)
		if err != nil {
			return nil, fmt.Errorf("instance %s: %w", k.id, err)
		}
		return a.withOutstandingCommit(ctx, k, in)
	}
	rev := k.head.Revision
	if !k.inHead {
		rev = k.record.Operated
	}
	if rev.Tree == "" {
		return &desired.Instance{ID: k.id, Name: k.record.VNF.Name, VnfdID: k.record.VNF.VnfdID, State: desired.NotInstantiated}, nil
	}
	in, err := a.Repo.Read(ctx, rev)
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", k.id, err)
	}
	fresh := *in
	fresh.State, fresh.Flavour = desired.NotInstantiated, ""
	return &fresh, nil
}

// shownOrLost is shown; an instance whose revision the repository has lost is shown by what head and record say, with
// the problem. One lost object must not hide all other instances from a list.
func (a *api) shownOrLost(ctx context.Context, k known) (in *desired.Instance, lost *desired.Problem, err error) {
	in, err = a.shown(ctx, k)
	if !errors.Is(err, desired.ErrNotFound) {
		return in, nil, err
	}
	a.Log.WarnContext(ctx, "an instance's revision isn't in the desired repository", "instance", k.id, "error", err)
	in = &desired.Instance{
		ID: k.id, Name: cmp.Or(k.head.Name, k.record.VNF.Name), VnfdID: cmp.Or(k.record.VNF.VnfdID, k.head.VnfdID), Package: k.head.Package,
		State: cmp.Or(k.head.State, desired.NotInstantiated), Flavour: k.head.Flavour, Dir: k.head.Dir,
	}
	lost = &desired.Problem{
		File: path.Join(cmp.Or(k.head.Dir, k.record.Settled.Dir), desired.InstanceFile), Message: err.Error(),
		Remedy: "push the history that has it, from a clone: git push origin " + cmp.Or(k.record.Settled.Commit, "main") + ":refs/heads/recovered",
	}

	return in, lost, nil
}

// with adds a problem of the instance, nil for none.
func (s *InstanceStatus) with(problem *desired.Problem) *InstanceStatus {
	if problem == nil {
		return s
	}
	if s == nil {
		s = &InstanceStatus{DriftPolicy: desired.DriftCorrect}
	}
	s.Problems = append(s.Problems[:len(s.Problems):len(s.Problems)], *problem)
	return s
}

// withOutstandingCommit returns the instance with what hooks of its last operation modified. Clients
// see that as soon as the operation is COMPLETED, though the commit follows a little later.
func (a *api) withOutstandingCommit(ctx context.Context, k known, in *desired.Instance) (*desired.Instance, error) {
	if k.record.OutstandingCommit == "" || k.record.LastState != lcm.Completed {
		return in, nil
	}
	op, err := a.Operations.Operation(ctx, k.record.OutstandingCommit)
	if err != nil {
		return nil, fmt.Errorf("instance %s: operation %s: %w", k.id, k.record.OutstandingCommit, err)
	}
	now := *in
	now.Metadata, now.Extensions = op.Modified.Apply(in.Metadata, in.Extensions)
	now.Params = op.Modified.Patch(in.Params)
	return &now, nil
}

// instanceBody returns the instance as clients see it. shows says which attributes are
// wanted: expensive ones that aren't are left out.
func (a *api) instanceBody(ctx context.Context, k known, shows func(attr string) bool) (*VnfInstance, error) {
	in, lost, err := a.shownOrLost(ctx, k)
	if err != nil {
		return nil, err
	}
	in = in.WithGrant()
	running := desired.IsInstantiated(in.State)
	v := a.plainBody(k.id, running)
	v.Name, v.Description, v.VnfdID = in.Name, in.Description, in.VnfdID
	var names desired.SecretNames
	of := k.record.VNF
	pkg, err := a.View.Package(ctx, in)
	if err == nil {
		names = names.With(pkg.VNFD.SecretParams...)
		of = product(of, pkg.VNFD)
	} else {
		// The instance is shown all the same, with the product of its last operation.
		a.Log.WarnContext(ctx, "package of an instance can't be read", "instance", k.id, "error", err)
	}
	v.describe(&of)
	v.Links = a.instanceLinks(k.id, in.State, err == nil && len(pkg.VNFD.Flavours) > 1)
	if shows("metadata") {
		v.Metadata = redacted(names, in.Metadata)
		if running {
			v.Metadata = withFiles(v.Metadata, in)
		}
	}
	if shows("extensions") {
		v.Extensions = redacted(names, in.Extensions)
	}
	if shows("vnfConfigurableProperties") {
		if v.VnfConfigurableProperties = redacted(names, in.ConfigurableProperties); v.VnfConfigurableProperties == nil {
			v.VnfConfigurableProperties = map[string]any{}
		}
	}
	if running && shows("vimConnectionInfo") {
		v.VimConnectionInfo = a.connections(in)
	}
	switch {
	case !shows("instantiatedVnfInfo"):
	case running:
		v.InstantiatedVnfInfo = a.instantiated(ctx, k, in, pkg)
	case in.Flavour != "":
		v.InstantiatedVnfInfo = &InstantiatedVnfInfo{FlavourID: in.Flavour, VnfState: lcm.Stopped}
	}
	if shows("jibe") {
		v.Jibe = a.status(ctx, k.id, &k.head, k.record).with(lost)
	}
	return v, nil
}

// plainBody returns an instance of which nothing is known but whether it is instantiated.
func (a *api) plainBody(id string, running bool) *VnfInstance {
	return &VnfInstance{ID: id, InstantiationState: instantiationState(running)}
}

// describe sets the product.
func (v *VnfInstance) describe(of *lcm.VNF) {
	v.Provider, v.ProductName, v.SoftwareVersion, v.VnfdVersion = of.Provider, of.ProductName, of.SoftwareVersion, of.VnfdVersion
}

// Drop implements [rest.Droppable].
func (v *VnfInstance) Drop(attr string) {
	switch attr {
	case "vnfInstanceName":
		v.Name = ""
	case "vnfInstanceDescription":
		v.Description = ""
	case "vnfConfigurableProperties":
		v.VnfConfigurableProperties = nil
	case "vimConnectionInfo":
		v.VimConnectionInfo = nil
	case "instantiatedVnfInfo":
		v.InstantiatedVnfInfo = nil
	case "metadata":
		v.Metadata = nil
	case "extensions":
		v.Extensions = nil
	case "jibe":
		v.Jibe = nil
	}
}

func instantiationState(running bool) string {
	if running {
		return stateInstantiated
	}
	return stateNotInstantiated
}

// instanceLinks returns links to the tasks that the state allows (SOL003 clause 5.5.2.2), and of
// which flavours says that the VNFD has several.
func (a *api) instanceLinks(id, state string, flavours bool) map[string]Link {
	tasks := map[string]string{"instantiate": "instantiate"}
	if desired.IsInstantiated(state) {
		tasks = map[string]string{"terminate": "terminate", "scale": "scale", "scaleToLevel": "scale_to_level", "operate": "operate", "heal": "heal",
			"changeExtConn": "change_ext_conn", "changeCurrentVnfPkg": "change_vnfpkg"}
		if flavours {
			tasks["changeFlavour"] = "change_flavour"
		}
	}
	links := map[string]Link{"self": {Href: a.Link("vnf_instances", id)}}
	for name, task := range tasks {
		links[name] = Link{Href: a.Link("vnf_instances", id, task)}
	}
	return links
}

// instantiated returns what runs now. While the VIM can't be observed that is what the last
// record has, marked as stale.
func (a *api) instantiated(ctx context.Context, k known, in *desired.Instance, pkg *vnfd.Package) *InstantiatedVnfInfo {
	info := &InstantiatedVnfInfo{FlavourID: in.Flavour, VnfState: lcm.OperationalState(in), Metadata: map[string]any{}}
	if pkg != nil {
		if f, ok := pkg.VNFD.Flavour(in.Flavour); ok {
			info.ScaleStatus, info.MaxScaleLevels = scaleStatus(f, in)
		}
	}
	seen := a.look(ctx, k.id)
	units, used := seen.Units, seen.Resources
	if !seen.fresh {
		units, used = a.recorded(ctx, k)
		info.Metadata["stale"] = true
	}
	units = sorted(units)
	vim := a.vimName(in)
	others := a.otherVNFDs(ctx, in)
	for _, u := range units {
		state := lcm.Started
		if u.Stopped {
			state = lcm.Stopped
		}
		info.VnfcResourceInfo = append(info.VnfcResourceInfo, VnfcResourceInfo{
			ID: u.Resource(), VduID: u.VDU, VnfdID: others[u.VDU], ComputeResource: handle(u, cmp.Or(u.VIM, in.Placement[u.VDU], vim)), Metadata: unitMetadata(u)})
		info.VnfcInfo = append(info.VnfcInfo, VnfcInfo{
			ID: vnfcInfoID(u), VduID: u.VDU, VnfcResourceInfoID: u.Resource(), VnfcState: state})
	}
	info.VirtualLinks, info.VirtualStorages = virtualLinks(seen.Objects, vim), virtualStorages(seen.Objects, vim)
	info.resources(in, units, used, vim)
	for _, name := range []string{"namespace", defFiles} {
		if v, ok := in.Params[name]; ok {
			info.Metadata[name] = v
		}
	}
	whereabouts(info.Metadata, in, units, seen.Objects)
	if k.head.Held != "" {
		info.Metadata["held"] = k.head.Held
	}
	return info
}

// otherVNFDs returns the VNFDs of the VDUs that a change of package has left as they were,
// by VDU (SOL003 clause 5.5.3.5: vnfdId is given where it differs from the VNF's).
func (a *api) otherVNFDs(ctx context.Context, in *desired.Instance) map[string]string {
	others := make(map[string]string, len(in.VDUs))
	for vdu, pin := range in.VDUs {
		pkg, err := a.View.Package(ctx, &desired.Instance{ID: in.ID, Package: pin.Package})
		if err != nil {
			a.Log.WarnContext(ctx, "package of a VDU can't be read", "instance", in.ID, "vdu", vdu, "error", err)
			continue
		}
		others[vdu] = pkg.VNFD.ID
	}
	return others
}

// recorded returns what ran when an operation was recorded last.
func (a *api) recorded(ctx context.Context, k known) ([]plan.Unit, []plan.Resource) {
	record := k.record
	if k.lacksUnits {
		var err error
		if record, err = a.Operations.Instance(ctx, k.id); err != nil {
			a.Log.WarnContext(ctx, "record of an instance can't be read", "instance", k.id, "error", err)
			return nil, nil
		}
	}
	return record.Units, record.Resources
}

// status returns Jibe's own attribute of the instance, nil where everything has its default.
// head alone has the present values of held, suspend and drift: they may be newer than what
// was last brought about.
func (a *api) status(ctx context.Context, id string, head *desired.Head, record *lcm.Instance) *InstanceStatus {
	s := InstanceStatus{
		Suspended: head.Suspend, Held: head.Held, Drifted: a.View.Drifted(id), DriftPolicy: cmp.Or(head.Drift, desired.DriftCorrect),
		Failed: a.failed(ctx, record.Open), RolledBack: a.rolledBack(ctx, head, record), Problems: a.View.Problems(id),
	}
	if w, ok := a.View.Waiting(id); ok {
		s.Waiting = &w
	}
	if what, since, ok := a.View.WaitingFor(id); ok {
		s.WaitsFor = &Waiting{For: what, Since: rest.Stamp(since)}
	}
	if s.Waiting == nil && s.WaitsFor == nil && !s.Suspended && s.Held == "" && len(s.Drifted) == 0 && s.DriftPolicy == desired.DriftCorrect && s.Failed == nil && s.RolledBack == nil && len(s.Problems) == 0 {
		return nil
	}
	return &s
}

// in returns the status with the instance's directory, as it is shown to a client that asks
// for it, also where everything else has its default.
func (s *InstanceStatus) in(dir string) *InstanceStatus {
	if s == nil {
		s = &InstanceStatus{}
	}
	s.Directory = dir
	return s
}

// failed returns the instance's operation in FAILED_TEMP, or nil. open is the operation
// that hasn't ended.
func (a *api) failed(ctx context.Context, open string) *FailedOperation {
	if open == "" {
		return nil
	}
	op, err := a.Operations.Operation(ctx, open)
	if err != nil || op.State != lcm.FailedTemp {
		return nil // or it has ended since
	}
	f := &FailedOperation{ID: op.ID, Operation: op.Type, Automatic: op.Automatic}
	if op.Error != nil {
		f.Reason = op.Error.Detail
	}
	return f
}

// rolledBack returns the instantiation that was rolled back last, while nothing was asked for since: git says
// NOT_INSTANTIATED again, and nothing else would tell why. nil for any other instance.
func (a *api) rolledBack(ctx context.Context, head *desired.Head, record *lcm.Instance) *FailedOperation {
	if desired.IsInstantiated(head.State) || record.Open != "" || record.LastState != lcm.RolledBack {
		return nil
	}
	op, err := a.Operations.Operation(ctx, record.Last)
	if err != nil || op.Type != lcm.Instantiate || op.Error == nil {
		return nil
	}
	return &FailedOperation{ID: op.ID, Operation: op.Type, Reason: op.Error.Detail}
}

func scaleStatus(f *vnfd.Flavour, in *desired.Instance) (status, most []ScaleInfo) {
	levels, err := f.ScaleLevels(in.InstantiationLevel, in.Levels)
	if err != nil {
		return nil, nil
	}
	for _, as := range f.Aspects {
		status = append(status, ScaleInfo{AspectID: as.ID, Level: levels[as.ID]})
		most = append(most, ScaleInfo{AspectID: as.ID, Level: as.MaxLevel})
	}
	return status, most
}

// sorted returns the units that aren't being deleted, by VDU and name.
func sorted(units []plan.Unit) []plan.Unit {
	out := slices.DeleteFunc(slices.Clone(units), func(u plan.Unit) bool { return u.Deleting })
	slices.SortFunc(out, func(x, y plan.Unit) int {
		return cmp.Or(cmp.Compare(x.VDU, y.VDU), cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID, y.ID))
	})
	return out
}

func handle(u plan.Unit, vim string) ResourceHandle {
	return ResourceHandle{VimConnectionID: vim, ResourceID: u.Name, VimLevelResourceType: u.Kind}
}

// firstGeneration is the generation of units that no blue-green change has replaced.
const firstGeneration = "0"

func unitMetadata(u plan.Unit) map[string]any {
	m := make(map[string]any, len(u.Metadata)+5)
	for k, v := range u.Metadata {
		m[k] = v
	}
	if strings.HasPrefix(u.Key, kindPod+"/") {
		m[kindPod] = map[string]any{"name": u.Name}
		if kind, rest, ok := strings.Cut(u.Owner, "/"); ok {
			m[kind] = map[string]any{"name": path.Base(rest)}
		}
	}
	if u.Generation != "" && u.Generation != firstGeneration {
		m["generation"] = u.Generation
	}
	if !u.Ready {
		m["ready"] = false
		if why := cmp.Or(u.Failure, u.Reason); why != "" {
			m["reason"] = why
		}
	}
	if len(m) == 0 {
		return nil
	}
	return m
}
