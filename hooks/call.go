package hooks

import (
	"cmp"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Call is one run of a hook.
type Call struct {
	// Package holds the file that is run, at Path.
	Package *vnfd.Package
	Path    string
	// Cluster says that Jibe's own driver of Kubernetes clusters runs, and not the file
	// ([ClusterDriver]).
	Cluster bool
	// Other is the other package of a change of package, nil where there is none.
	// Input.Before.Dir and Input.After.Dir are filled in by the tree of each.
	Other *vnfd.Package
	Input Input
	// Files are written for the time of the run, readable by the hook alone; each
	// one's path stands in the environment variable of its name.
	Files map[string][]byte
	// Secrets are values that are kept from logs and errors, beside those that
	// Files, and Input under the names of credentials, hold; see [Revealed].
	Secrets []string
	// Names tells under which names values are secrets.
	Names desired.SecretNames
	// Timeout bounds the run, without the time in which it waits for its turn; 0 is
	// ten minutes.
	Timeout time.Duration
	// Traceparent is the W3C Trace Context of the run, which the hook finds in the environment
	// variable TRACEPARENT; "" where it isn't traced.
	Traceparent string
	// Orphan is the process of an interrupted run, which is ended first; nil where
	// there is none.
	Orphan *Process
	// Said is called with each line that the hook writes to standard error, as it may
	// be shown; nil where nobody listens.
	Said func(line string)
	// Started is called with the process before it is given its input; an error ends it.
	Started func(Process) error
}

// Program says what is run, for people.
func (c Call) Program() string {
	if c.Cluster {
		return fmt.Sprintf("jibe driver kubernetes-cluster in the place of %s, which needs the %s of another VNFM and has the same parameter %s",
			c.Path, olderVNFM, params.Name)
	}
	return c.Path
}

// timeout is how long the run may take.
func (c Call) timeout() time.Duration { return cmp.Or(max(c.Timeout, 0), defaultTimeout) }

// Process identifies a process group on this machine for as long as it is up.
type Process struct {
	PID int `json:"pid"`
	// Start is when the process began, in ticks since the machine did, so that its
	// number can't be taken for another's.
	Start uint64 `json:"start"`
	// Boot is the machine's boot id.
	Boot string `json:"boot"`
	// Dir holds what was written for the hook.
	Dir string `json:"dir,omitempty"`
}

// FailedError is returned for a hook that didn't succeed. To run it again may be right.
type FailedError struct {
	Path   string // of its file in the package
	Reason string // "exit status 1", "not done within 10m0s", "wrote 1048577 bytes …"
	Stderr string // the end of it
}

func (e *FailedError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("hook %s failed: %s", e.Path, e.Reason)
	}
	return fmt.Sprintf("hook %s failed: %s: %s", e.Path, e.Reason, e.Stderr)
}
