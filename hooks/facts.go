package hooks

import (
	"fmt"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Facts are what is known of an operation when one of its hooks is about to start. The
// hook's script and its input are made of them.
type Facts struct {
	Operation *lcm.Operation
	// Before and After are the two sides of the operation, also while it is rolled back.
	Before, After Side
	// Subject is the instance that is worked on, and the package whose hooks take part:
	// those of After, but of Before in a rollback and where everything is to go.
	Subject Side
	// Desired, Observed and Journal are what the plan is computed of.
	Desired  plan.Desired
	Observed plan.Observed
	Journal  plan.Journal
	// VIM is the main one of the instance.
	VIM VIM
	// Names tells under which names values are secrets.
	Names desired.SecretNames
	// Reveal resolves references to secrets; nil leaves them as they are.
	Reveal func(params map[string]any) (map[string]any, error)
}

// Script is the file of a package that is run for a hook, and the class in it for scripts
// of the older contract.
type Script struct {
	Package     *vnfd.Package
	Path, Class string
	// Cluster says that Jibe's own driver of Kubernetes clusters runs in its place ([ClusterDriver]).
	Cluster bool
}

// Script returns the script of the hook, and false where there is none to run. A name may
// have a unit ([plan.HookUnit]).
func (f *Facts) Script(name string) (Script, bool) {
	base, _ := plan.HookUnit(name)
	scripts := f.coordination()
	var s Script
	switch base {
	case plan.CoordinateNew:
		s = Script{Package: f.After.Package, Path: scripts.New, Class: scripts.NewClass}
	case plan.CoordinateOld, plan.CoordinateRollback:
		s = Script{Package: f.Before.Package, Path: scripts.Old, Class: scripts.OldClass}
	case plan.UserData:
		file, class := UserData(f.Subject.Instance)
		s = Script{Package: f.Subject.Package, Path: file, Class: class}
	default:
		file := f.Subject.Path(base)
		s = Script{Package: f.Subject.Package, Path: file, Cluster: ClusterDriver(f.Subject.Package, file, f.Subject.Instance.Params)}
	}
	if s.Path == "" || s.Package == nil {
		return Script{}, false
	}
	s.Path = path.Clean(s.Path)
	return s, true
}

// coordination is what the change of package says of its scripts.
func (f *Facts) coordination() desired.Coordination {
	if f.After.Instance == nil {
		return desired.Coordination{}
	}
	return f.After.Instance.Update.Coordinate
}

// Call describes the run of the script for the hook. Files, Orphan, Said and Started are
// left to the caller; Timeout is 0 where the VNFD says nothing of it. Parameters that make
// no sense are an [*InvalidError].
func (f *Facts) Call(name string, s Script) (*Call, error) {
	base, _ := plan.HookUnit(name)
	call := &Call{Package: s.Package, Path: s.Path, Cluster: s.Cluster, Timeout: f.Subject.timeout(base), Names: f.Names}
	if call.Other = f.Before.Package; s.Package == f.Before.Package {
		call.Other = f.After.Package
	}
	sealed, err := normalizeCoordination(f.coordination().Params)
	if err != nil {
		return nil, err
	}
	if call.Input, err = f.input(name, s.Class, sealed); err != nil {
		return nil, err
	}
	call.Secrets = slices.Concat(Revealed(f.Subject.Instance.Params, call.Input.Params),
		Revealed(sealed, call.Input.CoordinationParams))
	return call, nil
}

func (f *Facts) reveal(params map[string]any) (map[string]any, error) {
	if f.Reveal == nil || len(params) == 0 {
		return params, nil
	}
	clear, err := f.Reveal(params)
	if err != nil {
		return nil, fmt.Errorf("secrets that hooks are given: %w", err)
	}
	return clear, nil
}
