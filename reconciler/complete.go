package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// pathsKey is the entry of an instance's metadata that names the manifests of
// ConfigMaps and Secrets that a container update takes over.
const pathsKey = "configmap_secret_paths"

// Complete fills in what a change leaves to Jibe, so that an upgrade is a change of
// one line: the pin, the name of a new generation, what a container update is and lies on,
// the VDUs that it leaves as they are, and the scale levels that the new VNFD would otherwise alter, and the VIM. before is the
// intent that after follows, nil where there is none. An intent that lacks nothing is
// returned as it is. Errors are those of [Checker.Check].
func (c *Checker) Complete(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) (*desired.Instance, error) {
	if after == nil || !desired.IsInstantiated(after.State) {
		return after, nil
	}
	next := *after
	if err := keepPins(before, &next); err != nil {
		return nil, err
	}
	pinVIM(settings, before, &next)
	open := next.Package == "" || c.stale(ctx, before, &next)
	if open {
		tree, err := c.newest(ctx, &next)
		if err != nil {
			return nil, fmt.Errorf("package of vnfdId %s: %w", next.VnfdID, err)
		}
		next.Package = tree
	}
	if n := len(next.Overlays); n > 0 && next.Overlays[n-1].Package == "" {
		next.Overlays = slices.Clone(next.Overlays)
		next.Overlays[n-1].Package = next.Package
	}
	if before == nil || !desired.IsInstantiated(before.State) || before.Package == "" {
		return &next, nil
	}
	if next.Package != before.Package {
		stack(before, &next)
		if err := c.keepLevels(ctx, before, &next); err != nil {
			return nil, err
		}
	}
	if err := c.limit(ctx, settings, before, &next, open); err != nil {
		return nil, err
	}
	if next.Update.Strategy == desired.Container {
		// Another one was filled in for a blue-green change that this one overtook before it began.
		next.Generation = before.Generation
	}
	if next.Update.Strategy == desired.BlueGreen && next.Generation == before.Generation {
		if t, _, _ := lcm.Classify(before, &next); t == lcm.ChangePackage {
			next.Generation = nextGeneration(before.Generation)
		}
	}
	return &next, nil
}

// keepPins restores in next what Jibe filled in for what runs and an edit lost: without its package line a change of
// scale levels would upgrade the VNF to the newest build. It refuses another generation that is no part of a larger change,
// as that would be built next to what runs.
func keepPins(before, next *desired.Instance) error {
	if before == nil || !desired.IsInstantiated(before.State) || before.Package == "" {
		return nil
	}
	updates := len(next.Overlays) > len(before.Overlays) // a container update of the API, which leaves the package to Jibe
	if next.Package == "" && next.VnfdID == before.VnfdID && !updates {
		next.Package = before.Package
	}
	if next.Generation == before.Generation || next.Update.Strategy == desired.Container {
		return nil
	}

	same := *next
	same.Generation = before.Generation
	if t, _, _ := lcm.Classify(before, &same); t == lcm.ChangePackage || t == lcm.ChangeFlavour {
		return nil
	}
	if next.Generation == "" {
		next.Generation = before.Generation
		return nil
	}
	back := "take the line out"
	if before.Generation != "" {
		back = "put it back: generation: " + before.Generation
	}
	return &drivers.RefusedError{Field: "generation", Reason: "it names the objects that run, and changes only with their package; " + back}
}

// newest is the tree of the newest package with the instance's vnfdId. Where it has left
// its repository, it is the one that the instance ran last, and where that isn't known
// of one that ran something, the only one that is kept.
func (c *Checker) newest(ctx context.Context, inst *desired.Instance) (string, error) {
	tree, unknown := c.packages.Newest(inst.VnfdID)
	if unknown == nil || c.earlier == nil {
		return tree, unknown
	}
	kept, err := c.packages.Kept(ctx, inst.VnfdID)
	if err != nil {
		return "", err
	}
	if len(kept) == 0 {
		return "", unknown
	}
	ran := false
	err = c.earlier(ctx, inst.ID, func(was *desired.Instance) bool {
		ran = ran || was.Package != ""
		if slices.Contains(kept, was.Package) {
			tree = was.Package
		}
		return tree != ""
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("what instance %s ran before: %w", inst.ID, err)
	case tree != "":
		return tree, nil
	case ran && len(kept) == 1:
		return kept[0], nil
	case ran:
		return "", fmt.Errorf("%w; of what ran once %d builds of it are kept, and this instance ran none: name one of them by package: %s", unknown, len(kept), strings.Join(kept, ", "))
	}
	return "", unknown
}

// stale says whether the pin is one that the author left: that of the package which
// was before the vnfdId changed. Where before is a commit that waits its turn, it has
// the new vnfdId and the old pin itself.
func (c *Checker) stale(ctx context.Context, before, next *desired.Instance) bool {
	if before == nil || next.Package != before.Package {
		return false
	}
	if next.VnfdID != before.VnfdID {
		return true
	}
	pkg, err := c.packages.Open(ctx, next.Package)
	return err == nil && pkg.VNFD.ID != next.VnfdID
}

// unpinned is after without the pin of another vnfdId than its own, and without what was
// filled in with that: a later push overtook the change which they were for before it
// began. before is what after is to follow.
func (c *Checker) unpinned(ctx context.Context, before, after *desired.Instance) *desired.Instance {
	if before == nil || after.Package == "" || after.Package == before.Package {
		return after
	}
	pkg, err := c.packages.Open(ctx, after.Package)
	if err != nil || pkg.VNFD.ID == after.VnfdID {
		return after
	}
	next := *after
	next.Package, next.Base, next.Overlays, next.VDUs, next.Generation = "", before.Base, before.Overlays, before.VDUs, before.Generation
	if next.VnfdID == before.VnfdID {
		next.Package = before.Package
	}
	return &next
}

// filledIn are the edits that make full of inst, in the keys that Complete fills in.
func filledIn(inst, full *desired.Instance) []desired.KeyValue {
	var edits []desired.KeyValue
	for _, key := range desired.Changed(inst, full) {
		var value any
		switch key {
		case "package":
			value = full.Package
		case "base":
			value = orNil(full.Base)
		case "overlays":
			if len(full.Overlays) > 0 {
				value = full.Overlays
			}
		case "vdus":
			if len(full.VDUs) > 0 {
				value = full.VDUs
			}
		case "generation":
			value = orNil(full.Generation)
		case "vim":
			value = orNil(full.VIM)
		case "levels":
			if len(full.Levels) > 0 {
				value = full.Levels
			}
		default:
			continue
		}
		edits = append(edits, desired.KeyValue{Path: []string{key}, Value: value})
	}
	return edits
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// takenBack says whether now is the intent that was before asked, but for what Jibe
// has filled in for asked and the author of now left standing.
func takenBack(was, asked, now *desired.Instance) bool {
	if was == nil || now == nil {
		return false
	}
	if desired.Equal(was, now) {
		return true
	}
	if asked == nil {
		return false
	}
	back := *now
	for _, key := range desired.Changed(was, now) {
		if slices.Contains(desired.Changed(asked, now), key) && (key != "package" || now.Package != "") {
			return false
		}
		switch key {
		case "package":
			back.Package = was.Package
		case "base":
			back.Base = was.Base
		case "overlays":
			back.Overlays = was.Overlays
		case "vdus":
			back.VDUs = was.VDUs
		case "generation":
			back.Generation = was.Generation
		case "vim":
			back.VIM = was.VIM
		case "levels":
			back.Levels = was.Levels
		}
	}
	return back.VnfdID != asked.VnfdID && desired.Equal(was, &back)
}

// stack lays a container update on what runs, or has the new package apply in full.
func stack(before, next *desired.Instance) {
	begun := len(next.Overlays) == len(before.Overlays)+1
	switch {
	case begun:
		// The request has said the paths already.
	case next.Update.Strategy == desired.Container:
		next.Overlays = append(slices.Clone(before.Overlays), desired.Overlay{Paths: configPaths(next.Metadata)})
	default:
		next.Base, next.Overlays = "", nil
		return
	}
	next.Overlays = slices.Clone(next.Overlays)
	next.Overlays[len(next.Overlays)-1].Package = next.Package
	next.Base = cmp.Or(before.Base, before.Package)
}

// configPaths are the manifests that the metadata names.
func configPaths(metadata map[string]any) []string {
	var out []string
	list, _ := metadata[pathsKey].([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// nextGeneration follows on a generation: "", "1", "2"; after one with a name of its
// own the numbers begin again.
func nextGeneration(now string) string {
	n, err := strconv.Atoi(cmp.Or(now, "0"))
	if err != nil {
		return "1"
	}
	return strconv.Itoa(n + 1)
}

// keepLevels writes down the scale levels that the instance has where the new VNFD
// would give its aspects others.
func (c *Checker) keepLevels(ctx context.Context, before, next *desired.Instance) error {
	if len(desired.Changed(&desired.Instance{Levels: before.Levels}, &desired.Instance{Levels: next.Levels})) > 0 ||
		before.InstantiationLevel != next.InstantiationLevel {
		return nil // the change says itself what they shall be
	}
	from, err := c.flavour(ctx, before)
	if err != nil || from == nil {
		return err
	}
	to, err := c.flavour(ctx, next)
	if err != nil || to == nil {
		return err
	}
	now, err := from.ScaleLevels(before.InstantiationLevel, before.Levels)
	if err != nil {
		return nil // Check says what is wrong with it
	}
	levels := map[string]int{}
	for _, a := range to.Aspects {
		level, known := now[a.ID]
		if !known {
			continue
		}
		fresh, err := to.ScaleLevels(next.InstantiationLevel, nil)
		if _, written := before.Levels[a.ID]; written || err == nil && fresh[a.ID] != level {
			levels[a.ID] = level
		}
	}
	for aspect, level := range before.Levels {
		if _, known := to.Aspect(aspect); !known && level > 0 {
			levels[aspect] = level // which Check refuses, and names
		}
	}
	next.Levels = nil
	if len(levels) > 0 {
		next.Levels = levels
	}
	return nil
}

// flavour is the deployment flavour of the instance in its package, nil where the
// package has none of that id.
func (c *Checker) flavour(ctx context.Context, inst *desired.Instance) (*vnfd.Flavour, error) {
	pkg, err := c.pkg(ctx, inst)
	if err != nil {
		return nil, fmt.Errorf("package of vnfdId %s: %w", inst.VnfdID, err)
	}
	f, ok := pkg.VNFD.Flavour(inst.Flavour)
	if !ok {
		return nil, nil
	}
	return f, nil
}

// change refuses what can't be carried out on a running VNF: by the rules of the two
// VNFDs, by what the operator allows, and by what the driver can never do.
func (c *Checker) change(ctx context.Context, settings *desired.Settings, drv drivers.Driver, before, after *desired.Instance) error {
	if err := staysPlaced(settings, before, after); err != nil {
		return err
	}
	t, _, _ := lcm.Classify(before, after)
	if err := redeployable(t, before, after); err != nil {
		return err
	}
	if t != lcm.ChangePackage && t != lcm.ChangeFlavour && t != lcm.ChangeExtConn && len(before.Overlays) == len(after.Overlays) {
		return nil
	}
	from, err := sourceOf(ctx, c.packages, c.reveal, before)
	if err != nil {
		return err
	}
	to, err := sourceOf(ctx, c.packages, c.reveal, after)
	if err != nil {
		return err
	}
	if err := sameUnits(before, from.Package, to.Package); err != nil {
		return err
	}
	if err := c.coordinated(after, from.Package, to.Package); err != nil {
		return err
	}
	if err := drv.Change(from, to); err != nil {
		return err
	}
	return staysAsPinned(drv, from, to)
}

// sameUnits refuses a VNFD that has no place for what runs.
func sameUnits(before *desired.Instance, from, to *vnfd.Package) error {
	old, ok := from.VNFD.Flavour(before.Flavour)
	if !ok {
		return nil
	}
	fresh, ok := to.VNFD.Flavour(before.Flavour)
	if !ok {
		return nil // said when the flavour is looked up
	}
	levels, err := old.ScaleLevels(before.InstantiationLevel, before.Levels)
	if err != nil {
		return nil // it ran with levels that its VNFD doesn't have: nothing can be compared
	}
	for i := range old.VDUs {
		vdu := &old.VDUs[i]
		n, err := old.Count(vdu, before.InstantiationLevel, levels)
		if err == nil && n > 0 && !slices.ContainsFunc(fresh.VDUs, func(x vnfd.VDU) bool { return x.ID == vdu.ID }) {
			return &drivers.RefusedError{Field: "vnfdId", Reason: fmt.Sprintf(
				"VDU %s runs %d units, but VNFD %s has no VDU of that id: give the new VNFD all VDUs that run", vdu.ID, n, to.VNFD.ID)}
		}
	}
	for _, a := range old.Aspects {
		if _, known := fresh.Aspect(a.ID); !known && levels[a.ID] > 0 {
			return &drivers.RefusedError{Field: "levels", Reason: fmt.Sprintf(
				"aspect %s is at scale level %d, but VNFD %s has no aspect of that id: scale it to 0 first, or keep its name", a.ID, levels[a.ID], to.VNFD.ID)}
		}
	}
	return nil
}

// coordinated refuses coordination scripts that aren't there or may not be run.
func (c *Checker) coordinated(after *desired.Instance, from, to *vnfd.Package) error {
	for _, script := range []struct {
		field, path string
		pkg         *vnfd.Package
	}{
		{"update.coordinate.new", after.Update.Coordinate.New, to},
		{"update.coordinate.old", after.Update.Coordinate.Old, from},
	} {
		if script.path == "" {
			continue
		}
		if err := hooks.Runnable(c.packages, script.pkg, script.path, after.Hooks == desired.HooksSkip); err != nil {
			return &drivers.RefusedError{Field: script.field, Reason: err.Error()}
		}
	}
	known, err := hooks.ContactsOf(after.Update.Coordinate.Params)
	if err != nil {
		return asRefused(err)
	}
	for _, vdu := range known.VDUs {
		if f, ok := to.VNFD.Flavour(after.Flavour); ok && !slices.ContainsFunc(f.VDUs, func(x vnfd.VDU) bool { return x.ID == vdu }) {
			return &drivers.RefusedError{Field: "update.coordinate.params", Reason: fmt.Sprintf(
				"%s names VDU %s, of which flavour %s of VNFD %s knows nothing", hooks.VDUParams, vdu, f.ID, to.VNFD.ID)}
		}
	}
	return nil
}
