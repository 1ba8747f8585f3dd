// Package transports measures ways in which a mirror and its remote can exchange commits. It is a module of its own: the
// library that it measures beside git brings others, which Jibe itself doesn't need.
package transports

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// exchange is a mirror and its remote, which git http-backend serves.
type exchange struct {
	b              *testing.B
	remote, mirror string
	url            string
	goGit          *gogit.Remote
	n              int
}

func newExchange(b *testing.B, instances int) *exchange {
	b.Helper()
	dir := b.TempDir()
	x := &exchange{b: b, remote: filepath.Join(dir, "remote.git"), mirror: filepath.Join(dir, "mirror.git")}
	run(b, dir, "init", "--quiet", "--bare", "--initial-branch=main", x.remote)
	run(b, x.remote, "config", "http.receivepack", "true")
	run(b, x.remote, "config", "fastimport.unpackLimit", "1000")
	x.fill(instances)
	run(b, dir, "clone", "--quiet", "--mirror", x.remote, x.mirror)
	run(b, x.mirror, "config", "fastimport.unpackLimit", "1000")
	core := strings.TrimSpace(run(b, dir, "--exec-path"))
	server := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(core, "git-http-backend"), Dir: dir, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=person"},
	})
	b.Cleanup(server.Close)
	x.url = server.URL + "/remote.git"
	repo, err := gogit.PlainOpen(x.mirror)
	x.must(err)
	x.goGit = gogit.NewRemote(repo.Storer, &config.RemoteConfig{Name: "origin", URLs: []string{x.url}})
	return x
}

// commit changes one instance in a repository, as a person does in the remote and Jibe in the mirror. It returns the
// commits before and after, and the objects that came.
func (x *exchange) commit(dir string) (before, after plumbing.Hash, objects []plumbing.Hash) {
	x.b.Helper()
	x.n++
	changed := folder(0)
	before = plumbing.NewHash(strings.TrimSpace(run(x.b, dir, "rev-parse", "refs/heads/main")))
	data := file(0, 1+x.n%9, x.n)
	in := fmt.Sprintf("commit refs/heads/main\ncommitter A Person <person@example.com> %d +0000\ndata 3\none\nfrom refs/heads/main^0\nM 100644 inline %s/vnf.yaml\ndata %d\n%s\n",
		1767323046+x.n, changed, len(data), data)
	x.fastImport(dir, strings.NewReader(in))
	after = plumbing.NewHash(strings.TrimSpace(run(x.b, dir, "rev-parse", "refs/heads/main")))
	for line := range strings.Lines(run(x.b, dir, "rev-list", "--objects", after.String(), "^"+before.String())) {
		hash, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		objects = append(objects, plumbing.NewHash(hash))
	}
	return before, after, objects
}

func (x *exchange) must(err error) {
	x.b.Helper()
	if err != nil {
		x.b.Fatal(err)
	}
}

// BenchmarkExchange measures what goes between a mirror and its remote for one commit: by a child process of git, as Jibe
// does it; by go-git as its users call it; and for pushes by go-git's transport with a pack of the objects that are known
// to be new.
func BenchmarkExchange(b *testing.B) {
	ways := []struct {
		name string
		// from is where the commit is made, and to where it has to come.
		from, to func(*exchange) string
		exchange func(x *exchange, before, after plumbing.Hash, objects []plumbing.Hash) error
	}{
		{"fetch/git", (*exchange).theirs, (*exchange).ours, func(x *exchange, _, _ plumbing.Hash, _ []plumbing.Hash) error {
			run(x.b, x.mirror, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--", x.url, "+refs/heads/main:refs/heads/main")
			return nil
		}},
		{"fetch/go-git", (*exchange).theirs, (*exchange).ours, func(x *exchange, _, _ plumbing.Hash, _ []plumbing.Hash) error {
			return x.goGit.FetchContext(x.b.Context(), &gogit.FetchOptions{RefSpecs: []config.RefSpec{"+refs/heads/main:refs/heads/main"}, Tags: gogit.NoTags, Force: true})
		}},
		{"push/git", (*exchange).ours, (*exchange).theirs, func(x *exchange, before, after plumbing.Hash, _ []plumbing.Hash) error {
			run(x.b, x.mirror, "push", "--quiet", "--porcelain", "--no-verify", "--force-with-lease=refs/heads/main:"+before.String(), "--", x.url, after.String()+":refs/heads/main")
			return nil
		}},
		{"push/go-git", (*exchange).ours, (*exchange).theirs, func(x *exchange, before, _ plumbing.Hash, _ []plumbing.Hash) error {
			return x.goGit.PushContext(x.b.Context(), &gogit.PushOptions{RemoteName: "origin", RefSpecs: []config.RefSpec{"refs/heads/main:refs/heads/main"},
				RequireRemoteRefs: []config.RefSpec{config.RefSpec(before.String() + ":refs/heads/main")}})
		}},
		{"push/go-git-own-pack", (*exchange).ours, (*exchange).theirs, (*exchange).ownPack},
	}
	for _, instances := range []int{100, 100_000} {
		for _, way := range ways {
			b.Run(fmt.Sprintf("%s/instances=%d", way.name, instances), func(b *testing.B) {
				x := newExchange(b, instances)
				for b.Loop() {
					b.StopTimer()
					before, after, objects := x.commit(way.from(x))
					b.StartTimer()
					x.must(way.exchange(x, before, after, objects))
					b.StopTimer()
					x.is(way.to(x), after)
					b.StartTimer()
				}
			})
		}
	}
}

func (x *exchange) ours() string   { return x.mirror }
func (x *exchange) theirs() string { return x.remote }

// ownPack pushes a pack of the objects, from one commit to another or not at all.
func (x *exchange) ownPack(before, after plumbing.Hash, objects []plumbing.Hash) error {
	endpoint, err := transport.NewEndpoint(x.url)
	if err != nil {
		return err
	}
	repo, err := gogit.PlainOpen(x.mirror)
	if err != nil {
		return err
	}
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, repo.Storer, false).Encode(objects, 0); err != nil {
		return err
	}
	session, err := githttp.DefaultClient.NewReceivePackSession(endpoint, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	refs, err := session.AdvertisedReferencesContext(x.b.Context())
	if err != nil {
		return err
	}
	request := packp.NewReferenceUpdateRequestFromCapabilities(refs.Capabilities)
	request.Commands = []*packp.Command{{Name: "refs/heads/main", Old: before, New: after}}
	request.Packfile = io.NopCloser(&pack)
	report, err := session.ReceivePack(x.b.Context(), request)
	if err != nil {
		return err
	}
	return report.Error()
}

// is makes sure that the exchange has moved the branch.
func (x *exchange) is(dir string, want plumbing.Hash) {
	x.b.Helper()
	if got := strings.TrimSpace(run(x.b, dir, "rev-parse", "refs/heads/main")); got != want.String() {
		x.b.Fatalf("%s is at %s, want %s", dir, got, want)
	}
}

// fill makes the remote's first commit.
func (x *exchange) fill(instances int) {
	x.b.Helper()
	var in bytes.Buffer
	in.WriteString("commit refs/heads/main\ncommitter A Person <person@example.com> 1767323046 +0000\ndata 4\nmany\n")
	for i := range instances {
		data := file(i, 1, 0)
		fmt.Fprintf(&in, "M 100644 inline %s/vnf.yaml\ndata %d\n%s\n", folder(i), len(data), data)
	}
	x.fastImport(x.remote, &in)
}

func (x *exchange) fastImport(dir string, in io.Reader) {
	x.b.Helper()
	cmd := exec.Command("git", "--git-dir="+dir, "fast-import", "--quiet")
	cmd.Stdin = in
	if out, err := cmd.CombinedOutput(); err != nil {
		x.b.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

// id is that of an instance, and folder where the API would put it: 256 folders, and one for each instance in those.
func id(i int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(i)))
	return fmt.Sprintf("%x-%x-4%x-8%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func folder(i int) string { return "instances/" + id(i)[:2] + "/" + id(i) }

func file(i, level, change int) string {
	return fmt.Sprintf("id: %s\nname: vnf\nvnfdId: b1bb0ce7-ebca-4fa7-95ed-4840d70a1177\nflavour: simple\nlevels: {web: %d}\n# %d\n", id(i), level, change)
}

// run runs git in a folder and returns what it prints.
func run(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", append([]string{"-C", dir}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}
