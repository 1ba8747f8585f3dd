package api

import (
	"net/http"
	"slices"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// listProjects answers with the projects of which the caller may see what is in them, and what
// they use ([reconciler.ProjectUse]).
func (s *API) listProjects(w http.ResponseWriter, r *http.Request) {
	list, err := s.View.Projects(r.Context())
	if err != nil {
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	who := auth.From(r.Context())
	answer.JSON(w, http.StatusOK, slices.DeleteFunc(list, func(p reconciler.ProjectUse) bool { return !who.May(auth.Viewer, p.Name) }))
}

// listSubscriptions answers with how the delivery to each subscription of the caller goes: [notify.State].
func (s *API) listSubscriptions(w http.ResponseWriter, r *http.Request) {
	states, err := s.Notify.AllStatesOf(r.Context(), auth.From(r.Context()))
	if err != nil {
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer.JSON(w, http.StatusOK, states)
}

// showSubscription answers with one of listSubscriptions.
func (s *API) showSubscription(w http.ResponseWriter, r *http.Request) {
	states, err := s.Notify.AllStatesOf(r.Context(), auth.From(r.Context()))
	if err != nil {
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	for _, state := range states {
		if state.ID == r.PathValue("id") {
			answer.JSON(w, http.StatusOK, state)
			return
		}
	}
	answer.Missing(w, r, "no subscription has the id "+r.PathValue("id")+" (see: jibe get subscriptions)")
}
