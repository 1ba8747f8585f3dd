package sol

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// known is an instance as git and the operation log have it at one moment.
type known struct {
	id     string
	record *lcm.Instance
	// lacksUnits says that record has neither Units nor Resources.
	lacksUnits bool
	// head is the instance at the branch's head. inHead is false where its directory is
	// already gone and its last operation still runs.
	head   desired.Head
	inHead bool
	// base is what a request builds on: head, or what was operated on last where waits isn't nil.
	base desired.Revision
	// waits is what is left alone at head meanwhile.
	waits *waiting
}

// find returns the instance, or 404. It finds an instance whose directory was removed
// until its last operation has ended.
func (a *api) find(ctx context.Context, id string) (known, error) {
	record, err := a.Operations.Instance(ctx, id)
	if err != nil {
		return known{}, fmt.Errorf("instance %s: %w", id, err)
	}
	k, ok := a.join(id, record)
	if !ok {
		return known{}, rest.Problem(http.StatusNotFound, "VNF instance %s does not exist", id)
	}
	if err := a.permit(ctx, k); err != nil {
		return known{}, notFound(err, "VNF instance %s does not exist", id)
	}
	return k, nil
}

func (a *api) join(id string, record *lcm.Instance) (known, bool) {
	k := known{id: id, record: record}
	k.head, k.inHead = a.Repo.LookupHead(id)
	k.base = k.head.Revision
	return k, k.inHead || record.Open != "" || record.OutstandingCommit != ""
}

// etag returns the ETag of the instance: the directory's tree and the number of operations
// begun.
func (k known) etag() string {
	tree := k.head.Tree
	if !k.inHead {
		tree = k.record.Operated.Tree
	}
	return fmt.Sprintf(`"%s-%d"`, tree, k.record.Seq)
}

// match compares If-Match with the resource's ETag (RFC 9110 clause 13.1.1).
func match(r *http.Request, etag string) error {
	values := r.Header.Values("If-Match")
	if len(values) == 0 {
		return nil
	}
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if p := strings.TrimSpace(part); p == "*" || p == etag {
			return nil
		}
	}
	return rest.Problem(http.StatusPreconditionFailed, "the resource was changed since it was read: its ETag is %s now; read it again", etag)
}

// suspended refuses a request to an instance on which nothing is carried out.
func suspended(in *desired.Instance) error {
	if in.Suspend {
		return rest.Problem(http.StatusConflict, "VNF instance %s is suspended: remove \"suspend\" from its vnf.yaml first", in.ID)
	}
	return nil
}

func running(in *desired.Instance) error {
	if !desired.IsInstantiated(in.State) {
		return rest.Problem(http.StatusConflict, "VNF instance %s is NOT_INSTANTIATED", in.ID)
	}
	return suspended(in)
}
