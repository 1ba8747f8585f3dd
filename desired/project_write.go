package desired

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// The values of "write" in a projects/<name>.yaml.
const (
	WriteDirect      = "direct"
	WritePullRequest = "pull-request"
)

// Writes says how requests of the API become commits of the desired branch; the zero value is at once.
type Writes struct {
	// PullRequest are the types of operation, as ETSI names them, whose changes are proposed: each counts once
	// somebody has merged its pull request.
	PullRequest []string `json:"pullRequest,omitempty"`
}

// Proposes says whether a request for an operation of a type, as ETSI names it, is proposed as a pull request.
func (w Writes) Proposes(operation string) bool { return slices.Contains(w.PullRequest, operation) }

// IsZero says whether nothing is proposed.
func (w Writes) IsZero() bool { return len(w.PullRequest) == 0 }

// requestedOperations are the types of operation that requests may ask for.
func requestedOperations() []string { return append(GrantedOperations(), "MODIFY_INFO") }

// writes reads "write": a word for all types of operation, or a list of those that are proposed.
func (d *document) writes(n *yaml.Node) (w Writes) {
	if n.Kind != yaml.MappingNode {
		if d.oneOf(n, "write", WriteDirect, WritePullRequest) == WritePullRequest {
			w.PullRequest = requestedOperations()
		}
		return w
	}
	before := len(d.problems)
	d.mapping(n, "write", field{"pullRequest", func(_, v *yaml.Node) {
		d.items(v, "write.pullRequest", func(v *yaml.Node) {
			w.PullRequest = append(w.PullRequest, d.oneOf(v, "write.pullRequest", requestedOperations()...))
		})
	}})
	if len(d.problems) == before && w.IsZero() {
		d.fail(n, "name types of operation (pullRequest: [SCALE, CHANGE_VNFPKG]), or write "+WriteDirect+" or "+WritePullRequest, "\"write\" names no type of operation")
	}
	return w
}
