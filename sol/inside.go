package sol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// Service serves the interface. Beside its clients' requests it carries out those that another part
// of this process makes in a caller's name, by the very same handlers.
type Service struct {
	http.Handler
	api *api
}

// Task is a request that a part of this process makes: a task of a VNF instance ("scale"), or of an
// operation ("retry").
type Task struct {
	Caller auth.Identity
	// Name is the last part of the resource's path.
	Name string
	// ID is that of the instance or the operation.
	ID string
	// Body is what a client would send as JSON.
	Body any
	// IfMatch is the ETag that the resource must have, "" for any.
	IfMatch string
}

// Draft returns what the task of an instance would commit, without any change. It refuses what the
// task itself would be refused for, but for the caller's role: a planner may ask.
func (s *Service) Draft(ctx context.Context, t Task) (*Draft, error) {
	if _, ofOperation := s.operationTasks()[t.Name]; ofOperation {
		return nil, fmt.Errorf("%s isn't a task of an instance", t.Name)
	}
	w := &awaited{only: true}
	need := access.Need{Role: auth.Planner, NotSOL002: true}
	if _, err := s.do(context.WithValue(ctx, awaitedKey{}, w), t, &need); err != nil {
		return nil, err
	}
	return w.made, nil
}

// Do carries the task out, as a client's request is, and returns the operation that it begins or
// concerns. A task of an instance that would commit anything but the draft with the digest is refused
// with [ErrMoved].
func (s *Service) Do(ctx context.Context, t Task, digest string) (operation string, err error) {
	if digest != "" {
		ctx = context.WithValue(ctx, awaitedKey{}, &awaited{digest: digest})
	}
	h, err := s.do(ctx, t, nil)
	if err != nil {
		return "", err
	}
	if at := h.Get("Location"); at != "" {
		return path.Base(at), nil
	}
	return t.ID, nil
}

// Operation returns an operation as it is recorded, if the caller may see it, and its ETag.
func (s *Service) Operation(ctx context.Context, caller auth.Identity, id string) (op *lcm.Operation, etag string, err error) {
	op, err = s.api.operation(rest.Inside(ctx, caller, auth.Viewer), id)
	if err != nil {
		return nil, "", err
	}
	return op, s.api.operationTag(op), nil
}

// OperationBody returns an operation as clients see it.
func (s *Service) OperationBody(op *lcm.Operation) *VnfLcmOpOcc {
	return s.api.operationBody(op).newer(op)
}

// Instance returns an instance as clients see it, if the caller may see it.
func (s *Service) Instance(ctx context.Context, caller auth.Identity, id string) (*VnfInstance, error) {
	ctx = rest.Inside(ctx, caller, auth.Viewer)
	k, err := s.api.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.api.instanceBody(ctx, k, func(string) bool { return true })
}

// Status is the HTTP status that a client would be answered with for an error of the other methods.
func (s *Service) Status(err error) int { return s.api.Status(err) }

func (s *Service) instanceTasks() map[string]rest.Handler {
	a := s.api
	return map[string]rest.Handler{"instantiate": a.instantiate, "scale": a.scale, "scale_to_level": a.scaleToLevel, "terminate": a.terminate, "heal": a.heal,
		"change_vnfpkg": a.changePackage, "operate": a.operate}
}

func (s *Service) operationTasks() map[string]rest.Handler {
	a := s.api
	return map[string]rest.Handler{"retry": a.retry, "rollback": a.rollback, "fail": a.fail, "cancel": a.cancel}
}

// do makes the request. need is what the caller needs, nil for what a client would.
func (s *Service) do(ctx context.Context, t Task, need *access.Need) (http.Header, error) {
	resource := "vnf_instances"
	h, known := s.instanceTasks()[t.Name]
	if !known {
		resource = "vnf_lcm_op_occs"
		if h, known = s.operationTasks()[t.Name]; !known {
			return nil, rest.Problem(http.StatusNotFound, "there is no task %q", t.Name)
		}
	}
	if need == nil {
		of, ok := access.Needs(http.MethodPost, root+"/"+resource+"/{id}/"+t.Name)
		if !ok {
			return nil, rest.Problem(http.StatusForbidden, "nobody may ask for %s: what it needs isn't said", t.Name)
		}
		need = &of
	}
	if err := need.Denied(t.Caller); err != nil {
		return nil, rest.Problem(http.StatusForbidden, "%v", err)
	}
	var body []byte
	if t.Body != nil {
		var err error
		if body, err = json.Marshal(t.Body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(rest.Inside(ctx, t.Caller, need.Role), http.MethodPost, root+"/"+resource, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.SetPathValue("id", t.ID)
	r.Pattern = root + "/" + resource + "/{id}/" + t.Name
	if t.IfMatch != "" {
		r.Header.Set("If-Match", t.IfMatch)
	}
	w := &answer{header: http.Header{}}
	if err := h(w, r); err != nil {
		return nil, err
	}
	if w.status >= http.StatusBadRequest {
		return nil, errors.New(http.StatusText(w.status)) // handlers answer so by their errors alone
	}
	return w.header, nil
}

// answer takes what a handler answers.
type answer struct {
	header http.Header
	status int
}

// Header implements [http.ResponseWriter].
func (w *answer) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *answer) WriteHeader(status int) { w.status = status }

// Write implements [http.ResponseWriter].
func (w *answer) Write(p []byte) (int, error) { return len(p), nil }
