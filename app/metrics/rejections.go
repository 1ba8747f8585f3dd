package metrics

import (
	"errors"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/sol"
)

// By which way a proposed change came that was refused.
const (
	byPush    = "push"
	byRequest = "request"
)

// The rules that aren't a field of vnf.yaml.
const (
	ruleRights   = "rights"   // who asks may not
	ruleInstance = "instance" // a file under instances/
	ruleVIM      = "vims"     // a file under vims/
	ruleProject  = "projects" // a file under projects/
	ruleSettings = "settings" // another file of the desired repository
	rulePackage  = "package"  // it isn't there, or can't be used
	ruleObject   = "object"   // what is rendered, or a file of the package
	ruleOther    = "other"
)

// ruleFields are the fields of vnf.yaml that rules are about and that count by themselves.
var ruleFields = []string{
	"vim", "vims", "vimConnectionInfo", "hooks", "levels", "params", "package", "vnfdId", "update", "placement", "vdus", "flavour", "instantiationLevel",
	"extVirtualLinks", "state", "generation", "id", "em", "needs", "project",
}

// RejectedPush counts a push that is refused, by its first problem.
func (m *Meters) RejectedPush(forbidden bool, problems []*desired.Problem) {
	rule := ruleOther
	if forbidden {
		rule = ruleRights
	} else if len(problems) > 0 {
		rule = ruleOfFile(problems[0].File)
	}
	m.rejections.WithLabelValues(rule, byPush).Inc()
}

// ruleOfFile is the rule that a file at fault stands for.
func ruleOfFile(file string) string {
	folder, _, inFolder := strings.Cut(file, "/")
	switch {
	case folder == "instances":
		return ruleInstance
	case folder == desired.VIMDir:
		return ruleVIM
	case folder == desired.ProjectDir:
		return ruleProject
	case strings.HasPrefix(file, "refs/"):
		return ruleOther
	case !inFolder && strings.HasSuffix(file, ".yaml"):
		return ruleSettings
	}
	return ruleOther
}

// RejectedRequest counts a request whose change is refused; an error that isn't a refusal isn't
// one.
func (m *Meters) RejectedRequest(err error) {
	if rule := ruleOfError(err); rule != "" {
		m.rejections.WithLabelValues(rule, byRequest).Inc()
	}
}

// ruleOfError is the rule by which something is refused, "" where that isn't so.
func ruleOfError(err error) string {
	var refused *drivers.RefusedError
	var problem *desired.Problem
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused) && refused.Field != "":
		field, _, _ := strings.Cut(refused.Field, ".")
		if slices.Contains(ruleFields, field) {
			return field
		}
		return ruleOther
	case refused != nil:
		return ruleObject
	case errors.As(err, &problem):
		return ruleInstance
	case errors.Is(err, sol.ErrUnknownPackage), packages.IsUnusable(err):
		return rulePackage
	}
	return ""
}
