// Package answer writes the answers of what ETSI has no words for: Jibe's own API, its hooks' socket and the
// addresses that probes ask.
package answer

import (
	"encoding/json"
	"net/http"

	"github.com/jibe-vnfm/jibe/sol/rest"
)

// Text answers with plain text.
func Text(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a client that went away needs no answer
}

// JSON answers with a value.
func JSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that went away needs no answer
}

// Missing answers that what was asked for isn't there, or isn't known here yet.
func Missing(w http.ResponseWriter, r *http.Request, detail string) {
	status, told := rest.Missing(r.Context(), detail)
	Problem(w, status, told)
}

// Problem answers why a request isn't done.
func Problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "detail": detail})
}
