// Package imports holds Jibe's packages to their import directions: which part may know
// which. Its test is what enforces them; .golangci.yml says the direct ones again, so
// that an editor shows a break while it is typed. The package is used by nothing else.
package imports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Module is the path of the module whose packages are held to the rules. Patterns name
// its packages without it.
const Module = "github.com/jibe-vnfm/jibe"

// Rule is one import direction. Patterns are package paths, for Jibe's own packages
// without [Module]; "path/..." stands for the path and all below it, and [External] for
// whatever is outside the standard library.
type Rule struct {
	// From are the packages that are bound by the rule.
	From []string
	// Never are the packages that these must not reach, directly or through other
	// packages of Jibe. How a library is made inside is not looked at.
	Never []string
	// Why says what would be lost.
	Why string
}

// External is the pattern of everything that is not of the standard library.
const External = "(external)"

// clients are the ways to reach something outside of the process. What Kubernetes' types mean
// (k8s.io/apimachinery) is none.
var clients = []string{
	"k8s.io/client-go/...", "k8s.io/kubectl/...", "k8s.io/cli-runtime/...", "k8s.io/apiserver/...", "sigs.k8s.io/kustomize/...", "github.com/gophercloud/...", "github.com/go-git/...",
	"go.etcd.io/...", "golang.org/x/oauth2/...", "net/http", "os/exec",
}

// Rules returns Jibe's import directions.
func Rules() []Rule {
	return []Rule{
		{
			From: []string{"plan"}, Never: []string{External},
			Why: "the only decider is pure: it is proven by properties and needs nothing to run",
		},
		{
			From: []string{"sol/..."}, Never: []string{"reconciler/...", "drivers/...", "hooks/..."},
			Why: "an API request is a commit: the API must not have another way to a VIM",
		},
		{
			From: []string{"ui"}, Never: []string{"reconciler/...", "drivers/...", "hooks/...", "admission/...", "app/..."},
			Why: "the web page changes nothing in another way than the API does: it must not have another way to a VIM",
		},
		{
			From: []string{"drivers/..."}, Never: []string{"reconciler/...", "sol/...", "store/...", "hooks/..."},
			Why: "a driver does single steps at a VIM; what comes next and what is recorded is decided once, above it",
		},
		{
			From: []string{"hooks/..."}, Never: []string{"drivers/...", "reconciler/...", "sol/...", "store/..."},
			Why: "a hook is run with what is handed to it; when it runs and what is recorded of it is decided above",
		},
		{
			From: []string{"desired/..."}, Never: []string{"reconciler/...", "drivers/...", "sol/...", "store/..."},
			Why: "intent is read and written without knowing who acts on it",
		},
		{
			From: []string{"desired/window"}, Never: append([]string{"desired", "desired/gitrepo", "lcm/..."}, clients...),
			Why: "when work may begin is a function of rules and a time, and needs nothing to run",
		},
		{
			From: []string{"desired/gitrepo/message", "desired/gitrepo/objects"}, Never: []string{"desired/gitrepo", "desired/gitrepo/read", "desired/gitrepo/check"},
			Why: "commits, trees and files are read without knowing what they mean",
		},
		{
			From: []string{"desired/gitrepo/archive"}, Never: []string{"desired/gitrepo", "desired/gitrepo/read", "desired/gitrepo/check"},
			Why: "history is archived by its objects; what is not in effect is handed in",
		},
		{
			From: []string{"desired/gitrepo/objects"}, Never: []string{"desired/gitrepo/message"},
			Why: "an object is read whatever a commit says",
		},
		{
			From: []string{"desired/gitrepo/read"}, Never: []string{"desired/gitrepo", "desired/gitrepo/check"},
			Why: "a commit is read in one way by the server, the push hook and the command line, without knowing who judges it or what writes",
		},
		{
			From: []string{"desired/gitrepo/check", "admission/..."}, Never: []string{"desired/gitrepo"},
			Why: "a push is judged by what reads alone: its hook must not reach what writes",
		},
		{
			From: []string{"members"}, Never: []string{"app/...", "desired/...", "lcm/...", "reconciler/...", "drivers/...", "hooks/...", "sol/...", "vnfd/..."},
			Why: "who serves the fleet is known by the store alone; what is done for an instance, and whether it may be, is decided above",
		},
		{
			From: []string{"app/..."}, Never: []string{"tryout"},
			Why: "what is only for trying stands above the server, and is no part of it",
		},
		{
			From: []string{"app/answer", "app/metrics", "app/tracing"}, Never: roomsBut("answer", "metrics", "tracing"),
			Why: "answers, meters and traces are of use to the other rooms, and need none of them",
		},
		{
			From: []string{"app/listener"}, Never: roomsBut("listener", "answer"),
			Why: "the address of the API is the same whatever is served there",
		},
		{
			From: []string{"app/entrance"}, Never: roomsBut("entrance", "answer", "listener"),
			Why: "every request passes the entrance, which doesn't know where it goes",
		},
		{
			From: []string{"app/githooks"}, Never: roomsBut("githooks", "answer", "listener"),
			Why: "a push is judged by what is handed in, and knows neither the other replicas nor the forge",
		},
		{
			From: []string{"app/replicas"}, Never: roomsBut("replicas", "answer"),
			Why: "where records are and who shares them is the same whatever is done with them",
		},
		{
			From: []string{"app/forgesync"}, Never: roomsBut("forgesync", "answer"),
			Why: "what a forge is told is decided elsewhere; with one forge or none, the rest is the same",
		},
		{
			From: []string{"app/maintenance"}, Never: roomsBut("maintenance", "answer", "listener", "replicas"),
			Why: "who looks after a data directory knows its store, and nothing of what is served",
		},
		{
			From: []string{"app/api"}, Never: roomsBut("api", "answer", "entrance", "listener", "maintenance", "replicas", "tracing"),
			Why: "routes lead to parts that are handed in; what starts them stands above",
		},
		{
			From: []string{"automation/..."}, Never: []string{"reconciler/...", "drivers/...", "hooks/...", "sol/...", "admission/..."},
			Why: "whoever commits by itself decides by git, packages and the operation log; what comes of a commit is the reconciler's",
		},
		{
			From: []string{"automation/rollout"}, Never: append([]string{"desired/gitrepo", "desired/packages", "lcm/...", "store/...", "members"}, clients...),
			Why: "what a rollout does next is decided by what is handed in: it must be the same wherever and whenever it is asked",
		},
		{
			From: []string{"admission/..."}, Never: []string{"sol/...", "app/..."},
			Why: "a proposal is judged in one way for the push hook, the API's clients and the command line; it is never carried out or recorded here",
		},
		{
			From: []string{"drivers/kubernetes/manifest/...", "drivers/kubernetes/confine", "drivers/kubernetes/fields", "drivers/kubernetes/raw"}, Never: []string{"k8s.io/client-go/...", "drivers/kubernetes/watched", "net/http", "os/exec"},
			Why: "what an instance should be is rendered without a cluster: push hook, preview and reconciler render the same",
		},
		{
			From: []string{"drivers/openstack/hot"}, Never: []string{"github.com/gophercloud/...", "net/http", "os/exec"},
			Why: "what an instance should be is rendered without a cloud",
		},
		{
			From: []string{"internal/..."}, Never: []string{
				"admission/...", "app/...", "automation/...", "drivers/...", "hooks/...", "lcm/...", "plan", "reconciler/...", "sol/...", "store/...", "vnfd/...",
			},
			Why: "what several rooms use knows none of them",
		},
		{
			From: []string{"audit"}, Never: []string{
				"admission/...", "app/...", "automation/...", "desired/...", "drivers/...", "hooks/...", "lcm/...", "plan", "reconciler/...", "sol/...", "store/...", "vnfd/...",
			},
			Why: "every room records what it did; the audit log knows none of them",
		},
		{
			From: []string{"lcm", "vnfd/..."}, Never: append([]string{"drivers/...", "sol/...", "store/...", "reconciler"}, clients...),
			Why: "the state machine and the descriptor are pure: what they say must not depend on what answers",
		},
		{
			From: []string{"auth"}, Never: []string{
				"admission/...", "app/...", "automation/...", "desired/...", "drivers/...", "hooks/...", "lcm/...", "plan", "reconciler/...", "sol/...", "store/...", "vnfd/...",
			},
			Why: "who calls is found out without knowing what they call: what may be done with what is decided where the resource is known",
		},
		{
			From: []string{"backup"}, Never: []string{
				"admission/...", "app/...", "automation/...", "desired/gitrepo", "drivers/...", "hooks/...", "lcm/...", "plan", "reconciler/...", "sol/...", "vnfd/...",
			},
			Why: "a backup copies what is there; one that knew what records and commits mean would have to change with them",
		},
		{
			From: []string{"doctor"}, Never: []string{"admission/...", "app/...", "automation/...", "reconciler/...", "sol/..."},
			Why: "an examination is no part of the server's work: it is handed what it looks at",
		},
		{
			From: []string{"forge/..."}, Never: []string{
				"admission/...", "app/...", "audit", "auth", "automation/...", "desired/...", "drivers/...", "hooks/...", "lcm/...", "plan", "reconciler/...", "sol/...", "store/...", "vnfd/...", "os/exec",
			},
			Why: "a forge is told what others have decided to tell: its clients know statuses, comments and branches, and no VNF",
		},
		{
			From: []string{"report"}, Never: []string{"app/...", "automation/...", "drivers/...", "hooks/...", "reconciler/...", "sol/...", "ui"},
			Why: "whoever tells a forge decides and changes nothing: it knows git, the operation log and words",
		},
		{
			From: []string{"store/..."}, Never: []string{"desired/...", "drivers/...", "lcm/...", "reconciler/...", "sol/...", "vnfd/..."},
			Why: "a store keeps bytes; a store that knew operations could not be replaced by another",
		},
		{
			From: []string{"dashboards"}, Never: []string{
				"admission/...", "app/...", "audit", "auth", "automation/...", "desired/...", "drivers/...", "grant", "hooks/...", "internal/...", "lcm/...", "plan", "reconciler/...", "sol/...", "store/...", "vnfd/...",
				"net/http", "os/exec",
			},
			Why: "dashboards and alerts know metrics by their names alone, as Prometheus does",
		},
		{
			From: []string{"..."}, Never: []string{"sigs.k8s.io/controller-runtime/..."},
			Why: "Jibe is no Kubernetes operator: the pipeline is the same for every VIM",
		},
	}
}

// roomsBut are the rooms of the server, and the server itself, without those that are named. Where two rooms
// need each other, what starts them hands over a small interface.
func roomsBut(may ...string) []string {
	var never []string
	for _, room := range []string{"answer", "api", "entrance", "forgesync", "githooks", "listener", "maintenance", "metrics", "replicas", "tracing"} {
		if !slices.Contains(may, room) {
			never = append(never, "app/"+room+"/...")
		}
	}
	return append(never, "app")
}

// Package is what the rules look at of one package.
type Package struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// Check returns one line for every rule that is broken, with the chain of imports that
// breaks it, and one for every rule that binds no package any more. Packages of Jibe
// that are not in packages are taken as importing nothing.
func Check(rules []Rule, packages []Package) []string {
	byPath := make(map[string]Package, len(packages))
	for _, p := range packages {
		byPath[p.ImportPath] = p
	}
	var broken []string
	for _, rule := range rules {
		for _, pattern := range rule.From {
			bound := false
			for _, p := range packages {
				if name, own := ownName(p.ImportPath); own && match(pattern, name) {
					bound = true
					broken = append(broken, reach(rule, p, byPath)...)
				}
			}
			if !bound {
				broken = append(broken, fmt.Sprintf("the rule for %s binds no package: was it renamed?", pattern))
			}
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

// reach walks breadth-first from p through Jibe's packages, so that the chain that it
// tells is a shortest one.
func reach(rule Rule, p Package, byPath map[string]Package) []string {
	var broken []string
	via := map[string]string{p.ImportPath: ""}
	for queue := []string{p.ImportPath}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, to := range byPath[at].Imports {
			if _, seen := via[to]; seen {
				continue
			}
			via[to] = at
			name, own := ownName(to)
			if forbidden(rule, name, byPath[to].Standard) {
				chain := []string{name}
				for ; at != ""; at = via[at] {
					short, _ := ownName(at)
					chain = append(chain, short)
				}
				slices.Reverse(chain)
				broken = append(broken, fmt.Sprintf("%s: %s", strings.Join(chain, " -> "), rule.Why))
				at = queue[0]
				continue
			}
			if own {
				queue = append(queue, to)
			}
		}
	}
	return broken
}

func forbidden(rule Rule, name string, standard bool) bool {
	matches := func(pattern string) bool {
		if pattern == External {
			return !standard
		}
		return match(pattern, name)
	}
	return slices.ContainsFunc(rule.Never, matches)
}

func match(pattern, name string) bool {
	prefix, below := strings.CutSuffix(pattern, "...")
	if !below {
		return pattern == name
	}
	return prefix == "" || name+"/" == prefix || strings.HasPrefix(name, prefix)
}

// ownName returns a package's path as the rules write it, and whether it is Jibe's own.
func ownName(path string) (string, bool) {
	if path == Module {
		return ".", true
	}
	name, own := strings.CutPrefix(path, Module+"/")
	return cmp.Or(name, path), own
}
