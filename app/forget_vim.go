package app

import (
	"errors"
	"net/http"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store"
)

// showFormerVIM answers with what was instantiated at a former VIM of the name: [reconciler.FormerVIM].
func (s *Server) showFormerVIM(w http.ResponseWriter, r *http.Request) {
	if found := s.formerVIM(w, r); found != nil {
		respondJSON(w, http.StatusOK, found)
	}
}

// forgetVIM forgets the former VIM of the name. The query says which one is there now, as the caller was shown. It may be
// interrupted and repeated: what is left is found again.
func (s *Server) forgetVIM(w http.ResponseWriter, r *http.Request) {
	found := s.formerVIM(w, r)
	if found == nil {
		return
	}
	if is := r.URL.Query().Get("is"); is == "" || is != found.Is {
		respondProblem(w, http.StatusConflict, "nothing was forgotten: VIM "+found.VIM+" says that it is \""+found.Is+"\", and the request says \""+is+"\"; look again")
		return
	}
	if len(found.Instances) == 0 {
		respondProblem(w, http.StatusConflict, "nothing was forgotten: no VNF was instantiated at another VIM "+found.VIM+" than the present one")
		return
	}

	for _, x := range found.Instances {
		if err := s.oplog.ForgetVIM(r.Context(), x.Instance, found.VIM, x.Was); err != nil {
			respondProblem(w, http.StatusServiceUnavailable, "instance "+x.Instance+": "+err.Error())
			return
		}
		s.recon.Enqueue(x.Instance)
	}
	respondJSON(w, http.StatusOK, found)
}

// formerVIM is what the path of the request names; nil where the request is answered.
func (s *Server) formerVIM(w http.ResponseWriter, r *http.Request) *reconciler.FormerVIM {
	found, err := s.recon.View().FormerVIM(r.Context(), r.PathValue("name"))
	switch {
	case err == nil:
		return found
	case errors.Is(err, store.ErrNotFound):
		respondMissing(w, r, err.Error())
	case errors.Is(err, drivers.ErrUnavailable), errors.Is(err, store.ErrUnavailable):
		respondProblem(w, http.StatusServiceUnavailable, "nothing can be forgotten of a VIM that can't be reached: have its file lead to the one that takes its place. "+err.Error())
	default:
		respondProblem(w, http.StatusInternalServerError, err.Error())
	}
	return nil
}
