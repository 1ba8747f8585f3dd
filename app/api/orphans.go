package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store"
)

// mostDeletion bounds the body of a deletion of orphans, in bytes.
const mostDeletion = 16 << 20

// listOrphans answers with the objects that belong to no VNF, as the VIMs have them now: [reconciler.Orphans].
func (s *API) listOrphans(w http.ResponseWriter, r *http.Request) {
	found, err := s.View.Orphans(r.Context())
	if err != nil {
		respondUnsurveyed(w, err)
		return
	}
	answer.JSON(w, http.StatusOK, found)
}

// deleteOrphans deletes the objects that the body names, and no others: [reconciler.OrphanDeletion]. It may be interrupted
// and repeated.
func (s *API) deleteOrphans(w http.ResponseWriter, r *http.Request) {
	var d reconciler.OrphanDeletion
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostDeletion))
	body.DisallowUnknownFields()
	if err := body.Decode(&d); err != nil {
		answer.Problem(w, http.StatusBadRequest, "nothing was deleted: the body is no deletion: "+err.Error())
		return
	}
	for _, x := range d.Objects {
		if x.VIM == "" || x.Instance == "" || x.Object == "" || x.Incarnation == "" {
			answer.Problem(w, http.StatusBadRequest, "nothing was deleted: each object needs vim, instance, object and incarnation, as GET /jibe/v1/orphans shows them")
			return
		}
	}
	if len(d.Objects) == 0 {
		answer.Problem(w, http.StatusBadRequest, "nothing was deleted: the body names no objects")
		return
	}

	done, err := s.Reconciler.DeleteOrphans(r.Context(), d)
	if err != nil {
		if done != nil && len(done.Deleted)+len(done.Unsure) > 0 {
			audit.Note(r.Context(), func(rec *audit.Record) { rec.Reason = deletedText(done) + "; then: " + err.Error() })
			err = fmt.Errorf("%s; of the others: %w", countText(done), err)
		}
		respondUnsurveyed(w, err)
		return
	}
	audit.Note(r.Context(), func(rec *audit.Record) { rec.Reason = deletedText(done) })
	answer.JSON(w, http.StatusOK, done)
}

// mostAudited is how many objects a record of the audit log names.
const mostAudited = 20

// deletedText says for the audit log what was deleted.
func deletedText(done *reconciler.OrphansDeleted) string {
	var of []string
	for _, x := range slices.Concat(done.Deleted, done.Unsure) {
		of = append(of, x.Object+" of instance "+x.Instance+" at VIM "+x.VIM)
	}
	slices.Sort(of)
	said := "objects of no VNF: " + countText(done)
	if len(of) == 0 {
		return said
	}
	if n := len(of) - mostAudited; n > 0 {
		of = append(of[:mostAudited], fmt.Sprintf("and %d more", n))
	}
	return said + ": " + strings.Join(of, ", ")
}

// countText says how many objects what came of.
func countText(done *reconciler.OrphansDeleted) string {
	said := fmt.Sprintf("%d deleted, %d gone before, %d left alone", len(done.Deleted), len(done.Gone), len(done.Refused))
	if n := len(done.Unsure); n > 0 {
		said += fmt.Sprintf(", %d whose deletion failed midway", n)
	}
	return said
}

// respondUnsurveyed answers why nothing is known of orphans now, or why none may be deleted.
func respondUnsurveyed(w http.ResponseWriter, err error) {
	switch {
	case errors.As(err, new(*drivers.RefusedError)):
		answer.Problem(w, http.StatusConflict, "nothing was deleted: "+err.Error())
	case errors.Is(err, drivers.ErrUnavailable), errors.Is(err, desired.ErrUnavailable), errors.Is(err, store.ErrUnavailable):
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
	default:
		answer.Problem(w, http.StatusInternalServerError, err.Error())
	}
}
