package forges

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// githubRoutes are the API of GitHub Enterprise Server, as the documentation of GitHub's REST API
// (2022-11-28) says.
func githubRoutes(f *Forge, mux *http.ServeMux) {
	const repo = "/api/v3/repos/noc/vnfs" // as GitHub Enterprise Server has it
	user := func(id int64) map[string]any { return map[string]any{"id": id, "login": fmt.Sprintf("user%d", id)} }
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, map[string]any{"message": "Not Found"}) })
	mux.HandleFunc("GET /api/v3/user", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, user(JibeID)) })
	mux.HandleFunc("GET "+repo, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"id": 1, "full_name": "noc/vnfs", "permissions": map[string]any{"pull": true, "push": !f.ReadOnly}})
	})

	link := func(w http.ResponseWriter, r *http.Request, next int) {
		if next > 0 {
			u := *r.URL
			q := u.Query()
			q.Set("page", strconv.Itoa(next))
			u.RawQuery = q.Encode()
			w.Header().Set("Link", fmt.Sprintf(`<%s%s>; rel="next"`, f.URL, u.String()))
		}
	}
	told := func(s status) map[string]any {
		return map[string]any{"id": s.id, "state": s.State, "description": s.Description, "target_url": s.Link, "context": s.Context}
	}
	// Reverse chronological order; the first is the latest.
	mux.HandleFunc("GET "+repo+"/commits/{ref}/statuses", func(w http.ResponseWriter, r *http.Request) {
		all := []map[string]any{}
		for _, s := range slices.Backward(f.all.statuses) {
			if s.commit == r.PathValue("ref") {
				all = append(all, told(s))
			}
		}
		part, next := page(r, all)
		link(w, r, next)
		answer(w, 200, part)
	})
	mux.HandleFunc("POST "+repo+"/statuses/{sha}", func(w http.ResponseWriter, r *http.Request) {
		in := body(r)
		if !f.known(r.PathValue("sha")) {
			answer(w, 422, map[string]any{"message": "No commit found for SHA: " + r.PathValue("sha")})
			return
		}
		if !slices.Contains([]string{"error", "failure", "pending", "success"}, in["state"]) || len([]rune(in["description"])) > 140 {
			answer(w, 422, map[string]any{"message": "Validation Failed", "errors": []any{map[string]any{"resource": "Status", "code": "custom"}}})
			return
		}
		s := status{int64(len(f.all.statuses) + 1), r.PathValue("sha"), Status{in["context"], in["state"], in["description"], in["target_url"]}}
		f.all.statuses = append(f.all.statuses, s)
		answer(w, 201, told(s))
	})

	shown := func(c *comment) map[string]any {
		return map[string]any{"id": c.id, "body": c.text, "user": user(c.author)}
	}
	// Ordered by ascending id.
	mux.HandleFunc("GET "+repo+"/issues/{number}/comments", func(w http.ResponseWriter, r *http.Request) {
		p := f.pull(r)
		if p == nil {
			answer(w, 404, map[string]any{"message": "Not Found"})
			return
		}
		all := []map[string]any{}
		for _, c := range f.all.comments {
			if c.pull == p.number {
				all = append(all, shown(c))
			}
		}
		part, next := page(r, all)
		link(w, r, next)
		answer(w, 200, part)
	})
	tooLong := func(w http.ResponseWriter, text string) bool {
		if len([]rune(text)) <= 65536 {
			return false
		}
		answer(w, 422, map[string]any{"message": "Validation Failed", "errors": []any{map[string]any{"message": "body is too long (maximum is 65536 characters)"}}})
		return true
	}
	mux.HandleFunc("POST "+repo+"/issues/{number}/comments", func(w http.ResponseWriter, r *http.Request) {
		p, in := f.pull(r), body(r)
		switch {
		case p == nil:
			answer(w, 404, map[string]any{"message": "Not Found"})
		case tooLong(w, in["body"]):
		default:
			answer(w, 201, shown(f.add(p.number, JibeID, in["body"])))
		}
	})
	mux.HandleFunc("PATCH "+repo+"/issues/comments/{id}", func(w http.ResponseWriter, r *http.Request) {
		in := body(r)
		for _, c := range f.all.comments {
			if strconv.FormatInt(c.id, 10) == r.PathValue("id") && !tooLong(w, in["body"]) {
				c.text = in["body"]
				answer(w, 200, shown(c))
			}
		}
	})

	pull := func(p *pullRequest) map[string]any {
		state := map[bool]string{true: "open", false: "closed"}[p.open]
		at := func(branch string) map[string]any {
			return map[string]any{"ref": branch, "sha": f.branch(branch), "repo": map[string]any{"id": 1}}
		}
		merge := p.merged
		if merge == "" {
			merge = strings.Repeat("8", 40) // what a merge would be, to try it
		}
		return map[string]any{"merged": p.merged != "", "merge_commit_sha": merge, "number": p.number, "state": state, "head": at(p.branch), "base": at(p.base), "html_url": fmt.Sprintf("%s/noc/vnfs/pull/%d", f.URL, p.number)}
	}
	mux.HandleFunc("GET "+repo+"/pulls", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		all := []map[string]any{}
		for _, p := range f.all.pulls {
			if (q.Get("state") != "open" || p.open) && (q.Get("base") == "" || q.Get("base") == p.base) && (q.Get("head") == "" || q.Get("head") == "noc:"+p.branch) {
				all = append(all, pull(p))
			}
		}
		part, next := page(r, all)
		link(w, r, next)
		answer(w, 200, part)
	})
	mux.HandleFunc("GET "+repo+"/pulls/{number}", func(w http.ResponseWriter, r *http.Request) {
		if p := f.pull(r); p != nil {
			answer(w, 200, pull(p))
			return
		}
		answer(w, 404, map[string]any{"message": "Not Found"})
	})
	mux.HandleFunc("POST "+repo+"/pulls", func(w http.ResponseWriter, r *http.Request) {
		in := body(r)
		p, why := f.propose(in["head"], in["base"])
		if p == nil {
			answer(w, 422, map[string]any{"message": "Validation Failed", "errors": []any{map[string]any{"resource": "PullRequest", "field": "head", "code": why}}})
			return
		}
		answer(w, 201, pull(p))
	})
	mux.HandleFunc("PATCH "+repo+"/pulls/{number}", func(w http.ResponseWriter, r *http.Request) {
		p := f.pull(r)
		p.open = body(r)["state"] != "closed"
		answer(w, 200, pull(p))
	})
}
