package githooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Handler serves the local repositories to callers who may have them, by real git. They send the
// token as a password.
func (s *Service) Handler() http.Handler {
	fetches, pushes := newGitTurns("fetch", fetchesAtOnce, fetchesOfOne), newGitTurns("push", pushesAtOnce, pushesOfOne)
	s.Register(fetches.collectors()...)
	s.Register(pushes.collectors()...)
	turn := func(ctx context.Context, who auth.Identity, push bool) (func(), error) {
		if push {
			return pushes.take(ctx, who.String())
		}
		return fetches.take(ctx, who.String())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/git/desired.git/", func(w http.ResponseWriter, r *http.Request) {
		s.serveGit(w, r, gitAccess{dir: s.Desired, name: admission.DesiredRepository, prefix: "/git/desired.git", turn: turn, may: s.mayDesired, catchUp: s.Repo.CatchUp,
			drafts: s.Hooks.Binary != "" && s.Remote == ""})
	})
	mux.HandleFunc("/git/packages/{name}/", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		s.serveGit(w, r, gitAccess{dir: filepath.Join(s.Packages, name), name: name, prefix: "/git/packages/" + name, turn: turn,
			may: func(who auth.Identity, push bool) string { return s.mayPackages(who, name, push) }})
	})
	return mux
}

// gitAccess is one repository that is served.
type gitAccess struct {
	dir, name, prefix string
	// turn waits for the turn of the caller, see [gitrepo.Served.Turn].
	turn func(ctx context.Context, who auth.Identity, push bool) (done func(), err error)
	// may returns why somebody may not fetch or push at all, "" where they may. What a push may
	// change is asked for later, by the hook.
	may func(who auth.Identity, push bool) string
	// drafts is as [gitrepo.Served.Drafts].
	drafts bool
	// catchUp is as [gitrepo.Served.CatchUp] has it.
	catchUp func(context.Context) error
}

// serveGit answers one request for a repository.
func (s *Service) serveGit(w http.ResponseWriter, r *http.Request, a gitAccess) {
	who, err := s.Auth.Authenticate(r)
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		answer.Text(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	case err != nil:
		w.Header().Set("WWW-Authenticate", `Basic realm="jibe: the token is the password"`)
		answer.Text(w, http.StatusUnauthorized, "a token is needed as the password\n")
		return
	}
	if !strings.HasSuffix(a.name, ".git") || !filepath.IsLocal(a.name) || strings.ContainsAny(a.name, `/\`) || !isDir(a.dir) {
		http.NotFound(w, r)
		return
	}
	receive := strings.HasSuffix(r.URL.Path, "/git-receive-pack")
	push := receive || r.URL.Query().Get("service") == "git-receive-pack"
	if who.Interface == auth.SOL002 {
		answer.Text(w, http.StatusForbidden, who.String()+" is confined to the interface of SOL002, which git isn't\n")
		return
	}
	if why := a.may(who, push); why != "" {
		answer.Text(w, http.StatusForbidden, why+"\n")
		return
	}
	listener.Unbound(w)
	r.Header.Del("Authorization") // the repositories' hooks have no need of it
	r.Header.Del("X-Auth-Token")
	served := gitrepo.Served{Dir: a.dir, OwnRefs: who.May(auth.Admin, ""), CatchUp: a.catchUp, Log: s.Log, Drafts: a.drafts,
		Turn: func(ctx context.Context, push bool) (func(), error) { return a.turn(ctx, who, push) }}
	if receive {
		if err := s.Hooks.Install(a.dir, a.name); err != nil {
			s.Log.ErrorContext(r.Context(), "serve a push", "error", err)
			answer.Text(w, http.StatusInternalServerError, "the repository's hook can't be installed\n")
			return
		}
		id, end := s.pushes.begin(pusher{who: who, from: audit.Source(r.Context())}, a.name)
		defer func() { s.pushEnded(context.WithoutCancel(r.Context()), a.dir, end()) }()
		served.Push = id
	}
	http.StripPrefix(a.prefix, served).ServeHTTP(w, r)
}

// mayDesired says why somebody may not fetch or push the desired repository. Git can't hide
// some of its folders from who fetches it, so that only who may read all projects may.
func (s *Service) mayDesired(who auth.Identity, push bool) string {
	switch {
	case push && s.Remote != "" && s.Hooks.Binary == "":
		return "this is the mirror of a desired repository on a forge, and has no push hook: push to " + git.WithoutCredentials(s.Remote)
	case push && s.Hooks.Binary == "" && !who.May(auth.Admin, ""):
		return "this server has no push hook, so that only the role admin may push"
	case push && !who.MayAnywhere(auth.Operator):
		return fmt.Sprintf("the role %s is needed, and %s is %s", auth.Operator, who.Name, who.Describe())
	case !push && !who.May(auth.Viewer, "") && !(s.ShareDesired && who.MayAnywhere(auth.Viewer)):
		return fmt.Sprintf("a clone of the desired repository shows every project: the role %s in all projects is needed, and %s is %s "+
			"(an administrator lets those who may read some projects read all with jibe serve --share-desired)", auth.Viewer, who.Name, who.Describe())
	}
	return ""
}

// mayPackages says why somebody may not fetch or push a package repository.
func (s *Service) mayPackages(who auth.Identity, name string, push bool) string {
	projects, err := s.projectsOfPackages(name)
	if err != nil {
		return "the projects can't be read: " + err.Error()
	}
	role, may := auth.Viewer, func(p string) bool { return who.May(auth.Viewer, p) }
	if push {
		role, may = auth.Packager, func(p string) bool { return who.May(auth.Packager, p) }
	}
	switch {
	case push && s.Hooks.Binary == "" && !who.May(auth.Admin, ""):
		return "this server has no push hook, so that only the role admin may push"
	case push && !slices.ContainsFunc(projects, func(p string) bool { return !may(p) }), !push && slices.ContainsFunc(projects, may):
		return ""
	}
	return fmt.Sprintf("the role %s in project %s is needed, and %s is %s", role, strings.Join(projects, ", "), who.Name, who.Describe())
}

// projectsOfPackages are the projects whose packagers write the package repository in a folder
// below packages/: of each name that repositories.yaml has for it. One that no name stands for
// is the default project's.
func (s *Service) projectsOfPackages(folder string) ([]string, error) {
	settings, err := s.Repo.Settings()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Packages, folder)
	var projects []string
	for _, r := range settings.Repositories {
		at := strings.TrimPrefix(r.URL, "file://")
		if !filepath.IsAbs(at) {
			at = filepath.Join(s.Packages, filepath.FromSlash(at))
		}
		if samePlace(at, dir) {
			projects = append(projects, settings.ProjectOfRepository(r.Name).Name)
		}
	}
	if len(projects) == 0 {
		projects = append(projects, desired.DefaultProject)
	}
	slices.Sort(projects)
	return slices.Compact(projects), nil
}

// samePlace says whether both names are those of one folder.
func samePlace(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	of, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(of, other)
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
