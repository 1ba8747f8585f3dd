package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// store looks at the file of the store.
func (t *Target) store(ctx context.Context) Finding {
	if t.Redis != nil {
		return t.redis(ctx)
	}
	f, err := t.Store(ctx)
	if err != nil {
		return found(Failed, "Restore a backup; what runs is in git, and isn't lost.", "%v", err)
	}
	text := fmt.Sprintf("%d KiB, %d%% of them free", f.Size>>10, 100*f.Free/max(1, f.Size))
	if f.Records > 0 {
		text += fmt.Sprintf(", %d records", f.Records)
	}
	if f.Crashed {
		text += "; it wasn't closed in order, and the next start finds its free pages"
	}
	if left := leftover(t.Data); t.Health == nil && len(left) > 0 {
		return found(Warning, "Nothing: the next start, or backup, removes them.", "%s; interrupted work left %s", text, strings.Join(left, ", "))
	}
	return ok("%s", text)
}

// git looks at the git that Jibe runs.
func (t *Target) git(ctx context.Context) Finding {
	if err := gitrepo.CheckGit(ctx); err != nil {
		return found(Failed, "Install git 2.36 or newer.", "%v", err)
	}
	version, err := git.Runner{}.Run(ctx, "version")
	if err != nil {
		return found(Failed, "Install git 2.36 or newer.", "%v", err)
	}
	programs, err := git.Runner{}.Run(ctx, "--exec-path")
	if err == nil && !datadir.Exists(filepath.Join(strings.TrimSpace(programs), "git-http-backend")) {
		return found(Warning, "Install all of git: some systems have git-http-backend in a package of its own.", "%s has no http-backend, so that repositories can't be cloned and pushed over HTTP", strings.TrimSpace(version))
	}
	if why := gitUnfixed(version); why != "" && !gitBackported("/", strings.TrimSpace(programs)) {
		return found(Warning, "Install a release with the fixes, 2.50.1 or newer at best (on Debian and Ubuntu: apt upgrade git). A distribution's package may have them under an older number; then its changelog names "+gitProof+", and nothing is to be done.", "%s", why)
	}
	return ok("%s", strings.TrimSpace(version))
}

// desired looks at the desired repository.
func (t *Target) desired(ctx context.Context) Finding {
	dir := t.path("desired.git")
	branch := t.Branch
	if branch == "" {
		branch = "main"
	}
	head, err := git.ReadRef(dir, "refs/heads/"+branch)
	switch {
	case err != nil:
		return found(Failed, "Put the repository back from a backup or a clone.", "%v", err)
	case head == "" && datadir.Exists(filepath.Join(dir, "jibe", "born")):
		return found(Failed, fmt.Sprintf("Set the branch again (git -C %[1]s update-ref refs/heads/%[2]s <commit>; git -C %[1]s fsck --lost-found --no-reflogs names candidates), or name the right one with --branch.", dir, branch), "branch %s is gone from %s", branch, dir)
	case head == "":
		return found(Warning, "Push a first commit.", "branch %s has no commit yet", branch)
	}
	if f := t.connected(ctx, dir); f.State != OK {
		return f
	}
	return ok("branch %s is at %.12s, and all that refs lead to is there", branch, head)
}

// A server that works meanwhile adds commits and notes, and puts packs in the place of others: what git misses
// is missing only where it is so again. lookAgain is the pause until then, looks how often it is looked.
const (
	lookAgain = time.Second
	looks     = 3
)

// connected looks whether all is there that the refs of a repository lead to.
func (t *Target) connected(ctx context.Context, dir string) Finding {
	err := walk(ctx, dir)
	through := ctx.Err() == nil
	for n := 1; n < looks && err != nil && ctx.Err() == nil; n++ {
		select {
		case <-time.After(lookAgain):
			if again := walk(ctx, dir); ctx.Err() == nil {
				err = again
			}
		case <-ctx.Done():
		}
	}
	switch {
	case err == nil:
		return ok("all that its refs lead to is there")
	case !through:
		return skipped("the repository is large: it couldn't be looked through in the time of a check (git -C %s fsck --connectivity-only does)", dir)
	}
	return found(Failed, "Put the repository back from a backup or a clone.", "%s isn't whole: %v", dir, err)
}

// refNames looks at the names of branches and tags, in the desired repository and in those of packages.
func (t *Target) refNames(ctx context.Context, packages []string) Finding {
	branch := t.Branch
	if branch == "" {
		branch = "main"
	}
	found := misleading(ctx, t.path("desired.git"), branch)
	for _, dir := range packages {
		if found.State == OK {
			found = misleading(ctx, dir, "")
		}
	}
	return found
}

// misleading looks for branches and tags that an earlier version took, and whose names git takes for something else.
// Without a branch, the repository's HEAD names it.
func misleading(ctx context.Context, dir, branch string) Finding {
	if branch == "" {
		if name, err := (git.Runner{Dir: dir}).Run(ctx, "symbolic-ref", "--quiet", "HEAD"); err == nil {
			branch = strings.TrimPrefix(strings.TrimSpace(name), "refs/heads/")
		}
	}
	out, err := git.Runner{Dir: dir}.Run(ctx, "for-each-ref", "--format=%(refname)", "refs/heads/", "refs/tags/")
	if err != nil {
		return found(Failed, "Put the repository back from a backup or a clone.", "the refs of %s can't be listed: %v", dir, err)
	}
	for ref := range strings.FieldsSeq(out) {
		if why := check.MisleadingRef(ref, branch); why != "" {
			return found(Failed, fmt.Sprintf("Look who brought it. What still needs its commit (a package's version) gets another tag first; then remove it: git -C %s update-ref -d %s", dir, ref),
				"%s misleads who has fetched it: %s", ref, why)
		}
	}
	return ok("no ref misleads")
}

// walk follows the refs of a repository, and returns what git misses.
func walk(ctx context.Context, dir string) error {
	if _, err := (git.Runner{Dir: dir}).Run(ctx, "rev-list", "--all", "--objects", "--quiet", "--max-count=1000"); err != nil {
		return err
	}
	_, err := git.Runner{Dir: dir}.Run(ctx, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
	return err
}

// hook looks whether a push to a local repository is held against the rules.
func (t *Target) hook(dir string) Finding {
	socket, err := filepath.Abs(t.path(datadir.SocketFile))
	if err != nil {
		return skipped("%v", err)
	}
	if why := gitrepo.HookState(dir, socket); why != "" {
		if t.Health == nil {
			return found(Warning, "Start the server: it writes the hook anew.", "%s: %s", dir, why)
		}
		return found(Failed, "Restart the server: it writes the hook anew.", "%s: %s", dir, why)
	}
	return ok("pushes to %s are held against the rules", filepath.Base(dir))
}

// token looks at the token by which the forge is told what becomes of commits and pull requests.
func (t *Target) token(ctx context.Context) Finding {
	err := t.Token(ctx)
	switch {
	case err == nil:
		return ok("the forge takes it, and its user may write to the repository")
	case errors.Is(err, forge.ErrDenied), errors.Is(err, forge.ErrNotFound):
		return found(Failed, "Give --forge-token a token that holds, of a user who may write to the repository; its scopes are in the guide, Use your forge. Until then no commit gets a status and no pull request its comment.", "%v", err)
	}
	return found(Warning, "See whether the forge's API is reached from here. What it is to be told waits, and is said then.", "%v", err)
}

// remote looks whether git reaches a repository elsewhere, and how its clock goes.
func (t *Target) remote(ctx context.Context, at string) Finding {
	where := hostOf(at)
	if _, err := (git.Runner{}).Run(ctx, "ls-remote", "--heads", "--", at); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return found(Failed, "See whether the host is reached from here, and its credentials hold; meanwhile the last commit that was fetched counts.", "git can't read %s: %v", where, err)
	}
	if u, err := url.Parse(at); err == nil && strings.HasPrefix(u.Scheme, "http") {
		if f := t.forgeClock(ctx, &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}); f.State != OK {
			return f
		}
	}
	return ok("git reads %s", where)
}

// hostOf is the host of a URL or of git's short form; nothing else of it is shown, as credentials
// may stand there.
func hostOf(at string) string {
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		return u.Host
	}
	host, _, _ := strings.Cut(at, ":")
	if i := strings.LastIndex(host, "@"); i >= 0 {
		host = host[i+1:]
	}
	return host
}

// forgeClock compares this machine's clock with a server's, whatever it answers.
func (t *Target) forgeClock(ctx context.Context, u *url.URL) Finding {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.String(), nil)
	if err != nil {
		return ok("")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	asked := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return ok("") // git reaches it, maybe by a proxy or with an authority of its own
	}
	defer resp.Body.Close()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return ok("")
	}
	return clock(u.Host, date.Sub(asked.Add(time.Since(asked)/2).Truncate(time.Second)))
}

// What clocks may differ: tokens and certificates fail at minutes.
const (
	skewWarning = 5 * time.Second
	skewFailed  = 2 * time.Minute
)

// clock is what a difference of clocks means.
func clock(whose string, skew time.Duration) Finding {
	ahead := fmt.Sprintf("the clock of %s is %s ahead of this machine's", whose, skew.Round(time.Second))
	if skew < 0 {
		ahead = fmt.Sprintf("the clock of %s is %s behind this machine's", whose, (-skew).Round(time.Second))
	}
	const do = "Have both follow a time server."
	switch {
	case skew.Abs() >= skewFailed:
		return found(Failed, do, "%s: tokens and certificates are refused", ahead)
	case skew.Abs() >= skewWarning:
		return found(Warning, do, "%s", ahead)
	}
	return ok("")
}

// vim looks at a VIM. as is an account as which a project writes there, "" where none does.
func (t *Target) vim(ctx context.Context, v *desired.VIM, settings *desired.Settings) Finding {
	if t.VIM == nil || v.Type == desired.VIMSim {
		return skipped("%s: nothing to reach", v.Type)
	}
	s, err := t.VIM(ctx, v)
	if err != nil {
		var refused *drivers.RefusedError
		if errors.As(err, &refused) {
			return found(Failed, "Put "+desired.VIMFile(v.Name)+" right.", "%v", err)
		}
		if errors.Is(err, os.ErrNotExist) {
			return found(Failed, "Put the file there that "+desired.VIMFile(v.Name)+" refers to.", "%v", err)
		}
		return found(Failed, "See whether it is reached from here, and whether "+desired.VIMFile(v.Name)+" has its address, authority and credentials.", "%v", err)
	}
	if s.Timed {
		if f := clock(v.Name, s.Skew); f.State != OK {
			return f
		}
	}
	if !s.Expires.IsZero() {
		if f := t.expiry("its certificate", s.Expires); f.State != OK {
			return f
		}
	}
	if len(s.Unlisted) > 0 {
		return found(Failed, "Let the API server list the kind again (the webhook that converts it, the right to list and watch it): instances that have such objects aren't looked after until then.",
			"%s; it can't list %s", s.Version, strings.Join(s.Unlisted, "; "))
	}
	if projects := exposedTo(settings, v, s.Account); len(projects) > 0 {
		return found(Warning, "Log in as an account whose namespace no project has: pods can run as any account of their namespace.",
			"%s; the credentials are those of service account %s, and packages of %s may make pods in its namespace", s.Version, s.Account, strings.Join(projects, ", "))
	}
	as := accountAt(settings, v.Name)
	text, lacking := strings.Join(append([]string{s.Version}, s.Notes...), "; "), s.Lacking
	switch {
	case len(s.Unwritten) == 0:
	case as != "":
		text += "; projects write as accounts of their own (" + as + " …), and it lacks itself " + strings.Join(s.Unwritten, "; ")
	default:
		lacking = slices.Concat(lacking, s.Unwritten)
	}
	if len(lacking) > 0 {
		return found(Warning, "Give the credentials what packages need of it.", "%s; it lacks %s", text, strings.Join(lacking, "; "))
	}
	return ok("%s; the credentials may do what packages usually need", text)
}
