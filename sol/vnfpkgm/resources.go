package vnfpkgm

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/internal/mergepatch"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// create is POST vnf_packages (SOL005): a place for content.
func (e edition) create(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		UserDefinedData map[string]any `json:"userDefinedData"`
	}
	if err := rest.Read(w, r, &body); err != nil {
		return err
	}
	if err := e.permit(r, &packages.Onboarded{}); err != nil {
		return err
	}
	record := &packages.Record{ID: e.newID(), UserDefinedData: rest.Object(body.UserDefinedData)}
	err := e.Catalogue.Edit(r.Context(), packages.Edit{Subject: "Create the package " + record.ID, By: author(r),
		Change: func(*packages.Tip) (packages.Change, error) {
			return packages.Change{Put: []*packages.Record{record}}, nil
		}})
	if err != nil {
		return err
	}
	info, err := e.info(r.Context(), &packages.Onboarded{ID: record.ID, Record: record}, e.Used(), all)
	if err != nil {
		return err
	}
	w.Header().Set("Location", e.Link("vnf_packages", record.ID))
	return rest.Reply(w, r, http.StatusCreated, info)
}

func all(string) bool { return true }

// list is GET vnf_packages, or with only GET onboarded_vnf_packages (SOL003 clause 10.4.2.3.2).
func (e edition) list(only bool) rest.Handler {
	of := resource()
	return func(w http.ResponseWriter, r *http.Request) error {
		q, err := rest.ParseQuery(r, of)
		if err != nil {
			return err
		}
		scope, err := e.scope(r)
		if err != nil {
			return err
		}
		list, used := e.Catalogue.Onboarded(), e.Used()
		return rest.List(e.API, w, r, &q, rest.Listing[*packages.Onboarded]{
			All: func(yield func(*packages.Onboarded, error) bool) {
				for i := range list {
					o := &list[i]
					if o.ID <= q.After || only && e.state(o) != onboarded || !e.sees(scope, o) {
						continue
					}
					if !yield(o, nil) {
						return
					}
				}
			},
			Position: func(o *packages.Onboarded) string { return o.ID },
			Body: func(o *packages.Onboarded) (any, error) {
				info, err := e.info(r.Context(), o, used, q.Wants)
				if errors.Is(err, packages.ErrUnknown) {
					return nil, nil // its content went meanwhile
				}
				return info, err
			},
		})
	}
}

// show is GET of one package (clause 10.4.3.3.2).
func (e edition) show(w http.ResponseWriter, r *http.Request) error {
	o, err := e.find(r)
	if err != nil {
		return err
	}
	info, err := e.info(r.Context(), &o, e.Used(), all)
	if err != nil {
		return err
	}
	return rest.Reply(w, r, http.StatusOK, info)
}

// modifications is VnfPkgInfoModifications (SOL005).
type modifications struct {
	OperationalState *string         `json:"operationalState,omitempty"`
	UserDefinedData  json.RawMessage `json:"userDefinedData,omitempty"`
}

// modify is PATCH of one package (SOL005). It may be repeated.
func (e edition) modify(w http.ResponseWriter, r *http.Request) error {
	var body modifications
	if err := rest.Read(w, r, &body); err != nil {
		return err
	}
	o, err := e.find(r)
	if err != nil {
		return err
	}
	disable := false
	switch {
	case body.OperationalState == nil && body.UserDefinedData == nil:
		return rest.Problem(http.StatusBadRequest, "the body names neither operationalState nor userDefinedData: nothing else can be changed")
	case body.OperationalState == nil:
	case *body.OperationalState == disabled:
		disable = true
	case *body.OperationalState != enabled:
		return rest.Problem(http.StatusBadRequest, "operationalState is neither %s nor %s", enabled, disabled)
	}
	if state := e.state(&o); body.OperationalState != nil && state != onboarded {
		return rest.Problem(http.StatusConflict, "the operationalState of VNF package %s can't change: its onboardingState is %s, and not %s", o.ID, state, onboarded)
	}
	change := func(t *packages.Tip) (packages.Change, error) {
		record := t.Record(o.ID)
		if record == nil {
			if o.Entry == nil {
				return packages.Change{}, rest.Problem(http.StatusNotFound, "VNF package %s does not exist any more", o.ID)
			}
			record = &packages.Record{ID: o.ID, VnfdID: o.Entry.VnfdID}
		}
		put := []*packages.Record{record}
		if body.OperationalState != nil {
			record.Disabled = disable
			// It is that of the content, under each of its ids.
			for _, other := range t.Records {
				if other.ID != o.ID && other.VnfdID == o.Entry.VnfdID && other.Disabled != disable {
					other.Disabled = disable
					put = append(put, other)
				}
			}
		}
		if body.UserDefinedData != nil {
			data, err := patched(record.UserDefinedData, body.UserDefinedData)
			if err != nil {
				return packages.Change{}, err
			}
			record.UserDefinedData = data
		}
		return packages.Change{Put: put}, nil
	}
	if err := e.Catalogue.Edit(r.Context(), packages.Edit{Subject: "Change the package " + o.ID, By: author(r), Change: change}); err != nil {
		return err
	}
	e.announce(r.Context())
	return rest.Reply(w, r, http.StatusOK, body)
}

// patched merges a patch into user-defined data (RFC 7396).
func patched(now map[string]any, patch json.RawMessage) (map[string]any, error) {
	var p any
	if err := json.Unmarshal(patch, &p); err != nil {
		return nil, rest.Problem(http.StatusBadRequest, "userDefinedData can't be read")
	}
	changes, ok := p.(map[string]any)
	if !ok && p != nil {
		return nil, rest.Problem(http.StatusBadRequest, "userDefinedData must be a JSON object")
	}
	if p == nil {
		return nil, nil
	}
	return mergepatch.Apply(now, changes), nil
}

// remove is DELETE of one package (SOL005).
func (e edition) remove(w http.ResponseWriter, r *http.Request) error {
	o, err := e.find(r)
	if err != nil {
		return err
	}
	if err := e.claim(r.Context(), o.ID, processing); err != nil {
		return err
	}
	defer e.release(r.Context(), o.ID)
	if o.Entry != nil && o.Problem == nil {
		switch {
		case e.Used()(o.Entry.VnfdID):
			return rest.Problem(http.StatusConflict, "VNF package %s is in use: delete the VNF instances with the VNFD id %s first", o.ID, o.Entry.VnfdID)
		case !o.Disabled:
			return rest.Problem(http.StatusConflict, "VNF package %s is enabled: set its operationalState to %s first", o.ID, disabled)
		}
	}
	err = e.Catalogue.Edit(r.Context(), packages.Edit{Subject: "Delete the package " + o.ID, By: author(r),
		Change: func(t *packages.Tip) (packages.Change, error) { return e.removal(t, &o) }})
	if err != nil {
		return err
	}
	e.forget(r.Context(), o.ID)
	e.release(r.Context(), o.ID) // what is busy isn't told of
	e.announce(r.Context())
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// removal removes a package's record, and its content with the last one.
func (e edition) removal(t *packages.Tip, o *packages.Onboarded) (packages.Change, error) {
	var c packages.Change
	if t.Record(o.ID) != nil {
		c.Drop = []string{o.ID}
	}
	if o.Entry == nil || slices.ContainsFunc(t.Records, func(other *packages.Record) bool { return other.ID != o.ID && other.VnfdID == o.Entry.VnfdID }) {
		return c, nil
	}
	folder, here := t.Folders[o.Entry.Tree]
	if !here || o.Entry.Repository != t.Repository() {
		return c, rest.Problem(http.StatusConflict, "VNF package %s stands in the package repository %s (%s) at %s, which isn't Jibe's to write: delete it there",
			o.ID, o.Entry.Repository, path.Join("/", o.Entry.Path), o.Entry.Ref)
	}
	c.Remove = []string{folder}
	return c, nil
}

// forget removes what is kept of a package that is deleted.
func (s *Service) forget(ctx context.Context, id string) {
	s.mu.Lock()
	delete(s.failed, id)
	s.mu.Unlock()
	if err := s.spool(id).clear(); err != nil {
		s.Log.WarnContext(ctx, "what was uploaded of a deleted package is still there", "package", id, "error", err)
	}
}
