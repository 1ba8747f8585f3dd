package forges

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// gitlabRoutes are GitLab's API v4, as its documentation says.
func gitlabRoutes(f *Forge, mux *http.ServeMux) {
	const project = "/api/v4/projects/{project}"
	user := func(id int64) map[string]any { return map[string]any{"id": id, "username": fmt.Sprintf("user%d", id)} }
	// mine serves the one project that is there, which is named by its path.
	mine := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("project") != "noc/tokyo/vnfs" {
				answer(w, 404, map[string]any{"message": "404 Project Not Found"})
				return
			}
			h(w, r)
		})
	}
	next := func(w http.ResponseWriter, n int) {
		if n > 0 {
			w.Header().Set("X-Next-Page", strconv.Itoa(n))
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, map[string]any{"error": "404 Not Found"}) })
	mux.HandleFunc("GET /api/v4/user", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, user(JibeID)) })
	mine("GET "+project, func(w http.ResponseWriter, _ *http.Request) {
		level := map[bool]int{true: 20, false: 30}[f.ReadOnly] // Reporter, Developer
		answer(w, 200, map[string]any{"id": 1, "permissions": map[string]any{"project_access": map[string]any{"access_level": level}, "group_access": nil}})
	})

	told := func(s status) map[string]any {
		return map[string]any{"id": s.id, "sha": s.commit, "status": s.State, "name": s.Context, "description": s.Description, "target_url": s.Link}
	}
	mine("GET "+project+"/repository/commits/{sha}/statuses", func(w http.ResponseWriter, r *http.Request) {
		latest := map[string]status{} // without all=true, the latest of each name
		for _, s := range f.all.statuses {
			if s.commit == r.PathValue("sha") && (r.URL.Query().Get("name") == "" || r.URL.Query().Get("name") == s.Context) {
				latest[s.Context] = s
			}
		}
		all := []map[string]any{}
		for _, s := range latest {
			all = append(all, told(s))
		}
		part, n := page(r, all)
		next(w, n)
		answer(w, 200, part)
	})
	mine("POST "+project+"/statuses/{sha}", func(w http.ResponseWriter, r *http.Request) {
		in := body(r)
		switch {
		case !f.known(r.PathValue("sha")):
			answer(w, 404, map[string]any{"message": "404 Commit Not Found"})
			return
		case !slices.Contains([]string{"pending", "running", "success", "failed", "canceled", "skipped"}, in["state"]):
			answer(w, 400, map[string]any{"error": "state does not have a valid value"})
			return
		}
		for _, s := range slices.Backward(f.all.statuses) {
			if s.commit == r.PathValue("sha") && s.Context == in["name"] {
				if s.State == in["state"] {
					answer(w, 400, map[string]any{"message": fmt.Sprintf("Cannot transition status via :enqueue from :%s", in["state"])})
					return
				}
				break
			}
		}
		s := status{int64(len(f.all.statuses) + 1), r.PathValue("sha"), Status{in["name"], in["state"], in["description"], in["target_url"]}}
		f.all.statuses = append(f.all.statuses, s)
		answer(w, 201, told(s))
	})

	note := func(c *comment) map[string]any {
		return map[string]any{"id": c.id, "body": c.text, "author": user(c.author), "system": false}
	}
	mine("GET "+project+"/merge_requests/{number}/notes", func(w http.ResponseWriter, r *http.Request) {
		p := f.pull(r)
		if p == nil {
			answer(w, 404, map[string]any{"message": "404 Not found"})
			return
		}
		all := []map[string]any{}
		for _, c := range f.all.comments {
			if c.pull == p.number {
				all = append(all, note(c))
			}
		}
		if r.URL.Query().Get("sort") != "asc" { // the newest first unless asked
			slices.Reverse(all)
		}
		part, n := page(r, all)
		next(w, n)
		answer(w, 200, part)
	})
	mine("POST "+project+"/merge_requests/{number}/notes", func(w http.ResponseWriter, r *http.Request) {
		p := f.pull(r)
		if p == nil {
			answer(w, 404, map[string]any{"message": "404 Not found"})
			return
		}
		answer(w, 201, note(f.add(p.number, JibeID, body(r)["body"])))
	})
	mine("PUT "+project+"/merge_requests/{number}/notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, c := range f.all.comments {
			if strconv.FormatInt(c.id, 10) == r.PathValue("id") {
				c.text = body(r)["body"]
				answer(w, 200, note(c))
			}
		}
	})

	request := func(p *pullRequest) map[string]any {
		state := map[bool]string{true: "opened", false: "closed"}[p.open]
		var merge any
		if p.merged != "" {
			state, merge = "merged", p.merged
		}
		return map[string]any{
			"merge_commit_sha": merge, "squash_commit_sha": nil,
			"iid": p.number, "state": state, "source_branch": p.branch, "target_branch": p.base, "sha": f.branch(p.branch),
			"source_project_id": 1, "target_project_id": 1, "web_url": fmt.Sprintf("%s/noc/tokyo/vnfs/-/merge_requests/%d", f.URL, p.number),
		}
	}
	mine("GET "+project+"/merge_requests", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		all := []map[string]any{}
		for _, p := range f.all.pulls {
			if (q.Get("state") != "opened" || p.open) && (q.Get("target_branch") == "" || q.Get("target_branch") == p.base) && (q.Get("source_branch") == "" || q.Get("source_branch") == p.branch) {
				all = append(all, request(p))
			}
		}
		part, n := page(r, all)
		next(w, n)
		answer(w, 200, part)
	})
	mine("GET "+project+"/merge_requests/{number}", func(w http.ResponseWriter, r *http.Request) {
		if p := f.pull(r); p != nil {
			answer(w, 200, request(p))
			return
		}
		answer(w, 404, map[string]any{"message": "404 Not found"})
	})
	mine("POST "+project+"/merge_requests", func(w http.ResponseWriter, r *http.Request) {
		in := body(r)
		p, why := f.propose(in["source_branch"], in["target_branch"])
		switch why {
		case "":
			answer(w, 201, request(p))
		case "invalid":
			answer(w, 400, map[string]any{"message": map[string]any{"validate_branches": []string{"Source branch does not exist"}}})
		default:
			answer(w, 409, map[string]any{"message": []string{"Another open merge request already exists for this source branch"}})
		}
	})
	mine("PUT "+project+"/merge_requests/{number}", func(w http.ResponseWriter, r *http.Request) {
		p := f.pull(r)
		p.open = body(r)["state_event"] != "close"
		answer(w, 200, request(p))
	})
}
