package listener

import "net/http"

// hardened tells browsers of every answer, also of errors and of redirects that no page of ours is: it stands in no
// frame, runs nothing, is what its type says, is read by no other site, and isn't kept. What is made for browsers says
// more of itself ([ui.Service]).
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
