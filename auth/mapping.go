package auth

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// ParseMapping reads what roles of an issuer's stand for here: "THEIRS=OURS" for all
// projects, "THEIRS=OURS@PROJECT,PROJECT" for some. A line may hold several with commas
// between them. A role of theirs that comes several times stands for all that is said of it.
func ParseMapping(lines []string) (map[string][]Permission, error) {
	roles := map[string][]Permission{}
	for _, line := range lines {
		var last *Permission // of this line: what stands behind a comma and has no "=" is a project of it
		for part := range strings.SplitSeq(line, ",") {
			cut := strings.LastIndex(part, "=")
			if cut < 0 {
				if last == nil || last.Projects == nil || part == "" {
					return nil, fmt.Errorf("%q: want THEIRS=OURS or THEIRS=OURS@PROJECT,PROJECT, as member=operator@east", line)
				}
				last.Projects = append(last.Projects, part)
				continue
			}
			theirs, ours := part[:cut], part[cut+1:]
			if theirs == "" {
				return nil, fmt.Errorf("%q: the name of a role is empty", line)
			}
			name, project, confined := strings.Cut(ours, "@")
			role, err := ParseRole(name)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			p := Permission{Role: role}
			if confined {
				if project == "" {
					return nil, fmt.Errorf("%q: the name of a project is empty", line)
				}
				p.Projects = []string{project}
			}
			roles[theirs] = append(roles[theirs], p)
			last = &roles[theirs][len(roles[theirs])-1]
		}
	}
	return roles, nil
}

// checkMapping refuses a mapping that [ParseMapping] wouldn't return.
func checkMapping(roles map[string][]Permission) error {
	for theirs, permissions := range roles {
		if theirs == "" {
			return errors.New("the name of a role is empty")
		}
		for _, p := range permissions {
			if _, err := ParseRole(string(p.Role)); err != nil || !p.Role.Includes(p.Role) {
				return fmt.Errorf("%s stands for %q, which is none of viewer, planner, operator, packager, admin", theirs, p.Role)
			}
		}
	}
	return nil
}

// ParseMappingFile is [ParseMapping] for a YAML file, in which roles of theirs may have any
// name: "roles: [{theirs, role, projects}]".
func ParseMappingFile(data []byte) (map[string][]Permission, error) {
	var f struct {
		Roles []struct {
			Theirs given `json:"theirs"`
			fileRole
		} `json:"roles"`
	}
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, fmt.Errorf(`want YAML of the form "roles: [{theirs, role, projects}]" in which nothing is empty: %w`, err)
	}
	roles := map[string][]Permission{}
	for i, r := range f.Roles {
		role, err := ParseRole(string(r.Role))
		if err != nil || r.Theirs == "" {
			return nil, fmt.Errorf("roles[%d]: %w", i, cmp.Or(err, errors.New("theirs is missing")))
		}
		roles[string(r.Theirs)] = append(roles[string(r.Theirs)], Permission{Role: role, Projects: r.Projects})
	}
	return roles, nil
}
