package gitrepo

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAnOverrideCountsOnlyByAnAdministratorsPush(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	level := 2
	push := func(admin bool, message string) read.Push {
		t.Helper()
		runGit(t, dir, "pull", "-q", "--ff-only", "origin", "main")
		old := tipOf(t, dir)
		level++
		put(t, dir, shardDir(testID(1))+"/vnf.yaml", vnfFile(testID(1), level))
		runGit(t, dir, "add", "-A")
		runGit(t, dir, "commit", "-q", "-m", message)
		p := read.Push{Pusher: "ann", From: "192.0.2.7", Admin: admin, Old: old, New: tipOf(t, dir)}
		if err := r.Pushing(p); err != nil {
			t.Fatal(err)
		}
		runGit(t, dir, "push", "-q", "origin", "HEAD:main")
		return p
	}
	want := func(r *Repo, reason, by string) {
		t.Helper()
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		rev, _ := r.Lookup(testID(1))
		if got, who, err := r.Override(t.Context(), rev); err != nil || got != reason || who != by {
			t.Errorf("the override is %q by %q (%v), want %q by %q", got, who, err, reason, by)
		}
	}
	for _, c := range []struct {
		admin           bool
		message, reason string
	}{
		{false, "By an operator\n\nOverride: I write this myself", ""},
		{true, "By an administrator\n\nOverride: emergency calls\n fail", "emergency calls fail"},
		{true, "By an administrator, who says nothing", ""},
		{true, "Override: this is the subject, and no trailer", ""},
	} {
		p := push(c.admin, c.message)
		by := ""
		if c.reason != "" {
			by = "ann"
		}
		want(r, c.reason, by)
		kit.Until(t, "the push is noted", func() bool {
			got, err := r.notedPush(t.Context(), p.New)
			return err == nil && got != nil && got.Admin == c.admin
		})
		again := openRepo(t, Options{Dir: r.opt.Dir, Key: testKey}) // which knows the notes alone
		want(again, c.reason, by)
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rev, _ := r.Lookup(testID(1))
	if _, err := r.Write(t.Context(), desired.Write{Instance: testID(1), Dir: rev.Dir, Subject: "Own", Trailers: []desired.Trailer{{Key: desired.TrailerOverride, Value: "asked for"}},
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: vnfFile(testID(1), level+1)}, nil
		}}); err != nil {
		t.Fatal(err)
	}
	want(r, "asked for", "")
	want(openRepo(t, Options{Dir: r.opt.Dir}), "", "") // nobody can tell Jibe's own commits without the key
}

func TestAPushIsHeldAgainstTheFilesWithWindowsThatItBrings(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	old := tipOf(t, dir)
	for name, c := range map[string]struct{ text, says string }{
		"maintenance.yaml":                        {"binds: [SCALE]\n", ""},
		"instances/maintenance.yaml":              {"windows:\n- {cron: \"0 1 * * *\", lasts: 4h}\n", ""},
		"instances/new/maintenance.yaml":          {"windows:\n- {cron: \"0 1 * *\", lasts: 4h}\n", "instances/new/maintenance.yaml:2: "},
		"instances/new/maintenance.yml":           {"", "is never read under this name"},
		"instances/Maintenance.yaml":              {"", "is never read under this name"},
		"vims/maintenance.yaml":                   {"type: sim\n", "rules nothing"},
		shardDir(testID(1)) + "/maintenance.yaml": {"", "own directory"},
	} {
		runGit(t, dir, "reset", "-q", "--hard", old)
		put(t, dir, name, []byte(c.text))
		runGit(t, dir, "add", "-A")
		runGit(t, dir, "commit", "-q", "-m", "Change")
		local := read.New(git.Runner{Dir: filepath.Join(dir, ".git")}, "main", 1<<20)
		problems, err := check.New(local).CheckPush(t.Context(), []check.RefUpdate{{Ref: "refs/heads/main", Old: old, New: tipOf(t, dir)}}, check.PushPolicy{})
		local.Close()
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, p := range problems {
			said += p.Error() + "\n"
		}
		if c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%s: %q; want %q", name, said, c.says)
		}
	}
}
