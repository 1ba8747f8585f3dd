package api

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store"
)

// showFormerVIM answers with what was instantiated at a former VIM of the name: [reconciler.FormerVIM].
func (s *API) showFormerVIM(w http.ResponseWriter, r *http.Request) {
	if found := s.formerVIM(w, r); found != nil {
		answer.JSON(w, http.StatusOK, found)
	}
}

// forgetVIM forgets the former VIM of the name. The query says which one is there now, as the caller was shown. It may be
// interrupted and repeated: what is left is found again.
func (s *API) forgetVIM(w http.ResponseWriter, r *http.Request) {
	found := s.formerVIM(w, r)
	if found == nil {
		return
	}
	if why := notAsShown(found, r.URL.Query()); why != "" {
		answer.Problem(w, http.StatusConflict, "nothing was forgotten: "+why+"; look again")
		return
	}
	if len(found.Instances) == 0 {
		answer.Problem(w, http.StatusConflict, "nothing was forgotten: no VNF was instantiated at another VIM "+found.VIM+" than the present one")
		return
	}

	for _, x := range found.Instances {
		if err := s.Oplog.ForgetVIM(r.Context(), x.Instance, found.VIM, x.Was, found.Is == ""); err != nil {
			answer.Problem(w, http.StatusServiceUnavailable, "instance "+x.Instance+": "+err.Error())
			return
		}
		s.Reconciler.Enqueue(x.Instance)
	}
	answer.JSON(w, http.StatusOK, found)
}

// notAsShown returns why what is found isn't what the caller was shown, "" where it is.
func notAsShown(found *reconciler.FormerVIM, said url.Values) string {
	is, unreachable := said.Get("is"), said.Get("unreachable") == "true"
	switch {
	case found.Is != "" && is != found.Is:
		return "VIM " + found.VIM + " says that it is \"" + found.Is + "\", and the request says \"" + is + "\""
	case found.Is == "" && found.Unreachable != "" && (is != "" || !unreachable):
		return "VIM " + found.VIM + " can't be reached, and the request says that it is \"" + is + "\" (unreachable=true says that it can't)"
	}
	return ""
}

// formerVIM is what the path of the request names; nil where the request is answered.
func (s *API) formerVIM(w http.ResponseWriter, r *http.Request) *reconciler.FormerVIM {
	var refused *drivers.RefusedError
	found, err := s.View.FormerVIM(r.Context(), r.PathValue("name"))
	switch {
	case err == nil:
		return found
	case errors.Is(err, store.ErrNotFound):
		answer.Missing(w, r, err.Error())
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, desired.ErrUnavailable):
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
	case errors.As(err, &refused):
		answer.Problem(w, http.StatusConflict, err.Error())
	default:
		answer.Problem(w, http.StatusInternalServerError, err.Error())
	}
	return nil
}
