package hooks

import (
	"io/fs"
	"path"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Side is what an operation begins with, or ends with: the instance and its package. Both
// are nil where nothing runs on that side.
type Side struct {
	Instance *desired.Instance
	Package  *vnfd.Package
	// Levels are the scale levels that count: those of the VNFD where vnf.yaml names none.
	Levels map[string]int
}

// Path is the file that is run for a hook of the VNFD's Vnflcm interface ("scale_start"), ""
// where the VNFD names none, or one whose work Jibe does itself.
func (s Side) Path(hook string) string {
	if f := s.flavour(); f != nil && !updatesContainer(s.Package, f.Hooks[hook]) {
		return f.Hooks[hook]
	}
	return ""
}

// timeout is how long the VNFD lets the hook run, 0 where it says nothing.
func (s Side) timeout(hook string) time.Duration {
	if f := s.flavour(); f != nil {
		return f.HookTimeouts[hook]
	}
	return 0
}

func (s Side) flavour() *vnfd.Flavour {
	if s.Package == nil || s.Package.VNFD == nil {
		return nil
	}
	f, ok := s.Package.VNFD.Flavour(s.Instance.Flavour)
	if !ok {
		return nil
	}
	return f
}

// Coordinates says whether the hook is a coordination script of a change of package; name
// has no unit ([plan.HookUnit]).
func Coordinates(name string) bool {
	return name == plan.CoordinateNew || name == plan.CoordinateOld || name == plan.CoordinateRollback
}

// Skipped says whether an operation between the two intents leaves its hooks out, because
// vnf.yaml says so. Either may be nil.
func Skipped(before, after *desired.Instance) bool {
	if after == nil {
		after = before
	}
	return after != nil && after.Hooks == desired.HooksSkip
}

// Needed is a hook that an operation runs.
type Needed struct {
	Hook, Path string // its name, and its file in the package
	Class      string // that the request names in the file, "" for none
	Package    *vnfd.Package
	Params     map[string]any // of the instance
}

// NeededBy returns the hooks that an operation of the type runs, in the order in which it
// may run them, with those of its rollback. An automatic operation and a TERMINATE are
// never rolled back. onOpenStack says whether any of the instance runs on an OpenStack,
// where user data classes run.
func NeededBy(t lcm.Type, automatic bool, before, after Side, onOpenStack bool) []Needed {
	var list []Needed
	forward, back := after, before
	if forward.Instance == nil {
		forward = before
	}
	if back.Instance == nil {
		back = after
	}
	add := func(hook, file, class string, side Side) {
		if file != "" && side.Package != nil {
			list = append(list, Needed{hook, path.Clean(file), class, side.Package, side.Instance.Params})
		}
	}
	vnflcm := func(side Side, rollback bool, when string) {
		hook := plan.HookName(string(t), rollback, when)
		add(hook, side.Path(hook), "", side)
	}
	if (t == lcm.Instantiate || t == lcm.ChangePackage || t == lcm.ChangeFlavour) && onOpenStack && after.Instance != nil {
		file, class := UserData(after.Instance)
		add(plan.UserData, file, class, after)
	}
	vnflcm(forward, false, "start")
	if t == lcm.ChangePackage && before.Instance != nil && after.Instance != nil {
		scripts := after.Instance.Update.Coordinate
		add(plan.CoordinateNew, scripts.New, scripts.NewClass, after)
		add(plan.CoordinateOld, scripts.Old, scripts.OldClass, before)
	}
	vnflcm(forward, false, "end")
	if !automatic && t != lcm.Terminate {
		vnflcm(back, true, "start")
		vnflcm(back, true, "end")
	}
	return list
}

// hasFile says whether the package has a regular file of that path, which requests may
// begin with "./".
func hasFile(pkg *vnfd.Package, name string) bool {
	info, err := fs.Stat(pkg.Files, path.Clean(name))
	return err == nil && info.Mode().IsRegular()
}
