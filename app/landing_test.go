package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// land pushes what a clone has to refs/for/main, as somebody, and returns what git says on one line.
func land(w *process.WorkTree, s *process.Server, who string, args ...string) (said string, err error) {
	out, err := process.Git(context.Background(), w.Dir(), append([]string{"push", "--porcelain", as(s, who, "desired.git"), "HEAD:refs/for/main"}, args...)...)
	return out + strings.NewReplacer("\nremote: ", " ", "remote: ", "", "\n", " ").Replace(fmt.Sprint(err)), err
}

// head is where main is.
func head(t *testing.T, s *process.Server) string {
	t.Helper()
	out, err := process.Git(t.Context(), s.Desired(), "rev-parse", "main")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAPersonsPushLandsWhateverJibeCommittedMeanwhile(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	s := withPushers(t)
	w := process.NewWorkTree(t, as(s, "ops", "desired.git"))
	const mine, other = "instances/east/amf/vnf.yaml", "instances/west/amf/vnf.yaml"
	w.Replace(mine, "name: amf-east\n", "name: amf-east # the blue one\n")
	w.Commit("Explain")
	first := w.Git("rev-parse", "HEAD")
	if said, err := land(w, s, "east"); err != nil || head(t, s) != first || !strings.Contains(said, "HEAD:refs/heads/main") {
		t.Errorf("fast-forward: %s", said)
	}
	if got := w.Git("push", "origin", "HEAD:refs/for/main"); w.Git("rev-parse", "HEAD") != head(t, s) {
		t.Errorf("what has landed landed again: %s", got)
	}
	// The API changes another instance, and the person doesn't pull.
	var web struct{ ID, VnfInstanceName string }
	var all []struct{ ID, VnfInstanceName string }
	if err := s.Get(t.Context(), process.Instances, &all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.VnfInstanceName == "amf-west" {
			web = one
		}
	}
	patch := func(name string) {
		t.Helper()
		s.Want(t, http.StatusAccepted, http.MethodPatch, process.Instances+"/"+web.ID, map[string]string{"vnfInstanceName": name}, nil, "Content-Type", "application/merge-patch+json")
		kit.Until(t, "the instance has its name", func() bool {
			text, err := process.Git(t.Context(), s.Desired(), "show", "main:"+other)
			return err == nil && strings.Contains(text, name)
		})
	}
	patch("amf-west-2")
	w.Replace(mine, "namespace: a", "namespace: east-a")
	w.Commit("Move the namespace")
	second, before := w.Git("rev-parse", "HEAD"), head(t, s)
	out, err := process.Git(t.Context(), w.Dir(), "-c", "color.ui=false", "push", "--porcelain", as(s, "east", "desired.git"), "HEAD:refs/for/main")
	landed := head(t, s)
	if parents, _ := process.Git(t.Context(), s.Desired(), "log", "-1", "--format=%P %cn", "main"); err != nil || parents != before+" "+second+" Jibe" {
		t.Fatalf("%s %v: main's commit is %s", out, err, parents)
	}
	// Who landed it is known as with any push.
	kit.Until(t, "the push is noted", func() bool {
		out, err := process.Git(t.Context(), s.Desired(), "notes", "--ref=jibe", "show", landed)
		return err == nil && strings.Contains(out, `pushed by "east"`)
	})
	for _, commit := range []string{second, landed} {
		if out, errs, code := s.CLI(t, "repository", "who", "--data", s.Data, commit); code != 0 || !strings.Contains(out, "pushed by east from 127.0.0.1") {
			t.Errorf("who %s: %s%s", commit, out, errs)
		}
	}
	text, err := os.ReadFile(app.AuditFile(s.Data))
	if err != nil || strings.Contains(string(text), "refs/for") {
		t.Errorf("the audit log has landings by their ref: %v\n%s", err, text)
	}
	for _, commit := range []string{first, landed} {
		if n := strings.Count(string(text), commit); n != 1 {
			t.Errorf("%s is %d times in the audit log:\n%s", commit, n, text)
		}
	}
	// The instance that the API has changed is a conflict, told with who did it.
	patch("amf-west-3")
	w.Replace(other, "flavour: simple", "flavour: simple # small")
	w.Commit("Explain another")
	before = head(t, s)
	if said, err := land(w, s, "ops"); err == nil || head(t, s) != before || !strings.Contains(said, other+": id, name: changed on main too, by root (") ||
		!strings.Contains(said, "git pull --rebase origin refs/heads/main") || !strings.Contains(said, "nothing was changed") {
		t.Errorf("a conflict: %s", said)
	}
	// Whoever forces an old branch on main is told of the other way.
	if out, err := process.Git(t.Context(), w.Dir(), "push", "--force", as(s, "ops", "desired.git"), "HEAD:main"); err == nil ||
		!strings.Contains(fmt.Sprint(out, err), "git push origin "+w.Git("rev-parse", "HEAD")+":refs/for/main") || head(t, s) != before {
		t.Errorf("a forced push: %s %v", out, err)
	}
}

func TestALandingIsHeldAgainstAllThatAPushIs(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s := withPushers(t)
	many := map[string]string{}
	for n := range 12 {
		many[fmt.Sprintf("instances/east/many/%d/vnf.yaml", n)] = fmt.Sprintf(notYet, fmt.Sprintf("many-%d", n))
	}
	p := newPushes(t, s, "desired.git")
	change(p.to, many)
	behind := p.to.Head()
	change(p.to, map[string]string{"README.md": "What came meanwhile.\n"})
	const amf = "instances/east/amf/vnf.yaml"
	scale := map[string]string{amf: fmt.Sprintf(notYet, "amf-2")}
	for name, c := range map[string]struct {
		files map[string]string // nil for a link
		who   string
		push  []string // after the URL in "git push"
		want  string
	}{
		"another branch":               {scale, "root", []string{"HEAD:refs/for/other"}, "nothing lands there: main is the branch that is obeyed"},
		"a branch below":               {scale, "root", []string{"HEAD:refs/for/main/x"}, "nothing lands there"},
		"together with main":           {scale, "root", []string{"--force", "HEAD:refs/for/main", "HEAD:refs/heads/main"}, "what is to land is pushed alone"},
		"together with a branch":       {scale, "root", []string{"HEAD:refs/heads/beside", "HEAD:refs/for/main"}, "what is to land is pushed alone"},
		"two landings":                 {scale, "root", []string{"HEAD:refs/for/main", "HEAD~1:refs/for/other"}, "what is to land is pushed alone"},
		"a tree":                       {scale, "root", []string{"HEAD^{tree}:refs/for/main"}, "only a commit can land, and this is a tree"},
		"by who may only read":         {scale, "read", []string{"HEAD:refs/for/main"}, "the role operator is needed"},
		"by an operator of elsewhere":  {scale, "west", []string{"HEAD:refs/for/main"}, "instances/east/amf: west may not push this: it needs the role operator in project east"},
		"what only an admin may":       {map[string]string{"vims/x.yaml": "type: sim\n"}, "ops", []string{"HEAD:refs/for/main"}, "vims/x.yaml: ops may not push this"},
		"an unknown key":               {map[string]string{amf: fmt.Sprintf(notYet, "amf-2") + "colour: red\n"}, "ops", []string{"HEAD:refs/for/main"}, "instances/east/amf/vnf.yaml:6: unknown key"},
		"a package that there isn't":   {map[string]string{amf: "vnfdId: no-such\nflavour: simple\nparams: {namespace: east-a}\n"}, "ops", []string{"HEAD:refs/for/main"}, "no-such"},
		"many terminations by mistake": {map[string]string{"instances/east/many": ""}, "ops", []string{"HEAD:refs/for/main"}, "git push -o terminate=12"},
		"a link":                       {nil, "ops", []string{"HEAD:refs/for/main"}, "instances/east/amf/link"},
	} {
		t.Run(name, func(t *testing.T) {
			commit := p.from.Commit(name, c.files, behind)
			if c.files == nil {
				commit = p.from.Link(name, "instances/east/amf/link", "/etc/passwd", behind)
			}
			refs := strings.Split(strings.ReplaceAll(strings.Join(c.push, " "), "HEAD", commit), " ")
			before := p.to.Head()
			said, err := p.push(c.who, refs...)
			if err == nil || !strings.Contains(said, c.want) {
				t.Errorf("%s, want %q", said, c.want)
			}
			if now := p.to.Head(); now != before {
				t.Errorf("main has moved from %s to %s", before, now)
			}
		})
	}
	meant := p.from.Commit("Many terminations, as meant", map[string]string{"instances/east/many": ""}, behind)
	before := p.to.Head()
	if said, err := p.push("ops", "-o", "terminate=12", meant+":refs/for/main"); err != nil || p.to.Head() == before {
		t.Errorf("many terminations, as meant: %s %v", said, err)
	}
	if refs, err := process.Git(t.Context(), s.Desired(), "for-each-ref", "refs/for", "refs/heads/beside"); err != nil || refs != "" {
		t.Errorf("refs are left: %s %v", refs, err)
	}
	// A deletion has no pack, and a blob no history: git's own words vary.
	for _, ref := range []string{":refs/for/main", p.from.ObjectAt(meant, "instances/east/README.md") + ":refs/for/main"} {
		before = p.to.Head()
		if said, err := p.push("root", ref); err == nil || p.to.Head() != before {
			t.Errorf("%s is taken: %s", ref, said)
		}
	}
	// Nobody lands by a made-up id, nor on a package repository.
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.Data, "hook.sock"))
	}}}
	body, _ := json.Marshal(map[string]string{"id": "made-up", "commit": behind})
	resp, err := client.Post("http://jibe"+admission.LandPath, "application/json", strings.NewReader(string(body)))
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("%v %v", resp, err)
	}
	pkgs := newPushes(t, s, "packages/packages.git")
	if said, err := pkgs.push("pack", pkgs.to.Head()+":refs/for/main"); err == nil || !strings.Contains(said, "neither a branch nor a tag") {
		t.Errorf("on a package repository: %s %v", said, err)
	}
}

func TestALandedCommitMustBeSignedByItsPusherWhereThatIsAskedFor(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	data, keys := pushData(t, pushTokens), t.TempDir()
	var trusted strings.Builder
	for _, name := range []string{"ops", "east"} {
		public := newKey(t, filepath.Join(keys, name))
		fmt.Fprintf(&trusted, "%s %s", name, public)
	}
	file := filepath.Join(keys, "trusted")
	if err := os.WriteFile(file, []byte(trusted.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, data, "--verify-desired", file, "--require-signed-push")
	s.AwaitPackages(t, process.SmallVnfd)
	w := process.NewWorkTree(t, s.Desired())
	n := 0
	commit := func(signer string) {
		n++
		w.Write(fmt.Sprintf("instances/a/%d/vnf.yaml", n), fmt.Sprintf(notYet, fmt.Sprintf("amf-%d", n)))
		w.Git("add", "-A")
		args := []string{"commit", "-q", "-m", "By " + signer}
		if signer != "" {
			args = append([]string{"-c", "gpg.format=ssh", "-c", "user.signingKey=" + filepath.Join(keys, signer)}, append(args, "-S")...)
		}
		w.Git(args...)
	}
	commit("ops")
	if said, err := land(w, s, "ops"); err != nil {
		t.Fatal(said)
	}
	base := head(t, s)
	for _, c := range []struct {
		pusher  string
		signers []string
		want    string
	}{
		{"ops", []string{"ops"}, ""}, // a merge, as the API has committed
		{"ops", []string{"ops", ""}, "the commit has no signature"},
		{"ops", []string{"east"}, "and pushed by ops: each commit must be signed by who pushes it"},
	} {
		s.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}, nil)
		w.Git("reset", "-q", "--hard", base)
		for _, signer := range c.signers {
			commit(signer)
		}
		before := head(t, s)
		said, err := land(w, s, c.pusher)
		if (err == nil) != (c.want == "") || !strings.Contains(said, c.want) || (head(t, s) == before) != (c.want != "") {
			t.Errorf("%q: %s", c.signers, said)
		}
	}
}

func TestLandingsSurviveTheServersDeathAndABusyAPI(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	people, landings, deaths := 4, 4, 3
	data := pushData(t, pushTokens)
	binary := process.Binary(t)
	serve := func() *process.Server {
		s, err := process.StartBinary(binary, data)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := serve()
	s.AwaitPackages(t, process.SmallVnfd)
	files := map[string]string{}
	for n := range people {
		files[fmt.Sprintf("instances/a/%d/vnf.yaml", n)] = fmt.Sprintf(notYet, fmt.Sprintf("amf-%d-0", n))
	}
	change(desiredOf(t, s), files)
	var clones []*process.WorkTree
	for range people {
		clones = append(clones, process.NewWorkTree(t, s.Desired()))
	}
	var mortal process.Mortal
	mortal.Serve(s)
	stop := make(chan struct{})
	var busy, landers sync.WaitGroup
	var created atomic.Int64
	busy.Go(func() { // an API that commits all the time
		for {
			now := mortal.Await(t.Context(), stop)
			if now == nil {
				return
			}
			select {
			case <-stop:
				return
			default:
			}
			if a, err := now.Do(t.Context(), http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}); err == nil && a.Status == http.StatusCreated {
				created.Add(1)
			}
		}
	})
	var landed atomic.Int64
	for n, w := range clones {
		landers.Go(func() {
			file := fmt.Sprintf("instances/a/%d/vnf.yaml", n)
			for i := range landings {
				if err := os.WriteFile(filepath.Join(w.Dir(), file), fmt.Appendf(nil, notYet, fmt.Sprintf("amf-%d-%d", n, i+1)), 0o644); err != nil {
					t.Error(err)
					return
				}
				if out, err := process.Git(t.Context(), w.Dir(), "commit", "-q", "-a", "-m", fmt.Sprintf("Rename %d to %d", n, i+1)); err != nil {
					t.Errorf("%s %v", out, err)
					return
				}
				for {
					now := mortal.Await(t.Context(), nil)
					if now == nil {
						return
					}
					said, err := land(w, now, "ops")
					if err == nil {
						landed.Add(1)
						break
					}
					if strings.Contains(said, "refuses this push") {
						t.Errorf("person %d: %s", n, said)
						return
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { landers.Wait(); close(done) }()
	for range deaths { // each after a landing more, and a moment that is never the same
		seen := landed.Load()
		kit.Until(t, "somebody lands", func() bool { return landed.Load() > seen || landed.Load() == int64(people*landings) })
		kit.Pause(t.Context(), rand.N(200*time.Millisecond))
		mortal.Take().KillGroup()
		s = serve()
		mortal.Serve(s)
	}
	<-done
	close(stop)
	busy.Wait()
	t.Cleanup(s.KillGroup)
	for n := range people {
		text, err := process.Git(t.Context(), s.Desired(), "show", fmt.Sprintf("main:instances/a/%d/vnf.yaml", n))
		if err != nil || !strings.Contains(text, fmt.Sprintf("name: amf-%d-%d\n", n, landings)) {
			t.Errorf("instance %d: %v\n%s", n, err, text)
		}
		// What landed as it is has a pusher of its own, what was merged that of its merge.
		commit, err := process.Git(t.Context(), s.Desired(), "log", "-1", "--format=%H", "--no-merges", fmt.Sprintf("--grep=Rename %d to %d", n, landings), "main")
		if err != nil || commit == "" {
			t.Errorf("the last commit of %d isn't there: %v", n, err)
			continue
		}
		kit.Until(t, "the landing is noted", func() bool {
			out, _, code := s.CLI(t, "repository", "who", "--data", s.Data, commit)
			return code == 0 && strings.Contains(out, "pushed by ops from 127.0.0.1")
		})
	}
	log, err := process.Git(t.Context(), s.Desired(), "log", "--no-merges", "--format=%s", "--grep=^Rename", "main")
	if got := strings.Count(log, "Rename"); err != nil || got != people*landings {
		t.Errorf("%d of %d landings are in the history: %v", got, people*landings, err)
	}
	made, err := process.Git(t.Context(), s.Desired(), "ls-tree", "-r", "--name-only", "main", "instances/")
	if got := int64(strings.Count(made, "/vnf.yaml") - people); err != nil || got < created.Load() || created.Load() == 0 {
		t.Errorf("%d of %d instances are there that the API created: %v", got, created.Load(), err)
	}
	if err := process.Fsck(t.Context(), s.Desired()); err != nil {
		t.Error(err)
	}
}

func TestAScaleLandsOverThePinThatJibeMadeMeanwhile(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s := process.Start(t, pushData(t, pushTokens))
	s.AwaitPackages(t, process.SmallVnfd)
	w := process.NewWorkTree(t, s.Desired())
	w.WriteFiles(map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n",
		"instances/a/web/vnf.yaml": "name: web # of site A\nvnfdId: " + process.SmallVnfd + "\nflavour: simple\nlevels: {front: 0}\nparams: {namespace: a}\n"})
	w.Commit("Run it")
	w.Git("push", "-q", "origin", "HEAD:main")
	file := func() string {
		text, err := process.Git(t.Context(), s.Desired(), "show", "main:instances/a/web/vnf.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	kit.Until(t, "Jibe pins the package", func() bool { return strings.Contains(file(), "package: ") && strings.Contains(file(), "id: ") })
	completed := func(typ string) {
		t.Helper()
		kit.Until(t, typ+" is completed", func() bool {
			ops, err := process.All[process.Operation](t.Context(), s, process.Operations)
			if err != nil {
				return false
			}
			for _, op := range ops {
				if op.Type == typ && op.State == "COMPLETED" {
					return true
				}
			}
			return false
		})
	}
	completed("INSTANTIATE")
	pinned := file()
	w.Replace("instances/a/web/vnf.yaml", "front: 0}", "front: 1} # for the fair")
	w.Commit("More front ends")
	w.Git("push", "-q", "origin", "HEAD:refs/for/main")
	if got, want := file(), strings.Replace(pinned, "front: 0}", "front: 1} # for the fair", 1); got != want {
		t.Errorf("merged to\n%s\nwant\n%s", got, want)
	}
	completed("SCALE")
	w.Git("rm", "-q", "-r", "instances/a/web")
	w.Commit("Close the site") // from a clone that has neither the pin nor the merge
	w.Git("push", "-q", "origin", "HEAD:refs/for/main")
	completed("TERMINATE")
}
