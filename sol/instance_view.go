package sol

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
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
	rev := k.head
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
	in, err := a.shown(ctx, k)
	if err != nil {
		return nil, err
	}
	v := &VnfInstance{
		ID: k.id, Name: in.Name, Description: in.Description, VnfdID: in.VnfdID,
		InstantiationState: stateNotInstantiated,
	}
	var names desired.SecretNames
	pkg, err := a.View.Package(ctx, in)
	if err == nil {
		d := pkg.VNFD
		names = names.With(d.SecretParams...)
		v.Provider, v.ProductName, v.SoftwareVersion, v.VnfdVersion = d.Provider, d.ProductName, d.SoftwareVersion, d.Version
	} else {
		// The instance is shown all the same, with the product of its last operation.
		a.Log.WarnContext(ctx, "package of an instance can't be read", "instance", k.id, "error", err)
		n := k.record.VNF
		v.Provider, v.ProductName, v.SoftwareVersion, v.VnfdVersion = n.Provider, n.ProductName, n.SoftwareVersion, n.VnfdVersion
	}
	v.Metadata, v.Extensions, v.VnfConfigurableProperties = redacted(names, in.Metadata), redacted(names, in.Extensions), redacted(names, in.ConfigurableProperties)
	if v.VnfConfigurableProperties == nil {
		v.VnfConfigurableProperties = map[string]any{}
	}
	running := in.State == desired.Instantiated
	if running {
		v.InstantiationState = stateInstantiated
		if shows("metadata") {
			v.Metadata = withFiles(v.Metadata, in)
		}
		if shows("vimConnectionInfo") {
			v.VimConnectionInfo = a.connections(in)
		}
	}
	switch {
	case !shows("instantiatedVnfInfo"):
	case running:
		v.InstantiatedVnfInfo = a.instantiated(ctx, k, in, pkg)
	case in.Flavour != "":
		v.InstantiatedVnfInfo = &InstantiatedVnfInfo{FlavourID: in.Flavour, VnfState: vnfStopped}
	}
	if shows("jibe") {
		v.Jibe = a.status(ctx, k)
	}
	v.Links = a.instanceLinks(k.id, running)
	return v, nil
}

// instanceLinks returns links to the tasks that the state allows (SOL003 clause 5.5.2.2).
func (a *api) instanceLinks(id string, running bool) map[string]Link {
	tasks := map[string]string{"instantiate": "instantiate"}
	if running {
		tasks = map[string]string{"terminate": "terminate", "scale": "scale", "heal": "heal", "changeCurrentVnfPkg": "change_vnfpkg", "changeExtConn": "change_ext_conn"}
	}
	links := map[string]Link{"self": {Href: a.link("vnf_instances", id)}}
	for name, task := range tasks {
		links[name] = Link{Href: a.link("vnf_instances", id, task)}
	}
	return links
}

// instantiated returns what runs now. While the VIM can't be observed that is what the last
// record has, marked as stale.
func (a *api) instantiated(ctx context.Context, k known, in *desired.Instance, pkg *vnfd.Package) *InstantiatedVnfInfo {
	info := &InstantiatedVnfInfo{FlavourID: in.Flavour, VnfState: vnfStarted, Metadata: map[string]any{}}
	if pkg != nil {
		if f, ok := pkg.VNFD.Flavour(in.Flavour); ok {
			info.ScaleStatus, info.MaxScaleLevels = scaleStatus(f, in)
		}
	}
	seen := a.look(ctx, k.id)
	units, used := seen.Units, seen.Resources
	if !seen.fresh {
		units, used = k.record.Units, k.record.Resources
		info.Metadata["stale"] = true
	}
	units = sorted(units)
	vim := a.vimName(in)
	for _, u := range units {
		info.VnfcResourceInfo = append(info.VnfcResourceInfo, VnfcResourceInfo{
			ID: u.Resource(), VduID: u.VDU, ComputeResource: handle(u, cmp.Or(u.VIM, in.Placement[u.VDU], vim)), Metadata: unitMetadata(u)})
		info.VnfcInfo = append(info.VnfcInfo, VnfcInfo{
			ID: vnfcInfoID(u), VduID: u.VDU, VnfcResourceInfoID: u.Resource(), VnfcState: vnfStarted})
	}
	info.VirtualLinks, info.VirtualStorages = virtualLinks(seen.Objects, vim), virtualStorages(seen.Objects, vim)
	info.resources(in, units, used, vim)
	for _, name := range []string{"namespace", defFiles} {
		if v, ok := in.Params[name]; ok {
			info.Metadata[name] = v
		}
	}
	whereabouts(info.Metadata, in, units, seen.Objects)
	if head := a.intent(ctx, k); head.Held != "" {
		info.Metadata["held"] = head.Held
	}
	return info
}

// status returns Jibe's own attribute of the instance, nil where everything has its default.
func (a *api) status(ctx context.Context, k known) *InstanceStatus {
	head := a.intent(ctx, k)
	s := InstanceStatus{
		Suspended: head.Suspend, Held: head.Held, Drifted: a.View.Drifted(k.id), DriftPolicy: cmp.Or(head.Drift, desired.DriftCorrect),
		Failed: a.failed(ctx, k), Problems: a.View.Problems(k.id),
	}
	if !s.Suspended && s.Held == "" && len(s.Drifted) == 0 && s.DriftPolicy == desired.DriftCorrect && s.Failed == nil && len(s.Problems) == 0 {
		return nil
	}
	return &s
}

// failed returns the instance's operation in FAILED_TEMP, or nil.
func (a *api) failed(ctx context.Context, k known) *FailedOperation {
	if k.record.Open == "" {
		return nil
	}
	op, err := a.Operations.Operation(ctx, k.record.Open)
	if err != nil || op.State != lcm.FailedTemp {
		return nil // or it has ended since
	}
	f := &FailedOperation{ID: op.ID, Operation: op.Type, Automatic: op.Automatic}
	if op.Error != nil {
		f.Reason = op.Error.Detail
	}
	return f
}

// intent returns head's intent, which alone has the present values of held, suspend and
// drift: they may be newer than what was last brought about. It is empty where head can't be
// read.
func (a *api) intent(ctx context.Context, k known) *desired.Instance {
	if !k.inHead {
		return &desired.Instance{}
	}
	in, err := a.Repo.Read(ctx, k.head)
	if err != nil {
		a.Log.WarnContext(ctx, "head of an instance can't be read", "instance", k.id, "error", err)
		return &desired.Instance{}
	}
	return in
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
	m := make(map[string]any, len(u.Metadata)+3)
	for k, v := range u.Metadata {
		m[k] = v
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
