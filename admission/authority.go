package admission

import (
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

// Lacking names what of a change of the desired repository somebody may not make: what stands
// outside of instances/ is an admin's, but for the files of rollouts, which are those of operators in
// all projects unless they pass maintenance windows; and a directory below it is the operators' of its project,
// as settings, those at the present head, tell projects. What the change itself says of
// projects counts for nothing.
func Lacking(who auth.Identity, settings *desired.Settings, t gitrepo.Touched) []*desired.Problem {
	var out []*desired.Problem
	for _, file := range t.Outside {
		role := auth.Admin
		if desired.IsRolloutFile(file) && !slices.Contains(t.Anytime, file) { // not its ledger
			role = auth.Operator
		}
		if !who.May(role, "") {
			out = append(out, lacks(who, file, role, ""))
		}
	}
	may := map[string]bool{} // by project
	for _, dir := range t.Dirs {
		project := settings.ProjectNameOf(dir)
		allowed, known := may[project]
		if !known {
			allowed = who.May(auth.Operator, project)
			may[project] = allowed
		}
		if !allowed {
			out = append(out, lacks(who, dir, auth.Operator, project))
		}
	}
	return out
}

// LackingRefs names the refs of a push that somebody may not update who hasn't the role in
// each of the projects; without a project, in any. So is what isn't judged by its content: the
// refs of package repositories, and in the desired one those beside its branch. They are
// drafts, which whoever operates anything may bring.
func LackingRefs(who auth.Identity, role auth.Role, projects []string, updates []gitrepo.RefUpdate) []*desired.Problem {
	if len(projects) == 0 && who.MayAnywhere(role) {
		return nil
	}
	missing := slices.IndexFunc(projects, func(p string) bool { return !who.May(role, p) })
	if len(projects) > 0 && missing < 0 {
		return nil
	}
	project := ""
	if missing >= 0 {
		project = projects[missing]
	}
	var out []*desired.Problem
	for _, u := range updates {
		out = append(out, lacks(who, u.Ref, role, project))
	}
	return out
}

// lacks says who may not change what, and which role is needed; project "" is none in
// particular.
func lacks(who auth.Identity, file string, role auth.Role, project string) *desired.Problem {
	need := string(role)
	if project != "" {
		need += " in project " + project
	}
	return &desired.Problem{File: file,
		Message: fmt.Sprintf("%s may not push this: it needs the role %s, and %s is %s", who, need, who.Name, who.Describe()),
		Remedy:  "have somebody with that role push it"}
}
