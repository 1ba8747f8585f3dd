package auth

import (
	"fmt"
	"slices"
	"strings"
)

// Role is what a caller may do. [Role.Includes] says which includes which.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // reads
	Planner  Role = "planner"  // also has changes judged and planned, so that CI needs no more
	Operator Role = "operator" // also changes instances
	Packager Role = "packager" // planner who also changes packages
	Admin    Role = "admin"    // everything
)

// ParseRole reads a role. It also knows the names that roles had in earlier versions: read,
// operate.
func ParseRole(text string) (Role, error) {
	switch r := Role(text); r {
	case Viewer, Planner, Operator, Packager, Admin:
		return r, nil
	case "read":
		return Viewer, nil
	case "operate":
		return Operator, nil
	}
	return "", fmt.Errorf("role %q is none of viewer, planner, operator, packager, admin", text)
}

// Includes says whether a caller with role r may do what needs the role need. What is no
// role includes nothing and is included in nothing.
func (r Role) Includes(need Role) bool {
	var all []Role
	switch r {
	case Viewer:
		all = []Role{Viewer}
	case Planner:
		all = []Role{Viewer, Planner}
	case Operator:
		all = []Role{Viewer, Planner, Operator}
	case Packager:
		all = []Role{Viewer, Planner, Packager}
	case Admin:
		all = []Role{Viewer, Planner, Operator, Packager, Admin}
	}
	return slices.Contains(all, need)
}

// Permission is a role in some projects.
type Permission struct {
	Role Role `json:"role"`
	// Projects are the projects' names. nil, and a list with "*" in it, stand for all
	// projects and for what belongs to none; an empty list stands for nothing. It has no
	// omitempty: an empty list that came back as nil would be all projects.
	Projects []string `json:"projects"`
}

// Unconfined says whether the permission is for all projects.
func (p Permission) Unconfined() bool {
	return p.Projects == nil || slices.Contains(p.Projects, AllProjects)
}

// AllProjects stands for all projects in [Permission.Projects].
const AllProjects = "*"

// The issuers of identities that have no URL.
const (
	IssuerTokens       = "tokens.yaml"
	IssuerCertificates = "certificate"
	IssuerKeystone     = "keystone"
	IssuerHost         = "host" // whoever can write the files of the data directory
	IssuerNone         = "insecure-dev"
)

// The interfaces that an identity may be confined to.
const (
	SOL002 = "sol002" // an element manager or a VNF
	SOL003 = "sol003" // an NFVO
)

// Identity is a caller.
type Identity struct {
	// Name goes into commits and operation records. It is unique within Issuer.
	Name string `json:"name"`
	// ID is the issuer's own id of the caller, which outlives a change of the name and doesn't come again;
	// "" where the name is all that there is.
	ID string `json:"id,omitempty"`
	// Issuer says who vouches for Name: one of the Issuer constants, or the URL of an issuer
	// of OpenID Connect.
	Issuer      string       `json:"issuer"`
	Permissions []Permission `json:"permissions"`
	// Interface confines the caller to what an interface has: SOL002 or SOL003; "" is both.
	Interface string `json:"interface,omitempty"`
	// EM confines the caller to the instances whose vnf.yaml names this peer as the element
	// manager; "" confines to nothing.
	EM string `json:"em,omitempty"`
}

// May says whether the caller may do in a project what needs the role. The project "" is what
// belongs to no project, or to all: it needs an unconfined permission.
func (id Identity) May(role Role, project string) bool {
	return slices.ContainsFunc(id.Permissions, func(p Permission) bool {
		return p.Role.Includes(role) && (p.Unconfined() || project != "" && slices.Contains(p.Projects, project))
	})
}

// MayAnywhere says whether there is a project in which the caller may do what needs the role.
func (id Identity) MayAnywhere(role Role) bool {
	return slices.ContainsFunc(id.Permissions, func(p Permission) bool {
		return p.Role.Includes(role) && (p.Projects == nil || len(p.Projects) > 0)
	})
}

// Is reports whether both are the same caller, whatever each may do. An id that both have tells, else their names
// do; who has one isn't who hasn't.
func (id Identity) Is(other Identity) bool {
	return id.Issuer == other.Issuer && id.ID == other.ID && (id.ID != "" || id.Name == other.Name)
}

// String is the caller as commits and operation records name it: the name, and the issuer
// behind it where that isn't tokens.yaml. So nobody whom another issuer vouches for is taken
// for who has a token here.
func (id Identity) String() string {
	if id.Name == "" || id.Issuer == IssuerTokens {
		return id.Name
	}
	return id.Name + " (" + id.Issuer + ")"
}

// Describe says in words what the caller may do: "operator in east, west; viewer".
func (id Identity) Describe() string {
	var all []string
	for _, p := range id.Permissions {
		text := string(p.Role)
		if !p.Unconfined() {
			text += " in " + strings.Join(p.Projects, ", ")
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "no role"
	}
	return strings.Join(all, "; ")
}
