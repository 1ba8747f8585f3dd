package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/test/process"
)

// forgeOf is how a server is given the forge noc/vnfs with that API.
func forgeOf(t *testing.T, api http.Handler) forgesync.Options {
	t.Helper()
	forge := httptest.NewServer(api)
	t.Cleanup(forge.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("of Jibe\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return forgesync.Options{Kind: "gitea", URL: forge.URL, Repository: "noc/vnfs", Token: "file:" + token, Rate: 1000}
}

// pullAPI is the API of a Gitea that keeps pull requests of a bare repository.
type pullAPI struct {
	t   testing.TB
	dir string // of the repository

	mu    sync.Mutex
	pulls []*pulled
	notes map[int][]string // comments, by pull request
	away  bool
}

type pulled struct {
	number       int
	branch, text string
	open         bool
	merged       string
}

func (f *pullAPI) body(p *pulled) map[string]any {
	state := map[bool]string{true: "open", false: "closed"}[p.open]
	return map[string]any{"number": p.number, "state": state, "merged": p.merged != "", "merge_commit_sha": p.merged, "html_url": fmt.Sprintf("https://forge.example/noc/vnfs/pulls/%d", p.number),
		"head": map[string]any{"ref": p.branch, "sha": f.at(p.branch), "repo_id": 1}, "base": map[string]any{"ref": "main", "repo_id": 1}}
}

// at is where a branch is, "" for nowhere.
func (f *pullAPI) at(branch string) string {
	at, err := process.Ref(f.dir, "refs/heads/"+branch)
	if err != nil {
		f.t.Error(err)
	}
	return at
}

// ServeHTTP implements http.Handler.
func (f *pullAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	if f.away {
		answer(http.StatusBadGateway, map[string]any{})
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v1")
	rest, ofRepo := strings.CutPrefix(path, "/repos/noc/vnfs")
	var in map[string]any
	if r.Method != http.MethodGet {
		_ = json.NewDecoder(r.Body).Decode(&in)
	}
	text := func(key string) string { s, _ := in[key].(string); return s }
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	switch {
	case path == "/user":
		answer(200, map[string]any{"id": 7, "login": "jibe"})
	case !ofRepo:
		answer(404, map[string]any{})
	case rest == "":
		answer(200, map[string]any{"permissions": map[string]any{"push": true}})
	case rest == "/pulls" && r.Method == http.MethodPost:
		p := &pulled{number: len(f.pulls) + 1, branch: text("head"), text: text("title") + "\n" + text("body"), open: true}
		f.pulls = append(f.pulls, p)
		answer(201, f.body(p))
	case rest == "/pulls":
		all := []any{}
		if page := r.URL.Query().Get("page"); page == "" || page == "1" {
			for _, p := range f.pulls {
				if p.open {
					all = append(all, f.body(p))
				}
			}
		}
		answer(200, all)
	case strings.HasPrefix(rest, "/pulls/main/"):
		branch := strings.TrimPrefix(rest, "/pulls/main/")
		for _, p := range f.pulls {
			if p.branch == branch {
				answer(200, f.body(p))
				return
			}
		}
		answer(404, map[string]any{})
	case strings.HasPrefix(rest, "/pulls/"):
		n := number(strings.TrimPrefix(rest, "/pulls/"))
		if n < 1 || n > len(f.pulls) {
			answer(404, map[string]any{})
			return
		}
		if r.Method == http.MethodPatch && text("state") == "closed" {
			f.pulls[n-1].open = false
		}
		answer(200, f.body(f.pulls[n-1]))
	case strings.HasPrefix(rest, "/issues/"):
		n := number(strings.Split(rest, "/")[2])
		if r.Method == http.MethodPost {
			f.notes[n] = append(f.notes[n], text("body"))
			answer(201, map[string]any{"id": len(f.notes[n]), "body": text("body")})
			return
		}
		answer(200, []any{})
	case r.Method == http.MethodPost:
		answer(201, map[string]any{"id": 1})
	default:
		answer(200, []any{})
	}
}

// of is the pull request of a branch as it is now; its number is 0 where there is none.
func (f *pullAPI) of(branch string) pulled {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := pulled{}
	for _, p := range f.pulls {
		if p.branch != branch {
			continue
		}
		if found.number != 0 {
			f.t.Errorf("branch %s has two pull requests, %d and %d", branch, found.number, p.number)
		}
		found = *p
	}
	return found
}

// opens is how many pull requests were ever opened.
func (f *pullAPI) opens() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.pulls)
}

// became says that a pull request was merged as a commit, or closed.
func (f *pullAPI) became(number int, merged string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls[number-1].open, f.pulls[number-1].merged = false, merged
}

// merge merges a pull request in one of the ways of forges, after an edit of the proposed file, and returns the commit.
func (f *pullAPI) merge(work *process.WorkTree, pr pulled, how string, edit func(text string) string) (commit string) {
	f.t.Helper()
	work.Pull()
	work.Git("fetch", "--quiet", "origin", pr.branch)
	switch how {
	case "merge":
		work.Git("merge", "--quiet", "--no-ff", "-m", "Merge", "FETCH_HEAD")
	case "squash":
		work.Git("merge", "--quiet", "--squash", "FETCH_HEAD")
		work.Git("commit", "--quiet", "-m", "Scale, as one commit")
	case "rebase":
		work.Git("cherry-pick", "FETCH_HEAD")
	}
	if edit != nil {
		work.Write(proposedFile, edit(work.Read(proposedFile)))
		work.Git("commit", "--quiet", "--all", "--amend", "--no-edit", "--allow-empty")
	}
	work.Git("push", "--quiet", "origin", "HEAD:main")
	commit = strings.TrimSpace(work.Git("rev-parse", "HEAD"))
	f.became(pr.number, commit)
	return commit
}

// said are the comments on a pull request that have these words.
func (f *pullAPI) said(number int, words string) (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range f.notes[number] {
		if strings.Contains(text, words) {
			list = append(list, text)
		}
	}
	return list
}

func (f *pullAPI) goAway(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = is
}
