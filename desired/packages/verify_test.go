package packages

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// keygen makes an SSH key and returns its line of allowed signers.
func (l *lab) keygen(name string) string {
	l.Helper()
	file := filepath.Join(l.dir, name)
	l.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file)
	data, err := os.ReadFile(file + ".pub")
	if err != nil {
		l.Fatal(err)
	}
	return name + " " + strings.TrimSpace(string(data)) + "\n"
}

// by are git's options to sign with the key.
func (l *lab) by(name string, args ...string) []string {
	return append([]string{"-c", "gpg.format=ssh", "-c", "user.signingKey=" + filepath.Join(l.dir, name)}, args...)
}

// publish commits version of the package amf, and tags it as signed says: "tag", "commit", both
// or neither.
func (l *lab) publish(dir, id, version, key string, signed ...string) (tree string) {
	l.Helper()
	l.put(dir, id, version)
	l.git(dir, "add", "-A")
	commit, tag := []string{"commit", "-q", "--allow-empty", "-m", "Release " + version}, []string{"tag", "-m", version, "v" + version}
	if slices.Contains(signed, "commit") {
		commit = append(commit, "-S")
	}
	if slices.Contains(signed, "tag") {
		tag = append(tag, "-s")
	}
	l.git(dir, l.by(key, commit...)...)
	l.git(dir, l.by(key, tag...)...)
	return l.git(dir, "rev-parse", "HEAD:")
}

func TestOnlyVersionsThatAreSignedAsDemandedAreOffered(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	vendor, stranger := l.keygen("vendor"), l.keygen("stranger")
	dir := l.upstream("amf")
	good := l.publish(dir, "amf", "1.0.0", "vendor", "tag")
	byCommit := l.publish(dir, "amf", "1.1.0", "vendor", "commit")
	unsigned := l.publish(dir, "amf", "1.2.0", "vendor")
	foreign := l.publish(dir, "amf", "1.3.0", "stranger", "tag", "commit")
	l.git(dir, "tag", "v9.0.0", "v1.0.0") // the signed tag of 1.0.0, under another name
	l.git(dir, "checkout", "-q", "--orphan", "other")
	l.git(dir, l.by("vendor", "commit", "-q", "--allow-empty", "-S", "-m", "another")...)
	repo := desired.Repository{Name: "amf", URL: "amf", Tags: "v*", Hooks: true}

	l.sync(repo) // without verify:, all count
	if e := l.find("amf"); e.Tree != good || e.Ref != "v9.0.0" {
		t.Errorf("%+v", e)
	}
	if err := l.c.Verify(t.Context(), unsigned); err != nil {
		t.Error(err)
	}

	repo.Verify = desired.Verification{Signers: vendor}
	l.sync(repo)
	if e := l.find("amf"); e.Tree != byCommit || e.Version != "1.1.0" {
		t.Errorf("the newest that is signed is %+v", e)
	}
	for _, tree := range []string{unsigned, foreign} {
		if err := l.c.Verify(t.Context(), tree); !errors.Is(err, ErrUnverified) {
			t.Errorf("%s: %v", tree, err)
		}
		if l.c.Hooks(tree) || len(l.c.RepositoriesOf(tree)) > 0 {
			t.Errorf("hooks of %s may run", tree)
		}
		if _, err := l.c.FindTree(tree); err == nil {
			t.Errorf("%s is offered", tree)
		}
	}
	if !l.c.Hooks(good) || l.c.Verify(t.Context(), good) != nil {
		t.Error("the signed one may not run")
	}
	shown := map[string]string{}
	for _, p := range l.c.Problems() {
		if p.VnfdID != "amf" || !errors.Is(p, ErrUnverified) {
			t.Errorf("%+v", p)
		}
		shown[p.Ref] = p.Error()
	}
	for ref, want := range map[string]string{"v1.2.0": "the commit has no signature", "v1.3.0": "isn't one of those that are trusted", "v9.0.0": `under the name "v1.0.0" and stands under "v9.0.0"`} {
		if !strings.Contains(shown[ref], want) {
			t.Errorf("%s is shown as %q", ref, shown[ref])
		}
	}
	if len(shown) != 3 {
		t.Errorf("shown %v", shown)
	}

	repo.Verify.Tags = true
	l.sync(repo)
	if e := l.find("amf"); e.Tree != good || e.Ref != "v1.0.0" {
		t.Errorf("where the tag must be signed: %+v", e)
	}

	// Keys that are taken away count no more, also for what was chosen already.
	repo.Verify = desired.Verification{Signers: stranger}
	l.sync(repo)
	if e := l.find("amf"); e.Tree != foreign {
		t.Errorf("%+v", e)
	}
	if err := l.c.Verify(t.Context(), good); !errors.Is(err, ErrUnverified) {
		t.Errorf("the key was taken away: %v", err)
	}
	// The name of a tag is taken for another commit, without a signature of its own.
	l.git(dir, "tag", "-f", "v1.3.0", "v1.2.0^{commit}")
	l.sync(repo)
	if e, err := l.c.Find("amf"); !errors.Is(err, ErrUnverified) || !strings.Contains(err.Error(), "sign its version") {
		t.Errorf("%+v %v", e, err)
	}
	if o, err := l.c.Onboard(DerivedID("amf")); err != nil || o.Entry == nil || !errors.Is(o.Problem, ErrUnverified) {
		t.Errorf("the API shows %+v (%v)", o, err)
	}
	// What could be used a moment ago may still begin to run.
	if err := l.c.Verify(t.Context(), foreign); err != nil {
		t.Errorf("upstream has moved on: %v", err)
	}
}

func TestTheHostsKeysCountWhateverACommitSays(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	vendor, stranger := l.keygen("vendor"), l.keygen("stranger")
	dir := l.upstream("amf")
	tree := l.publish(dir, "amf", "1.0.0", "stranger", "tag", "commit")
	file := filepath.Join(l.dir, "keys")
	l.write(file, "# keys of the vendor\n"+vendor)
	for _, name := range []string{"amf", "*"} {
		host, err := LoadHostVerification(map[string]string{name: file})
		if err != nil {
			t.Fatal(err)
		}
		for what, v := range map[string]desired.Verification{"none": {}, "the stranger's": {Signers: stranger}} {
			l.c = l.catalogue()
			l.c.SetHostVerification(host)
			repo := desired.Repository{Name: "amf", URL: "amf", Tags: "v*", Verify: v}
			l.sync(repo)
			if e, err := l.c.Find("amf"); !errors.Is(err, ErrUnverified) {
				t.Errorf("%s, where a commit demands %s: %v %v", name, what, e, err)
			}
			p, err := l.c.Propose(t.Context(), []desired.Repository{{Name: "amf", URL: dir, Tags: "v*", Verify: v}})
			if err != nil {
				t.Fatal(err)
			}
			if e, err := p.Find("amf"); !errors.Is(err, ErrUnverified) {
				t.Errorf("%s, proposed with %s: %v %v", name, what, e, err)
			}
		}
	}
	l.write(file, stranger) // read again at the next fetch
	repo := desired.Repository{Name: "amf", URL: "amf", Tags: "v*"}
	l.sync(repo)
	if e := l.find("amf"); e.Tree != tree {
		t.Errorf("%+v", e)
	}
	l.write(file, "half of a")
	l.sync(repo)
	if e := l.find("amf"); e.Tree != tree {
		t.Errorf("a file that can't be read counts as it did: %+v", e)
	}
	for name, text := range map[string]string{"": "", "half": "-----BEGIN CERTIFICATE-----\nAAAA", "bad": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		l.write(file, text)
		if _, err := LoadHostVerification(map[string]string{"amf": file}); err == nil {
			t.Errorf("keys are read from %q", name)
		}
	}
}

func TestATreeThatIsMerelyInTheStoreIsNoPackage(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	dir := l.upstream("amf")
	tree := l.publish(dir, "amf", "1.0.0", "", "")
	// A push of instances brings objects too.
	l.git(dir, "push", "-q", filepath.Join(l.dir, "desired.git"), "HEAD:refs/heads/side")
	if err := l.c.Verify(t.Context(), tree); !errors.Is(err, ErrUnverified) {
		t.Errorf("what nobody offers: %v", err)
	}
	l.sync(desired.Repository{Name: "amf", URL: "amf", Tags: "v*"})
	if err := l.c.Verify(t.Context(), tree); err != nil {
		t.Errorf("what a repository has: %v", err)
	}
	if err := l.c.Pin(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	l.c = l.catalogue()
	if err := l.c.Verify(t.Context(), tree); err != nil {
		t.Errorf("what ran here: %v", err)
	}
	vendor := l.keygen("vendor")
	l.upstream("other")
	if err := l.c.Load(t.Context(), []desired.Repository{{Name: "other", URL: "other", Tags: "v*", Verify: desired.Verification{Signers: vendor}}}); err != nil {
		t.Fatal(err)
	}
	if err := l.c.Verify(t.Context(), tree); !errors.Is(err, ErrUnverified) {
		t.Errorf("what ran here, where packages must be signed: %v", err)
	}
}

func TestNothingIsFetchedUnprotectedThatIsntSigned(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	vendor := l.keygen("vendor")
	// Nobody has that address (RFC 5737), and nothing is sent there.
	for what, r := range map[string]desired.Repository{
		"git:// without keys":  {URL: "git://192.0.2.1/amf"},
		"http:// without keys": {URL: "http://192.0.2.1/amf"},
		"git:// with hooks":    {URL: "git://192.0.2.1/amf", Hooks: true, Verify: desired.Verification{Signers: vendor}},
	} {
		r.Name, r.Tags = "amf", "v*"
		err := l.c.Sync(t.Context(), []desired.Repository{r})
		var failed *RepositoryError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "use https:// or ssh://") {
			t.Errorf("%s: %v", what, err)
		}
	}
	err := l.c.Sync(t.Context(), []desired.Repository{{Name: "amf", URL: "git://127.0.0.1:9/amf", Tags: "v*", Verify: desired.Verification{Signers: vendor}}})
	if err == nil || strings.Contains(err.Error(), "use https:// or ssh://") {
		t.Errorf("git:// with keys: %v", err)
	}
}

func TestProofsAreLookedAtAgainWhenTheyEnd(t *testing.T) {
	t.Parallel()

	var p proofs
	now, looks := time.Unix(1000, 0), 0
	look := func() (time.Time, error) { looks++; return now.Add(time.Minute), nil }
	for range 2 {
		if err := p.of("a", now, look); err != nil || looks != 1 {
			t.Errorf("%d looks (%v)", looks, err)
		}
	}
	if err := p.of("a", now.Add(time.Minute), look); err != nil || looks != 2 {
		t.Errorf("%d looks (%v)", looks, err)
	}
}
