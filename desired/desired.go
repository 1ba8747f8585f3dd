// Package desired owns what should exist: the instance files of the desired
// repository, their meaning, and the revisions at which they stand.
//
// It reads and edits the text of files. Where the files are (git, a working
// copy) is the business of desired/gitrepo; what they cause is the reconciler's.
package desired

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jibe-vnfm/jibe/internal/changed"
)

// The values of Instance.State.
const (
	Instantiated    = "instantiated"
	Stopped         = "stopped" // instantiated, and nothing of it runs
	NotInstantiated = "notInstantiated"
)

// IsInstantiated says whether a value of Instance.State is that of an instantiated VNF, be it
// started or stopped.
func IsInstantiated(state string) bool { return state == Instantiated || state == Stopped }

// MayHaveObjects reports whether objects of the instance may exist at a VIM: it is instantiated, or it is held after
// an operation that was set to FAILED and that left what it had made. nil has none.
func MayHaveObjects(in *Instance) bool {
	return in != nil && (IsInstantiated(in.State) || in.Held != "")
}

// HasRemains reports whether the instance is not instantiated and may nevertheless have objects: an instantiation, or a
// termination of what one had left, was set to FAILED. Its file keeps where they are until they have ended.
func HasRemains(in *Instance) bool { return MayHaveObjects(in) && !IsInstantiated(in.State) }

// The values of UpdatePolicy.Strategy.
const (
	Rolling   = "rolling"
	BlueGreen = "blueGreen"
	Container = "container"
)

// The values of Instance.Drift.
const (
	DriftCorrect = "correct"
	DriftReport  = "report"
)

// HooksSkip is the value of Instance.Hooks that runs no hook of the package.
const HooksSkip = "skip"

// SupersedeNever is the value of Instance.Supersede that keeps the order of commits.
const SupersedeNever = "never"

// InstanceFile is the name of the file that makes a directory below instances/
// an instance.
const InstanceFile = "vnf.yaml"

// Instance is the whole intent for one VNF: a parsed vnf.yaml. It is immutable
// once parsed: an edit makes new text, which is parsed again.
type Instance struct {
	// ID is the VNF instance id: as written, else derived from the directory.
	ID          string `json:"id,omitempty"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	VnfdID      string `json:"vnfdId"`
	// Follow has Jibe commit newer versions of the package as they are published.
	Follow Follow `json:"follow,omitzero"`
	// State is Instantiated (the default), Stopped or NotInstantiated.
	State   string `json:"state,omitempty"`
	Flavour string `json:"flavour,omitempty"`
	// InstantiationLevel is an instantiation level of the flavour; "" is the VNFD's default.
	InstantiationLevel string `json:"instantiationLevel,omitempty"`
	// Levels are absolute scale levels by aspect. An aspect that isn't named has
	// the scale level that the instantiation level gives it.
	Levels map[string]int `json:"levels,omitempty"`
	// What Jibe fills in stands apart from VnfdID, so that git can revert a change of
	// that line alone: lines side by side would conflict.

	// Package is the git tree hash of the package that runs. Jibe fills it in.
	Package string `json:"package,omitempty"`
	// Base is the package whose manifests apply in full, "" where that is Package. It
	// differs while container updates lie on top of it.
	Base string `json:"base,omitempty"`
	// Overlays are the container updates on top of Base, in order. The last one's
	// package is Package. A heal of the whole VNF and a change of package end them.
	Overlays []Overlay `json:"overlays,omitempty"`
	// VDUs are those that a change of package has left as they were, by id. All others
	// are as Package has them.
	VDUs map[string]VDUPin `json:"vdus,omitempty"`
	// Generation is the name suffix and the colour of the objects that run, "" for
	// the first. Only a blue-green change of package changes it.
	Generation string       `json:"generation,omitempty"`
	Update     UpdatePolicy `json:"update,omitzero"`
	// VIM names a file under vims/. "" means VIMConnections, else the default VIM, which
	// Jibe fills in when the VNF is instantiated.
	VIM string `json:"vim,omitempty"`
	// VIMConnections is vimConnectionInfo as SOL003 4.4.1.6 has it; secrets in
	// accessInfo are references, never in clear.
	VIMConnections map[string]VIMConnection `json:"vimConnectionInfo,omitempty"`
	// Placement says which VDUs run at another VIM than the others: VDU -> name of a file
	// under vims/, or key in VIMConnections.
	Placement map[string]string `json:"placement,omitempty"`
	// Needs are the instances that must be there and ready before this one is instantiated or
	// changed, and that are terminated after it.
	Needs []Need `json:"needs,omitempty"`
	// ExtVirtualLinks and ExtManagedVirtualLinks are the networks that the VNF is
	// connected to, and those that take the place of its own.
	ExtVirtualLinks        []ExtVirtualLink        `json:"extVirtualLinks,omitempty"`
	ExtManagedVirtualLinks []ExtManagedVirtualLink `json:"extManagedVirtualLinks,omitempty"`
	// Params are the additionalParams of instantiation:
	// lcm-kubernetes-def-files, namespace, …
	Params map[string]any `json:"params,omitempty"`
	// Condemned names incarnations that must not exist (heal): key -> incarnation.
	Condemned              map[string]string `json:"condemned,omitempty"`
	Metadata               map[string]any    `json:"metadata,omitempty"`
	Extensions             map[string]any    `json:"extensions,omitempty"`
	ConfigurableProperties map[string]any    `json:"vnfConfigurableProperties,omitempty"`
	// Drift is DriftCorrect (the default) or DriftReport.
	Drift string `json:"drift,omitempty"`
	// Hooks is "" or HooksSkip. By default operations run the hooks that the package names for
	// them, and an operation whose hooks may not run is refused. With HooksSkip they run none.
	Hooks string `json:"hooks,omitempty"`
	// EM names the element manager of [PeersFile] that coordinates with the instance's
	// operations; "" is the default one.
	EM      string `json:"em,omitempty"`
	Suspend bool   `json:"suspend,omitempty"`
	// Supersede is SupersedeNever where the change has to wait until the operation under way has ended;
	// "" lets it take the place of one that only waits.
	Supersede string `json:"supersede,omitempty"`
	// Held is the operation that failed on this instance; the next request lifts it.
	Held string `json:"held,omitempty"`
	// Derived says that the file gives no id, so that ID follows from the directory.
	Derived bool `json:"-"`
	// Dir is the directory that the file was read in, without a slash at the end: it says whose
	// the instance is ([Settings.ProjectOf]).
	Dir string `json:"-"`
	// Granted is what stands in granted.yaml beside the file; nil where there is none. It is no
	// part of what the file says: see [Instance.WithGrant].
	Granted *Granted `json:"-"`
}

// UpdatePolicy says how a change of package reaches what runs.
type UpdatePolicy struct {
	// Strategy is Rolling (the default), BlueGreen or Container.
	Strategy string `json:"strategy,omitempty"`
	// Coordinate are the coordination scripts of a change of package.
	Coordinate Coordination `json:"coordinate,omitzero"`
	// Drain is how long connections get after a blue-green switch before the old
	// generation goes, as time.ParseDuration reads it ("30s"); "" is no time.
	Drain string `json:"drain,omitempty"`
	// BarePods lets a blue-green change replace Pods that no workload owns.
	BarePods bool `json:"barePods,omitempty"`
	// AllAtOnce lets a rolling change renew VNFCs together that can't be renewed one at a time.
	AllAtOnce bool `json:"allAtOnce,omitempty"`
	// VDUs limits a rolling change to these VDUs: Jibe pins the others that would change
	// ([Instance.VDUs]). None means all.
	VDUs []string `json:"vdus,omitempty"`
}

// VDUPin is where the definition of one VDU comes from.
type VDUPin struct {
	// Package is the git tree hash of the package.
	Package string `json:"package"`
	// Files are the manifests of it that count, in order; none means all that it has.
	Files []string `json:"files,omitempty"`
}

// Coordination names the hooks of the package that coordinate a change of it with the VNF. A
// path is one in the package: New is taken from the new package, Old from the former one.
type Coordination struct {
	New string `json:"new,omitempty"`
	Old string `json:"old,omitempty"`
	// NewClass and OldClass name the class in a script of the reference's contract.
	NewClass string `json:"newClass,omitempty"`
	OldClass string `json:"oldClass,omitempty"`
	// Params are handed to the hooks (vdu_params, external_lb_param); secrets in them are
	// references.
	Params map[string]any `json:"params,omitempty"`
}

// Overlay is one container update: ConfigMaps and Secrets of Package, by the paths of
// their manifests, and the images of its workloads.
type Overlay struct {
	Package string   `json:"package"`
	Paths   []string `json:"paths,omitempty"`
}

// Follow says which versions of its package an instance follows. In vnf.yaml it may
// be written as the versions alone.
type Follow struct {
	// Versions is a constraint of semantic versions over the tags of the package's
	// repository: "~1.4". "" follows nothing.
	Versions string `json:"versions,omitempty"`
	// Branch is where the commit goes, for a pull request; "" is the branch that runs.
	Branch string `json:"branch,omitempty"`
}

// VIMConnection is one VimConnectionInfo (SOL003 v3.3.1 clause 4.4.1.6).
type VIMConnection struct {
	VimID         string            `json:"vimId,omitempty"`
	VimType       string            `json:"vimType,omitempty"`
	InterfaceInfo map[string]string `json:"interfaceInfo,omitempty"`
	AccessInfo    map[string]string `json:"accessInfo,omitempty"`
	Extra         map[string]any    `json:"extra,omitempty"`
}

// VIM is a parsed vims/<name>.yaml.
type VIM struct {
	Name string `json:"-"`
	// ID is the vimId by which API clients name it; "" means the name.
	ID   string `json:"id,omitempty"`
	Type string `json:"type"`
	// Description is for people.
	Description string `json:"description,omitempty"`
	// Default makes it the VIM of instances that name none.
	Default bool `json:"default,omitempty"`
	// Instance is the VNF instance that is this VIM, a Kubernetes cluster: it has written
	// the file, and its termination removes it.
	Instance string `json:"instance,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	// CACert is PEM, or a reference to it.
	CACert   string `json:"caCert,omitempty"`
	Insecure bool   `json:"insecure,omitempty"`
	// Region, Project and the domains are OpenStack's, by name or id; "" of a domain is
	// "Default".
	Region        string `json:"region,omitempty"`
	Project       string `json:"project,omitempty"`
	ProjectDomain string `json:"projectDomain,omitempty"`
	UserDomain    string `json:"userDomain,omitempty"`
	// Clouds is a reference to a clouds.yaml ("file:/path"), and Cloud the entry that is
	// used: they replace Endpoint, CACert, Insecure, Credentials and what stands above.
	Clouds string `json:"clouds,omitempty"`
	Cloud  string `json:"cloud,omitempty"`
	// Kubeconfig is a reference ("file:/path"); it replaces Endpoint, CACert and Credentials.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// InCluster makes the cluster in which Jibe runs as a pod the VIM, with the pod's service
	// account. It replaces the same, and counts only where the host permits it.
	InCluster bool `json:"inCluster,omitempty"`
	// Namespaces are those of Kubernetes that are used there, sorted; none means all. Nothing is read or written in
	// another one, so that the credentials need rights in these alone.
	Namespaces  []string    `json:"namespaces,omitempty"`
	Credentials Credentials `json:"credentials,omitzero"`
	// Prometheus has the metrics of what runs there. Gates of rollouts may ask it.
	Prometheus Prometheus `json:"prometheus,omitzero"`
}

// Prometheus is the API of a Prometheus.
type Prometheus struct {
	// URL is that of its API, without "/api/v1".
	URL string `json:"url"`
	// CACert is PEM, or a reference to it; "" is the system's roots.
	CACert string `json:"caCert,omitempty"`
	// Token is a reference to the bearer token that it wants; "" is none.
	Token string `json:"token,omitempty"`
}

// Credentials are references: "env:NAME", "file:/path", "age:…" (encrypted).
// Only Username and ApplicationCredentialID may be literal.
type Credentials struct {
	Token      string `json:"token,omitempty"`
	Username   string `json:"username,omitempty"`
	Password   string `json:"password,omitempty"`
	ClientCert string `json:"clientCert,omitempty"`
	ClientKey  string `json:"clientKey,omitempty"`
	// ApplicationCredentialID may be literal; it and its secret replace Username and Password.
	ApplicationCredentialID     string `json:"applicationCredentialId,omitempty"`
	ApplicationCredentialSecret string `json:"applicationCredentialSecret,omitempty"`
}

// Repository is one entry of repositories.yaml: where packages come from.
type Repository struct {
	Name string `json:"name"`
	// URL is anything that git can fetch; a path relative to the data directory's
	// packages/ folder names a local bare repository.
	URL string `json:"url"`
	// Path is the directory in the repository: a package, or a folder of packages.
	Path string `json:"path,omitempty"`
	// Branch is followed if given; else Tags, else the repository's HEAD.
	Branch string `json:"branch,omitempty"`
	// Tags is a glob over tag names ("v*"): each matching tag is a version.
	Tags string `json:"tags,omitempty"`
	// Hooks allows Jibe to run the hooks of the repository's packages.
	Hooks bool `json:"hooks,omitempty"`
	// Onboarding makes it the repository to which packages are written that are uploaded.
	Onboarding bool `json:"onboarding,omitempty"`
	// Verify is what its packages must be signed with.
	Verify Verification `json:"verify,omitzero"`
}

// Settings is what the desired repository holds beside the instances.
type Settings struct {
	Repositories []Repository
	VIMs         map[string]*VIM // by name
	Peers        []Peer          `json:",omitempty"`
	// Granting says who grants operations; the zero value grants everything.
	Granting Granting
	// Projects are by name. [Settings.ProjectOf] says whose an instance is.
	Projects map[string]*Project `json:",omitempty"`
}

// Revision fixes what was intended for one instance at one moment.
type Revision struct {
	Instance string `json:"instance"`
	// Dir is the directory, without a slash at the end: "instances/site-a/amf".
	Dir string `json:"dir"`
	// Commit at which the directory had this content; not always the first.
	Commit string `json:"commit"`
	// Tree is the git tree hash of Dir: what is compared. "" means that the
	// directory doesn't exist.
	Tree string `json:"tree"`
}

// Trailer is one "Key: value" line at the end of a commit message.
type Trailer struct{ Key, Value string }

// The trailers that Jibe writes.
const (
	TrailerOperation   = "Vnf-Lcm-Op-Occ"
	TrailerType        = "Operation"
	TrailerRequestedBy = "Requested-By"
	TrailerGrant       = "Grant"
	// TrailerOverride is why what the commit asks for may begin outside of windows and in freezes. An
	// administrator writes it; of anybody else it means nothing.
	TrailerOverride = "Override"
	// TrailerParams is what the request asked for (operationParams), free of secrets: see [OneLine].
	TrailerParams = "Operation-Params"
	// TrailerOutcome is of a commit by which an operation ends that another commit began: the
	// state in which it ended.
	TrailerOutcome = "Outcome"
	// TrailerPinned is the VIM that Jibe filled in as the request named none.
	TrailerPinned = "Pinned-Vim"
	// TrailerBeside is the commit that waited at head when an operation was asked for that builds on what
	// was operated on last, and the tree that it had brought the directory to ([Beside]).
	TrailerBeside = "Beside"
	// TrailerRollout and TrailerWave are of commits that rollouts make: the name and id of the rollout,
	// and the number of the wave, from 1.
	TrailerRollout = "Rollout"
	TrailerWave    = "Rollout-Wave"
	// TypeCreate is the type in the commit of the request that created an instance, which no operation
	// begins.
	TypeCreate = "CREATE"
)

// Repo is the desired repository. It is safe for concurrent use, and what it
// returns is immutable.
type Repo interface {
	// Head is the commit of the branch, "" in an empty repository.
	Head() string
	// Refresh makes sure that a push whose end its author has seen is seen here, too.
	Refresh(ctx context.Context) error
	// Knows says whether head has the commit in its history, so that what is decided here
	// can't take back what another process has decided by it; "" is all that others have
	// accepted of the branch. Where the commit is still to be fetched, Knows has that done. A
	// commit that a person has taken out of the history counts as known.
	Knows(ctx context.Context, commit string) (bool, error)
	// WaitFor returns when head has the commit in its history, or with ErrUnavailable when ctx
	// has ended: who has written at another process reads here what it wrote.
	WaitFor(ctx context.Context, commit string) error
	// Stale returns why head may be behind the branch, nil while the branch is followed.
	Stale() error
	// Problems returns what at head is rejected, by file.
	Problems() []*Problem
	// Lookup finds an instance at head.
	Lookup(instance string) (Revision, bool)
	// LookupHead finds an instance at head, with what lists are filtered by.
	LookupHead(instance string) (Head, bool)
	// List returns every instance at head, by id.
	List() []Revision
	// InDir finds the instance that counts at head in a directory ("instances/core/udm").
	InDir(dir string) (Head, bool)
	// Heads are the instances at head whose ids follow after ("" is all), by id. They are those
	// of the moment in which the iteration begins, and it keeps nobody waiting.
	Heads(after string) iter.Seq[Head]
	// WatchHeads returns a function that tells which instances at head may have changed.
	// Nothing changes at head that it doesn't tell of. It may be called at any time.
	WatchHeads() changed.Take
	// Earlier calls fn with the former contents of the instance's file in its present
	// directory, the newest first, until fn returns true. It looks at a bounded number of
	// commits.
	Earlier(ctx context.Context, instance string, fn func(*Instance) bool) error
	// Settings returns vims/, repositories.yaml and granting.yaml at head. A file that
	// instances need counts as it last was when head has removed or broken it.
	Settings() (*Settings, error)
	// Maintenance returns the files at head that rule when operations may begin on the instance in
	// a directory, the outermost first; none where they may at any time. The error is an
	// [*InvalidError] where one can't be read: then nobody knows what it allows.
	Maintenance(ctx context.Context, dir string) ([]*Maintenance, error)
	// Override is the reason for which what rev asks for may begin in spite of [Repo.Maintenance],
	// as the last commit of its directory says (TrailerOverride), and who pushed that; "" where
	// it says so without the right to, or not at all.
	Override(ctx context.Context, rev Revision) (reason, by string, err error)
	// FormerSettings are the newest settings in head's history that ok accepts, no older
	// than those of the commit since ("": however old), or ErrNotFound.
	FormerSettings(ctx context.Context, since string, ok func(*Settings) bool) (*Settings, error)
	// Read parses the instance at rev, whether head is still there or not.
	Read(ctx context.Context, rev Revision) (*Instance, error)
	// Prove returns nil where git proves that the instance had the content of rev in its directory while that was in
	// effect, whatever record names it, and an [*UnprovenError] where it doesn't. Jibe's own commit by which the operation
	// with the id proposal proposes rev is proof, too. judge decides on content that is in the history of the branch
	// and isn't known to have been in effect, as when it came with later commits in one push.
	Prove(ctx context.Context, rev Revision, proposal string, judge func(*Instance) error) error
	// Files returns the directory's content at rev.
	Files(ctx context.Context, rev Revision) (Files, error)
	// WriteVIM changes vims/<name>.yaml with one commit and returns it when it is durable, ""
	// where nothing differs. change receives the content of the file, nil where there is none,
	// and returns the new content, nil to remove the file. It may run several times.
	WriteVIM(ctx context.Context, name, subject string, trailers []Trailer, change func(now []byte) ([]byte, error)) (commit string, err error)
	// Write makes one commit and returns when it is durable. If Change leaves the
	// directory as it was, no commit is made and the present revision is returned.
	Write(ctx context.Context, w Write) (Revision, error)
	// FindTrailer returns the commit reachable from head that Jibe made with the
	// trailer, whoever else writes the same words, looking no further back than the commit since, or ErrNotFound.
	FindTrailer(ctx context.Context, since, key, value string) (string, error)
	// Author is who brought the directory to its state at rev, as git writes
	// people: "name <mail>".
	Author(ctx context.Context, rev Revision) (string, error)
	// Requested returns the trailers of the commit that brought the directory to its state at rev, by
	// key, where Jibe made that for a request whose operation it begins; nil where another one did, or
	// where it lies some way back.
	Requested(ctx context.Context, rev Revision) (map[string]string, error)
	// Attest appends a line to the commit's note (refs/notes/jibe), best effort, and returns at
	// once. Facts are JSON and stand behind it: Jibe itself reads them again when its records are
	// lost, and believes them by its seal.
	Attest(commit, line string, facts []byte)
}

// Errors that callers decide on.
var (
	// ErrNotFound is returned for an instance, commit or file that doesn't exist.
	ErrNotFound = errors.New("not found in the desired repository")
	// ErrUnavailable is returned when the repository can't be read or written now
	// (a remote that is away, a full disk). Nothing was written.
	ErrUnavailable = errors.New("desired repository unavailable")
)

// UnprovenError is returned for a revision of which git doesn't prove that it was ever in effect.
type UnprovenError struct{ Revision }

func (e *UnprovenError) Error() string {
	return fmt.Sprintf("a record names commit %.12s and content %.12s of %s for VNF instance %s, and git doesn't prove that this was ever in effect: "+
		"another program may have changed the record, and nothing of it is used (docs/guide/redis.md, \"A revision that git doesn't prove\")",
		e.Commit, e.Tree, e.Dir, e.Instance)
}

// HeldError is returned for a write to an instance that is held as it was: head can mean
// several things for it, and only a person knows which. Nothing was written.
type HeldError struct {
	Instance string
	// Problem is what is wrong at head.
	Problem *Problem
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("VNF instance %s is held as it was: %s", e.Instance, e.Problem.Error())
}

// Problem is one reason why a file, or a part of it, is not obeyed. A person repairs it.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"` // from 1; 0 is the whole file
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Instance is the VNF instance that it concerns, where that isn't the one in File.
	Instance string `json:"instance,omitempty"`
}

func (p *Problem) Error() string {
	s := p.File
	if p.Line > 0 {
		s = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	s += ": " + p.Message
	if p.Remedy != "" {
		s += " (" + p.Remedy + ")"
	}
	return s
}
