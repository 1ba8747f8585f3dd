package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// Lacking names what of a change of the desired repository somebody may not make: what stands
// outside of instances/ is an admin's, but for the files of rollouts, which are those of operators in
// all projects unless they pass maintenance windows; and a directory below it is the operators' of its project,
// as settings, those at the present head, tell projects. What the change itself says of
// projects counts for nothing.
func Lacking(who auth.Identity, settings *desired.Settings, t read.Touched) []*desired.Problem {
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

// LackingDrafts names the refs beside the branch of the desired repository that the caller may not
// bring. Branches are drafts, which who operates anything may bring; a tag is there for good, and
// all who clone have it.
func LackingDrafts(who auth.Identity, updates []check.RefUpdate) (out []*desired.Problem) {
	for _, u := range updates {
		switch tag := strings.HasPrefix(u.Ref, "refs/tags/"); {
		case tag && !who.May(auth.Admin, ""):
			out = append(out, lacks(who, u.Ref, auth.Admin, ""))
		case !tag && !who.MayAnywhere(auth.Operator):
			out = append(out, lacks(who, u.Ref, auth.Operator, ""))
		}
	}
	return out
}

// LackingRefs names the refs of a package repository that the caller may not update without the
// role in each of the projects; without a project, in any.
func LackingRefs(who auth.Identity, role auth.Role, projects []string, updates []check.RefUpdate) []*desired.Problem {
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
