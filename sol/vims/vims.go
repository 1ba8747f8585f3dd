// Package vims is the registry of VIMs as clients of the older VNFM know it: /v1.0/vims. It is
// one more author of the files under vims/ of the desired repository: what it registers is a
// commit, and a VIM that was pushed is in its lists.
//
// It owns the form of that interface alone. Credentials are encrypted before they are written,
// and never shown. Whether a change may be made is asked of those who judge a push.
package vims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// writeTimeout bounds the commit of a change, which goes on when the client has left.
const writeTimeout = time.Minute

// Config holds what the registry works with; everything in it is required.
type Config struct {
	rest.Config
	Repo Repo
	// Keep is [desired/secret.Keeper.Keep]: a reference to plaintext's ciphertext.
	Keep func(old, plaintext string) (string, error)
	// Check says why the settings can't be as proposed: what a push of them would be told.
	Check func(ctx context.Context, proposed *desired.Settings) ([]*desired.Problem, error)
	// Reach asks the VIM for a sign of life, without credentials. An error says what is
	// wrong.
	Reach func(ctx context.Context, v *desired.VIM) error
}

// Repo is what the registry needs of the desired repository.
type Repo interface {
	Settings() (*desired.Settings, error)
	WriteVIM(ctx context.Context, name, subject string, trailers []desired.Trailer, change func(now []byte) ([]byte, error)) (commit string, err error)
}

// api serves the registry.
type api struct {
	Config
	*rest.API
	prober prober
	// writing lets one change after the other be checked and made.
	writing sync.Mutex
}

// New returns the handler of everything below /v1.0/. The client that this is for ends each
// path with ".json".
func New(c Config) http.Handler {
	a := &api{Config: c, API: rest.New(c.Config, rest.Interface{Name: "vims", Root: "/v1.0", Status: status}), prober: prober{reach: c.Reach}}
	all := rest.Methods{http.MethodGet: a.list, http.MethodPost: a.register}
	a.Handle("/vims", all)
	a.Handle("/vims.json", all)
	a.Handle("/vims/{id}", rest.Methods{http.MethodGet: a.show, http.MethodPut: a.set, http.MethodDelete: a.delete})
	return a
}

// status knows the errors of the desired repository.
func status(err error) int {
	var invalid *desired.InvalidError
	switch {
	case errors.As(err, &invalid):
		return http.StatusBadRequest
	case errors.Is(err, desired.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return 0
}

// find returns the VIM that the path names, by its id.
func (a *api) find(r *http.Request) (*desired.Settings, *desired.VIM, error) {
	settings, err := a.Repo.Settings()
	if err != nil {
		return nil, nil, err
	}
	id := r.PathValue("id")
	for _, id := range []string{strings.TrimSuffix(id, ".json"), id} {
		for _, v := range settings.VIMs {
			if idOf(v) == id {
				return settings, v, nil
			}
		}
	}
	return nil, nil, rest.Problem(http.StatusNotFound, "VIM %.64s does not exist", id)
}

// idOf is the id by which clients name a VIM.
func idOf(v *desired.VIM) string { return cmp.Or(v.ID, v.Name) }

// register is POST vims.
func (a *api) register(w http.ResponseWriter, r *http.Request) error {
	req, err := read(w, r)
	if err != nil {
		return err
	}
	if err := req.complete(); err != nil {
		return err
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	settings, err := a.Repo.Settings()
	if err != nil {
		return err
	}
	name := *req.Name
	if settings.VIMs[name] != nil {
		return taken(name)
	}
	v, err := req.apply(&desired.VIM{Name: name, ID: uuid.NewString()}, a.Keep)
	if err != nil {
		return err
	}
	if err := a.write(r, "Register VIM "+name, settings, nil, v); err != nil {
		return err
	}
	w.Header().Set("Location", a.Link("vims", v.ID))
	return a.reply(w, r, http.StatusCreated, name)
}

func taken(name string) error {
	return rest.Problem(http.StatusConflict, "there is a VIM %s already: change it, or give another name", name)
}

// set is PUT vims/{id}: what the body doesn't have stays as it is.
func (a *api) set(w http.ResponseWriter, r *http.Request) error {
	req, err := read(w, r)
	if err != nil {
		return err
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	settings, v, err := a.find(r)
	if err != nil {
		return err
	}
	switch {
	case req.Name != nil && *req.Name != v.Name:
		return rest.Problem(http.StatusBadRequest, "name: the name of a VIM is that of its file, which instances refer to, and can't change: register another VIM")
	case v.Instance != "":
		return provided(v)
	case req.AuthURL != nil || req.AuthCred != nil || req.Project != nil:
		if v.Kubeconfig != "" || v.Clouds != "" || v.InCluster {
			return rest.Problem(http.StatusConflict, "VIM %s is reached by what its file refers to, so that only git can say how: edit %s", v.Name, desired.VIMFile(v.Name))
		}
	}
	next, err := req.apply(v, a.Keep)
	if err != nil {
		return err
	}
	if err := a.write(r, "Change VIM "+v.Name, settings, v, next); err != nil {
		return err
	}
	return a.reply(w, r, http.StatusOK, v.Name)
}

func provided(v *desired.VIM) error {
	return rest.Problem(http.StatusConflict, "VIM %s is the VNF instance %s, which keeps the file itself: terminate the instance to remove it", v.Name, v.Instance)
}

// delete is DELETE vims/{id}.
func (a *api) delete(w http.ResponseWriter, r *http.Request) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	settings, v, err := a.find(r)
	if err != nil {
		return err
	}
	if v.Instance != "" {
		return provided(v)
	}
	if err := a.write(r, "Remove VIM "+v.Name, settings, v, nil); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// write checks that next may take the place of v in the settings, and commits it; nil is no
// VIM. The commit is made even if the client leaves.
func (a *api) write(r *http.Request, subject string, settings *desired.Settings, v, next *desired.VIM) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), writeTimeout)
	defer cancel()
	proposed := &desired.Settings{VIMs: map[string]*desired.VIM{}, Repositories: settings.Repositories}
	maps.Copy(proposed.VIMs, settings.VIMs)
	name := cmp.Or(next, v).Name
	delete(proposed.VIMs, name)
	var problems []*desired.Problem
	if next != nil {
		text, err := desired.EditVIM(next, nil) // which tells what can't be
		if err != nil {
			return err
		}
		if next, err = desired.ParseVIM(desired.VIMFile(name), text); err != nil {
			return err
		}
		problems = proposed.Clash(next)
		proposed.VIMs[name] = next
	}
	if len(problems) == 0 {
		var err error
		if problems, err = a.Check(ctx, proposed); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return refused(problems)
	}
	var trailers []desired.Trailer
	if by := rest.Caller(ctx).String(); by != "" {
		trailers = append(trailers, desired.Trailer{Key: desired.TrailerRequestedBy, Value: by})
	}
	_, err := a.Repo.WriteVIM(ctx, name, subject, trailers, func(now []byte) ([]byte, error) {
		switch {
		case v == nil && now != nil:
			return nil, taken(name)
		case v != nil && now == nil:
			return nil, rest.Problem(http.StatusNotFound, "VIM %s was removed meanwhile", name)
		case v != nil:
			at, err := desired.ParseVIM(desired.VIMFile(name), now)
			if err != nil {
				return nil, rest.Problem(http.StatusConflict, "the VIM's file can't be read, and must be put right by git first: %v", err)
			}
			if !reflect.DeepEqual(at, v) {
				return nil, rest.Problem(http.StatusConflict, "VIM %s was changed meanwhile: read it again and repeat the request", name)
			}
		}
		if next == nil {
			return nil, nil
		}
		return desired.EditVIM(next, now)
	})
	return err
}

// refused makes one answer of problems.
func refused(problems []*desired.Problem) error {
	var said []string
	for _, p := range problems {
		said = append(said, fmt.Sprintf("%s: %s (%s)", p.File, p.Message, p.Remedy))
	}
	return rest.Problem(http.StatusConflict, "%s", strings.Join(said, "; "))
}

// show is GET vims/{id}.
func (a *api) show(w http.ResponseWriter, r *http.Request) error {
	_, v, err := a.find(r)
	if err != nil {
		return err
	}
	return a.reply(w, r, http.StatusOK, v.Name)
}

// reply answers with the VIM as it stands now.
func (a *api) reply(w http.ResponseWriter, r *http.Request, code int, name string) error {
	settings, err := a.Repo.Settings()
	if err != nil {
		return err
	}
	v := settings.VIMs[name]
	if v == nil { // by whoever came in between
		return rest.Problem(http.StatusNotFound, "VIM %s was removed meanwhile", name)
	}
	return rest.Reply(w, r, code, map[string]any{"vim": body(v, a.prober.status(r.Context(), v)[name])})
}

// list is GET vims. Each parameter but fields must be the value of an attribute.
func (a *api) list(w http.ResponseWriter, r *http.Request) error {
	settings, err := a.Repo.Settings()
	if err != nil {
		return err
	}
	query := r.URL.Query()
	fields := query["fields"]
	delete(query, "fields")
	for name := range query {
		if !slices.Contains([]string{"id", "name", "type", "is_default", "tenant_id", "status"}, name) {
			return rest.Problem(http.StatusBadRequest, "%.64q is no parameter of this list: VIMs are found by id, name, type, is_default, tenant_id and status, and fields says what is shown", name)
		}
	}
	var all []*desired.VIM
	for _, name := range slices.Sorted(maps.Keys(settings.VIMs)) {
		all = append(all, settings.VIMs[name])
	}
	states := map[string]string{}
	if query.Has("status") || len(fields) == 0 || slices.Contains(fields, "status") {
		states = a.prober.status(r.Context(), all...)
	}
	found := []map[string]any{}
	for _, v := range all {
		b := body(v, states[v.Name])
		matches := true
		for name, values := range query {
			matches = matches && slices.ContainsFunc(values, func(s string) bool { return strings.EqualFold(s, fmt.Sprint(b[name])) })
		}
		if !matches {
			continue
		}
		if len(fields) > 0 {
			maps.DeleteFunc(b, func(name string, _ any) bool { return !slices.Contains(fields, name) })
		}
		found = append(found, b)
	}
	return rest.Reply(w, r, http.StatusOK, map[string]any{"vims": found})
}
