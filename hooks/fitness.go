package hooks

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// errNoPython is returned where no python3 is found.
var errNoPython = errors.New("python3 isn't in " + searchPath + ": install it where Jibe runs")

// Fit refuses an operation with a hook that would do nothing, or couldn't begin, as far as
// the text of its file tells: a Python file that only defines, or that imports what isn't
// there. The error is an [*InvalidError] that names each; any other means that there is no answer
// now. What it can't tell shows when the hook runs.
func Fit(ctx context.Context, python *Interpreter, t lcm.Type, needed []Needed) error {
	var unfit []string
	for _, x := range needed {
		why, err := x.unfit(ctx, python)
		if err != nil {
			return fmt.Errorf("look at %s of package %s: %w", x.Path, x.Package.Tree, err)
		}
		if why != "" {
			unfit = append(unfit, fmt.Sprintf("%s (%s): %s", x.Path, x.Hook, why))
		}
	}
	if len(unfit) == 0 {
		return nil
	}
	return &InvalidError{Field: "hooks", Reason: fmt.Sprintf(
		"%s needs hooks of the package that can't run: %s. Either correct the package, or leave its hooks out: hooks: %s in %s", t, strings.Join(unfit, "; "), desired.HooksSkip, desired.InstanceFile)}
}

// unfit says why the hook can't run, "" where nothing tells that it can't.
func (n Needed) unfit(ctx context.Context, python *Interpreter) (string, error) {
	if path.Ext(n.Path) != ".py" || n.Hook == plan.UserData || n.Package.Files == nil || ClusterDriver(n.Package, n.Path, n.Params) {
		return "", nil
	}
	file, err := python.lookAt(n.Package, n.Path)
	if err != nil {
		return "", err
	}
	reason := ""
	if file.starts == no {
		_, reason = file.class(n.Hook, n.Class)
	}
	if file.searches || reason == "" && !file.speaksOlder(n.Path, n.Hook, n.Class) {
		return reason, nil // another interpreter may run it, and where it looks isn't known
	}
	own := slices.DeleteFunc(slices.Clone(file.imports), func(module string) bool { return beside(n.Package.Files, n.Path, module) })
	missing, err := python.Missing(ctx, own)
	switch {
	case errors.Is(err, errNoPython):
		return err.Error(), nil
	case err != nil:
		return "", err
	case slices.Contains(missing, olderVNFM):
		return fmt.Sprintf("it imports %s, modules of another VNFM that aren't here: %s", strings.Join(missing, ", "), n.instead()), nil
	case reason == "" && len(missing) > 0:
		return fmt.Sprintf("it imports %s, which python3 doesn't find: install it where Jibe runs, or put it beside the file", strings.Join(missing, ", ")), nil
	}
	return reason, nil
}

// instead says what can be done about a file that needs the older VNFM's modules.
func (n Needed) instead() string {
	base := path.Base(n.Path)
	if ok, _ := path.Match("container_update_mgmt*.py", base); ok {
		return "it isn't the container update that Jibe does by itself, but a changed one; take it out of the VNFD where that does, or write the change as a hook of its own"
	}
	if ok, _ := path.Match("kubernetes_mgmt*.py", base); ok {
		return fmt.Sprintf("Jibe's own driver of Kubernetes clusters takes its place where the instance has the parameter that it knows: %v", params.Accepts(n.Params))
	}
	return "install them for python3 where Jibe runs, or write the hook without them"
}
