package desired

import (
	"cmp"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
)

const (
	// ProjectDir holds a file a project.
	ProjectDir = "projects"
	// DefaultProject is the project of whatever no other one claims.
	DefaultProject = "default"
)

// The values of Project.PodSecurity: the levels of Kubernetes' Pod Security Standards.
const (
	PodSecurityPrivileged = "privileged"
	PodSecurityBaseline   = "baseline"
	PodSecurityRestricted = "restricted"
)

// Project is a parsed projects/<name>.yaml: what belongs together, and what the packages that
// run there may bring. Patterns are names in which "*" stands for any characters.
//
// The project called [DefaultProject] has whatever no other project claims. Its file, if there
// is one, may narrow that, and says what its packages may bring.
type Project struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Instances are patterns of folders below instances/; a folder is claimed with all that is
	// below it. No two projects claim the same folder.
	Instances []string `json:"instances"`
	// Repositories, VIMs and Namespaces are patterns of the package repositories, of the files
	// under vims/ and of the namespaces of Kubernetes that the project may use. nil is none; of
	// the default project it is all that no other project names. VIMs and repositories may be
	// shared.
	Repositories []string `json:"repositories"`
	VIMs         []string `json:"vims"`
	Namespaces   []string `json:"namespaces"`
	Kinds        Kinds    `json:"kinds"`
	// ExternalIPs are the addresses that Services may take as externalIPs: a cluster sends them
	// what anybody in it sends there.
	ExternalIPs []netip.Prefix `json:"externalIPs,omitempty"`
	// PodSecurity is the level that the project's pods have to keep.
	PodSecurity string `json:"podSecurity"`
	// Hooks says whether hooks of packages may run; it allows nothing that the package
	// repository or the host doesn't.
	Hooks  bool   `json:"hooks"`
	Quotas Quotas `json:"quotas"`
	// Secrets are the variables and files, by their beginnings, that references of its instances may name
	// ([Project.MayName]). The host bounds what any reference may.
	Secrets []string `json:"secrets,omitempty"`
	// Impersonate is the account that Jibe writes to Kubernetes as.
	Impersonate ServiceAccount `json:"impersonate,omitzero"`
	// Write says which requests are proposed as pull requests.
	Write Writes `json:"write,omitzero"`

	// claims are the other projects', of the default project alone.
	claims []*Project
	// accounts are the namespaces of other projects' accounts ([Settings.Project]).
	accounts []string
}

// Kinds are the kinds of Kubernetes objects that packages may bring, as patterns of
// "Kind" (of any group) or "Kind.group" ("Deployment.apps").
type Kinds struct {
	// Namespaced nil is all kinds but those that give rights beyond their namespace.
	Namespaced []string `json:"namespaced"`
	// ClusterScoped nil is Namespace alone.
	ClusterScoped []string `json:"clusterScoped"`
	// Heat are patterns of the types of resources in Heat templates ("OS::Nova::Flavor"),
	// besides those that a VNF is made of in a project of OpenStack.
	Heat []string `json:"heat,omitempty"`
}

// Quotas bound what a project may have; 0 is no bound.
type Quotas struct {
	// Instances is how many VNF instances may be instantiated.
	Instances int `json:"instances,omitempty"`
	// VNFCs is how many VNFCs these may have together, by the scale levels in git.
	VNFCs int `json:"vnfcs,omitempty"`
}

// ServiceAccount names an account of Kubernetes; the zero value is none.
type ServiceAccount struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// IsZero says whether no account is named.
func (a ServiceAccount) IsZero() bool { return a == ServiceAccount{} }

// String is the account as Kubernetes calls its user, "" for none.
func (a ServiceAccount) String() string {
	if a.IsZero() {
		return ""
	}
	return "system:serviceaccount:" + a.Namespace + ":" + a.Name
}

// ProjectFile is the path of the file of the project with that name.
func ProjectFile(name string) string { return ProjectDir + "/" + name + ".yaml" }

// IsProjectFile says whether a file of that name under projects/ has to be a project's. Whatever
// isn't plainly a text for people is: a file that were passed over would restrict nothing.
func IsProjectFile(name string) bool {
	return !strings.HasPrefix(name, ".") && path.Ext(name) != ".md"
}

// AddProject adds the project, and says why it can't stand beside those that s has.
func (s *Settings) AddProject(p *Project) []*Problem {
	problems := s.ClaimedTwice(p)
	if s.Projects == nil {
		s.Projects = map[string]*Project{}
	}
	s.Projects[p.Name] = p
	return problems
}

// newProject has what a file that says nothing has.
func newProject(name string) *Project {
	return &Project{Name: name, PodSecurity: PodSecurityBaseline, Hooks: true}
}

// Project returns the project with that name, nil where there is none. The default project is
// always there.
func (s *Settings) Project(name string) *Project {
	if name == DefaultProject {
		return s.defaultProject()
	}
	p := s.Projects[name]
	if p == nil {
		return nil
	}
	accounts := s.accountsBeside(p)
	if len(accounts) == 0 {
		return p
	}

	with := *p
	with.accounts = accounts
	return &with
}

// accountsBeside returns the namespaces of the accounts of other projects that may share a VIM with
// p. Who may write there runs pods as these accounts.
func (s *Settings) accountsBeside(p *Project) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.Projects)) {
		other := s.Projects[name]
		if name == p.Name || other.Impersonate.IsZero() || slices.Contains(list, other.Impersonate.Namespace) {
			continue
		}
		_, _, meet := anyMeet(p.VIMs, other.VIMs, globsMeet)
		if meet || p.VIMs == nil || other.VIMs == nil { // of the default project, nil is what no other one has
			list = append(list, other.Impersonate.Namespace)
		}
	}

	return list
}

// ProjectNames are the names of all projects, the default one included, in order.
func (s *Settings) ProjectNames() []string {
	names := slices.Collect(maps.Keys(s.Projects))
	if s.Projects[DefaultProject] == nil {
		names = append(names, DefaultProject)
	}
	slices.Sort(names)
	return names
}

func (s *Settings) defaultProject() *Project {
	p := newProject(DefaultProject)
	if file := s.Projects[DefaultProject]; file != nil {
		*p = *file
	}
	p.claims, p.accounts = s.named(), s.accountsBeside(p)
	return p
}

// named are the projects but the default one, by name.
func (s *Settings) named() []*Project {
	var list []*Project
	for _, name := range slices.Sorted(maps.Keys(s.Projects)) {
		if name != DefaultProject {
			list = append(list, s.Projects[name])
		}
	}
	return list
}

// ProjectOf is the project that claims the directory of an instance ("instances/site-a/amf"),
// else the default one. It is never nil.
func (s *Settings) ProjectOf(dir string) *Project { return s.Project(s.ProjectNameOf(dir)) }

// ProjectNameOf is the name of [Settings.ProjectOf], for whoever asks for many directories.
func (s *Settings) ProjectNameOf(dir string) string {
	found := DefaultProject
	for name, p := range s.Projects {
		if name != DefaultProject && (found == DefaultProject || name < found) &&
			slices.ContainsFunc(p.Instances, func(pattern string) bool { return claimsDir(pattern, dir) }) {
			found = name
		}
	}
	return found
}

// ProjectOfRepository is the project whose packagers write the package repository: the one
// that claims it. A repository that no project claims, or several share, is the default
// project's. It is never nil.
func (s *Settings) ProjectOfRepository(name string) *Project {
	var found *Project
	for _, p := range s.named() {
		if !matchesAny(p.Repositories, name) {
			continue
		}
		if found != nil {
			return s.defaultProject()
		}
		found = p
	}
	if found != nil {
		return found
	}
	return s.defaultProject()
}

// MayUseVIM says whether instances of the project may run at the VIM of that name.
func (p *Project) MayUseVIM(name string) bool {
	return p.may(name, func(p *Project) []string { return p.VIMs })
}

// MayUseRepository says whether instances of the project may run packages of the package
// repository of that name.
func (p *Project) MayUseRepository(name string) bool {
	return p.may(name, func(p *Project) []string { return p.Repositories })
}

// MayUseNamespace says whether packages of the project may have objects in the namespace, or
// bring it. What Kubernetes itself runs in is nobody's ([ReservedNamespace]), and one in which
// another project has its account isn't this project's.
func (p *Project) MayUseNamespace(name string) bool {
	namespaces := func(p *Project) []string { return p.Namespaces }
	return !ReservedNamespace(name) && p.may(name, namespaces) && !p.claimed(name, namespaces) && !slices.Contains(p.accounts, name)
}

// ReservedNamespaces are those that Kubernetes itself runs in, which no project can be given.
func ReservedNamespaces() []string { return []string{"kube-system", "kube-public", "kube-node-lease"} }

// ReservedNamespace says whether the namespace is one of [ReservedNamespaces].
func ReservedNamespace(name string) bool { return slices.Contains(ReservedNamespaces(), name) }

// Foreign are the patterns of namespaces that other projects have their accounts in, and, of the
// default project, those that they claim; no other one needs these, as it has only what it claims
// itself.
func (p *Project) Foreign() []string {
	list := slices.Clone(p.accounts)
	for _, other := range p.claims {
		list = append(list, other.Namespaces...)
	}
	return list
}

// may says whether the project has name among what patterns returns of it. The default project
// has what no other one names, and what its file names, which it then shares.
func (p *Project) may(name string, patterns func(*Project) []string) bool {
	if own := patterns(p); own != nil || p.Name != DefaultProject {
		return matchesAny(own, name)
	}
	return !p.claimed(name, patterns)
}

// claimed says whether another project has name among what patterns returns of it.
func (p *Project) claimed(name string, patterns func(*Project) []string) bool {
	return slices.ContainsFunc(p.claims, func(other *Project) bool { return matchesAny(patterns(other), name) })
}

// claimsDir says whether the pattern of a folder below instances/ claims the directory of an
// instance.
func claimsDir(pattern, dir string) bool {
	dir = path.Clean(strings.Trim(dir, "/"))
	folder, under := strings.CutPrefix(dir, "instances/")
	return under && covers(strings.Split(pattern, "/"), strings.Split(folder, "/"))
}

// IsPattern says whether a text stands for several names.
func IsPattern(text string) bool { return strings.Contains(text, "*") }

// covers says whether the segments of a folder begin with those of the pattern.
func covers(pattern, folder []string) bool {
	if len(folder) < len(pattern) {
		return false
	}
	for i, p := range pattern {
		if !globMatches(p, folder[i]) {
			return false
		}
	}
	return true
}

// foldersMeet says whether there can be a folder that both patterns claim.
func foldersMeet(a, b string) bool {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	for i := range min(len(x), len(y)) {
		if !globsMeet(x[i], y[i]) {
			return false
		}
	}
	return true
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return globMatches(p, name) })
}

// globMatches says whether the name is one that the pattern stands for.
func globMatches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[last])
}

// globsMeet says whether there can be a name that both patterns stand for.
func globsMeet(a, b string) bool {
	// next[j] says whether a[i+1:] and b[j:] meet, row[j] the same of a[i:].
	next := make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		row := make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			anyA, anyB := i < len(a) && a[i] == '*', j < len(b) && b[j] == '*'
			switch {
			case i == len(a) && j == len(b):
				row[j] = true
			case anyA || anyB:
				row[j] = anyA && (next[j] || j < len(b) && row[j+1]) || anyB && (row[j+1] || i < len(a) && next[j])
			case i < len(a) && j < len(b):
				row[j] = a[i] == b[j] && next[j+1]
			}
		}
		next = row
	}
	return next[0]
}

// anyMeet returns the first patterns of the two lists that meet; ok is false where none do.
func anyMeet(a, b []string, meet func(a, b string) bool) (x, y string, ok bool) {
	for _, x := range a {
		for _, y := range b {
			if meet(x, y) {
				return x, y, true
			}
		}
	}
	return "", "", false
}

// ClaimedTwice says why p can't stand beside the other projects of s; nil where it can.
func (s *Settings) ClaimedTwice(p *Project) []*Problem {
	var problems []*Problem
	claim := func(other *Project, what, x, y string) {
		first, second := cmp.Or(y, x), other.Name
		said := what + " " + x
		if x != first {
			said += " and " + first
		}
		problems = append(problems, &Problem{File: ProjectFile(p.Name),
			Message: "projects " + p.Name + " and " + second + " both claim " + said,
			Remedy:  "leave it to one of them, or use patterns that can't mean the same"})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Projects)) {
		other := s.Projects[name]
		if other.Name == p.Name {
			continue
		}
		if x, y, ok := anyMeet(p.Instances, other.Instances, foldersMeet); ok {
			claim(other, "the folder", "instances/"+x, "instances/"+y)
		}
		// The same name of a namespace at two VIMs is two namespaces.
		if _, _, share := anyMeet(p.VIMs, other.VIMs, globsMeet); !share && p.VIMs != nil && other.VIMs != nil {
			continue
		}
		if x, y, ok := anyMeet(p.Namespaces, other.Namespaces, globsMeet); ok {
			claim(other, "the namespace", x, y)
		}
	}
	return problems
}
