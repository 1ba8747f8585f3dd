package signed_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/jibe-vnfm/jibe/internal/signed"
)

// signer is a person with real git, ssh-keygen and gpg, and a repository to sign in.
type signer struct {
	*testing.T
	dir string
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	// The sockets of gpg's agent need a short path.
	dir, err := os.MkdirTemp("", "sign")
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{t, dir}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.run("git", "init", "--quiet", "--initial-branch=main", "repo")
	return s
}

func (s *signer) run(name string, args ...string) string {
	s.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GNUPGHOME="+filepath.Join(s.dir, "gnupg"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@example.org", "LC_ALL=C")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		s.Fatalf("%s %v: %v\n%s", name, args, err, said.String())
	}
	return out.String()
}

// git runs git in the repository.
func (s *signer) git(args ...string) string {
	s.Helper()
	return strings.TrimSpace(s.run("git", append([]string{"-C", "repo"}, args...)...))
}

// sshKey makes a key and returns its line of allowed signers after the principals.
func (s *signer) sshKey(name string, args ...string) string {
	s.Helper()
	s.run("ssh-keygen", append([]string{"-q", "-N", "", "-C", name, "-f", name}, args...)...)
	data, err := os.ReadFile(filepath.Join(s.dir, name+".pub"))
	if err != nil {
		s.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func (s *signer) gpgKey(name, algorithm string) string {
	s.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, "gnupg"), 0o700); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.run("gpgconf", "--kill", "all") })
	s.run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", name, algorithm, "sign", "never")
	return s.run("gpg", "--batch", "--armor", "--export", name)
}

// raw is an object as git stores it.
func (s *signer) raw(name string) []byte {
	s.Helper()
	kind := s.git("cat-file", "-t", name)
	return []byte(s.run("git", "-C", "repo", "cat-file", kind, name))
}

// by are git's options to sign with a key.
func (s *signer) bySSH(name string) []string {
	return []string{"-c", "gpg.format=ssh", "-c", "user.signingKey=" + filepath.Join(s.dir, name)}
}

func byGPG(name string) []string { return []string{"-c", "user.signingKey=" + name} }

// commit makes a signed commit and returns it.
func (s *signer) commit(by []string) []byte {
	s.Helper()
	s.git(append(by, "commit", "--quiet", "--allow-empty", "-S", "-m", "A release\n\nWith more to say.")...)
	return s.raw("HEAD")
}

func (s *signer) tag(by []string, name string) []byte {
	s.Helper()
	s.git(append(by, "tag", "-s", "-m", "Version "+name, name, "HEAD")...)
	return s.raw(name)
}

func keys(t *testing.T, text string) *signed.Keys {
	t.Helper()
	k, err := signed.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestWhatRealToolsSignIsBelievedByTheKeysThatAreListedAndNoOthers(t *testing.T) {
	s := newSigner(t)
	for name, p := range map[string]struct {
		by   []string
		list string
		name string
	}{
		"ed25519":       {s.bySSH("ed"), "release@example.org " + s.sshKey("ed", "-t", "ed25519"), "release@example.org"},
		"ecdsa":         {s.bySSH("ec"), "a@example.org,b@example.org namespaces=\"file,git\" " + s.sshKey("ec", "-t", "ecdsa"), "a@example.org,b@example.org"},
		"rsa":           {s.bySSH("rsa"), "\"with space\" " + s.sshKey("rsa", "-t", "rsa", "-b", "2048"), "with space"},
		"OpenPGP EdDSA": {byGPG("Ed <ed@example.org>"), "# a comment\n" + s.gpgKey("Ed <ed@example.org>", "ed25519"), "Ed <ed@example.org>"},
		"OpenPGP RSA":   {byGPG("Rsa <rsa@example.org>"), s.gpgKey("Rsa <rsa@example.org>", "rsa2048"), "Rsa <rsa@example.org>"},
		"OpenPGP ECDSA": {byGPG("Ec <ec@example.org>"), s.gpgKey("Ec <ec@example.org>", "nistp256"), "Ec <ec@example.org>"},
	} {
		commit, tag := s.commit(p.by), s.tag(p.by, "v1-"+strings.ReplaceAll(name, " ", "-"))
		head := s.git("rev-parse", "HEAD")
		k, now := keys(t, p.list), time.Now()
		by, err := k.Commit(commit, now)
		if err != nil || by.Name != p.name || by.Key == "" || !by.Until.IsZero() {
			t.Errorf("%s: the commit is by %+v (%v)", name, by, err)
		}
		by, target, err := k.Tag(tag, "v1-"+strings.ReplaceAll(name, " ", "-"), now)
		if err != nil || by.Name != p.name || target != head {
			t.Errorf("%s: the tag is by %+v of %s (%v)", name, by, target, err)
		}
		if _, _, err := k.Tag(tag, "v9", now); !errors.Is(err, signed.ErrNotVerified) || !strings.Contains(err.Error(), `stands under "v9"`) {
			t.Errorf("%s: under another name: %v", name, err)
		}
		stranger := keys(t, "stranger "+s.sshKey("stranger-"+strings.ReplaceAll(name, " ", ""), "-t", "ed25519"))
		if by, err := stranger.Commit(commit, now); !errors.Is(err, signed.ErrNotVerified) || !strings.Contains(err.Error(), "isn't one of those that are trusted") {
			t.Errorf("%s: by a key that isn't listed: %v %v", name, by, err)
		}
		if by, err := stranger.And(k).Commit(commit, now); err != nil || by.Name != p.name {
			t.Errorf("%s: among the keys of two: %v %v", name, by, err)
		}
		tamper(t, name+" commit", commit, func(raw []byte) error { _, err := k.Commit(raw, now); return err })
		tamper(t, name+" tag", tag, func(raw []byte) error {
			_, at, err := k.Tag(raw, "v1-"+strings.ReplaceAll(name, " ", "-"), now)
			if err == nil && at != head {
				t.Errorf("%s: names %s", name, at)
			}
			return err
		})
	}
}

// tamper changes one byte at 1,000 places, every one of a small object, and wants all of them
// refused.
func tamper(t *testing.T, what string, good []byte, verify func([]byte) error) {
	t.Helper()
	if err := verify(good); err != nil {
		t.Errorf("%s: untouched: %v", what, err)
		return
	}
	random := rand.New(rand.NewPCG(17, 5))
	for i := range 1000 {
		at := i % len(good)
		if i >= len(good) || len(good) > 1000 {
			at = random.IntN(len(good))
		}
		bad := bytes.Clone(good)
		for bad[at] == good[at] {
			bad[at] = byte(random.IntN(256))
			if i%2 == 0 { // what an eye would miss
				bad[at] = good[at] ^ 1<<random.IntN(8)
			}
		}
		if err := verify(bad); !errors.Is(err, signed.ErrNotVerified) {
			t.Errorf("%s: byte %d from %q to %q: %v", what, at, good[at], bad[at], err)
		}
	}
}

func TestSignaturesThatShouldNotCountAreRefusedWithTheReason(t *testing.T) {
	s := newSigner(t)
	line := s.sshKey("ed", "-t", "ed25519")
	good := string(s.commit(s.bySSH("ed")))
	other := string(s.commit(s.bySSH("ed")))
	tag := string(s.tag(s.bySSH("ed"), "v1"))
	signature := good[strings.Index(good, "gpgsig "):strings.Index(good, " -----END")] + " -----END SSH SIGNATURE-----\n"
	bare := strings.Replace(good, signature, "", 1)
	now := time.Now()
	at := func(hours int) string { return now.Add(time.Duration(hours) * time.Hour).UTC().Format("200601021504Z") }
	// A signature over a file's namespace, by the same key and over the very commit.
	if err := os.WriteFile(filepath.Join(s.dir, "bare"), []byte(bare), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("ssh-keygen", "-q", "-Y", "sign", "-f", "ed", "-n", "file", "bare")
	file, err := os.ReadFile(filepath.Join(s.dir, "bare.sig"))
	if err != nil {
		t.Fatal(err)
	}
	filed := strings.Replace(good, signature, "gpgsig "+strings.ReplaceAll(strings.TrimSuffix(string(file), "\n"), "\n", "\n ")+"\n", 1)

	for name, p := range map[string]struct{ list, commit, want string }{
		"the key from now on":           {"a valid-after=\"" + at(-1) + "\",valid-before=\"" + at(1) + "\" " + line, good, ""},
		"the key was ended":             {"a valid-before=\"" + at(-1) + "\" " + line, good, "has counted until"},
		"the key isn't begun":           {"a valid-after=\"" + at(1) + "\" " + line, good, "counts from"},
		"the commit is older":           {"a valid-after=\"" + at(-1) + "\" " + line, strings.ReplaceAll(good, fmt.Sprint(now.Unix())[:6], "160000"), "was changed"},
		"the key is for files":          {"a namespaces=\"file\" " + line, good, "isn't for git"},
		"ended in one line, not in all": {"a valid-before=\"" + at(-1) + "\" " + line + "\nb " + line, good, ""},
		"made for files":                {"a " + line, filed, `made for "file"`},
		"stripped":                      {"a " + line, bare, "has no signature"},
		"of another commit":             {"a " + line, strings.Replace(other, other[strings.Index(other, "gpgsig "):strings.Index(other, " -----END")], good[strings.Index(good, "gpgsig "):strings.Index(good, " -----END")], 1), "was changed"},
		"two":                           {"a " + line, strings.Replace(good, signature, signature+signature, 1), "two signatures"},
		"two kinds":                     {"a " + line, strings.Replace(good, signature, signature+strings.Replace(signature, "gpgsig", "gpgsig-sha256", 1), 1), "second signature"},
		"more after its end":            {"a " + line, strings.Replace(good, signature, signature+" more\n", 1), "something follows"},
		"a second tree":                 {"a " + line, "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n" + good, "headers"},
		"a parent in the end":           {"a " + line, strings.Replace(good, "\n\n", "\nparent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\n", 1), "isn't where git writes it"},
		"empty":                         {"a " + line, "", "no end"},
	} {
		by, err := keys(t, p.list).Commit([]byte(p.commit), now)
		switch {
		case p.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case p.want != "" && (!errors.Is(err, signed.ErrNotVerified) || !strings.Contains(err.Error(), p.want)):
			t.Errorf("%s: %v %v; want %q", name, by, err, p.want)
		}
	}
	k := keys(t, "a "+line)
	for name, raw := range map[string]string{
		"moved to another commit": strings.Replace(tag, s.git("rev-parse", "HEAD"), s.git("rev-parse", "HEAD~1"), 1),
		"stripped":                tag[:strings.Index(tag, "-----BEGIN")],
		"twice":                   tag + tag[strings.Index(tag, "-----BEGIN"):],
		"of a tree":               strings.Replace(tag, "type commit", "type tree", 1),
		"a header more":           strings.Replace(tag, "type commit", "type commit\nmore of it", 1),
	} {
		if by, at, err := k.Tag([]byte(raw), "v1", now); !errors.Is(err, signed.ErrNotVerified) {
			t.Errorf("a tag that is %s: %v %s %v", name, by, at, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": " \n# none\n", "no key": "a", "an authority": "a cert-authority " + line, "an unknown option": "a verify-required " + line,
		"a bad time": "a valid-after=\"tomorrow\" " + line, "half a key": "a " + line[:40], "no end": "-----BEGIN PGP PUBLIC KEY BLOCK-----\n",
		"a small RSA key":  "a " + s.sshKey("small", "-t", "rsa", "-b", "1024"),
		"something beside": "a " + line + "\nb\n",
	} {
		if _, err := signed.ParseKeys(text); err == nil {
			t.Errorf("keys are read from %s", name)
		}
	}
}

func TestKeysOfOpenPGPThatEndedOrWereRevokedCountNoMore(t *testing.T) {
	begin := time.Now().Add(-48 * time.Hour).Truncate(time.Second)
	make := func(c packet.Config) *openpgp.Entity {
		c.Time = func() time.Time { return begin }
		c.Algorithm = packet.PubKeyAlgoEdDSA
		e, err := openpgp.NewEntity("Release", "", "release@example.org", &c)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	plain := fmt.Sprintf("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b> %d +0000\ncommitter a <a@b> %[1]d +0000\n", begin.Unix()+60)
	const message = "\nA release\n"
	sign := func(e *openpgp.Entity, c packet.Config, text bool) []byte {
		c.Time = func() time.Time { return begin.Add(time.Minute) }
		var b bytes.Buffer
		how := openpgp.DetachSign
		if text {
			how = openpgp.DetachSignText
		}
		if err := how(&b, e, strings.NewReader(plain+message), &c); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w, err := armor.Encode(&out, "PGP SIGNATURE", nil)
		if err == nil {
			_, err = w.Write(b.Bytes())
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return []byte(plain + "gpgsig " + strings.ReplaceAll(strings.TrimSpace(out.String()), "\n", "\n ") + "\n" + message)
	}
	list := func(e *openpgp.Entity) *signed.Keys {
		var out bytes.Buffer
		w, err := armor.Encode(&out, openpgp.PublicKeyType, nil)
		if err == nil {
			err = errors.Join(e.Serialize(w), w.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return keys(t, out.String()+"\n")
	}
	good, brief, gone := make(packet.Config{}), make(packet.Config{KeyLifetimeSecs: 3600}), make(packet.Config{})
	before := sign(gone, packet.Config{}, false)
	if err := gone.RevokeKey(packet.KeyCompromised, "lost", &packet.Config{Time: func() time.Time { return begin.Add(time.Hour) }}); err != nil {
		t.Fatal(err)
	}
	at := begin.Add(24 * time.Hour)
	if by, err := list(good).Commit(sign(good, packet.Config{}, false), at); err != nil || by.Name != "Release <release@example.org>" || !by.Until.IsZero() {
		t.Errorf("a good one: %v %v", by, err)
	}
	if by, err := list(brief).Commit(sign(brief, packet.Config{}, false), begin.Add(30*time.Minute)); err != nil || !by.Until.Equal(begin.Add(time.Hour)) {
		t.Errorf("before its key expires: %+v %v", by, err)
	}
	for name, p := range map[string]struct {
		e    *openpgp.Entity
		raw  []byte
		at   time.Time
		want string
	}{
		"an expired key":         {brief, sign(brief, packet.Config{}, false), at, "expired"},
		"a revoked key":          {gone, before, at, "revoked"},
		"an expired signature":   {good, sign(good, packet.Config{SigLifetimeSecs: 60}, false), at, "expired"},
		"one of the future":      {good, sign(good, packet.Config{}, false), begin.Add(time.Second), "future"},
		"a signature of a text":  {good, sign(good, packet.Config{}, true), at, "document"},
		"armour headers":         {good, bytes.Replace(sign(good, packet.Config{}, false), []byte("SIGNATURE-----\n"), []byte("SIGNATURE-----\n Comment: mine\n"), 1), at, "armour headers"},
		"a key of the same name": {make(packet.Config{}), sign(good, packet.Config{}, false), at, "isn't one of those"},
	} {
		if by, err := list(p.e).Commit(p.raw, p.at); !errors.Is(err, signed.ErrNotVerified) || !strings.Contains(err.Error(), p.want) {
			t.Errorf("%s: %v %v; want %q", name, by, err, p.want)
		}
	}
	var private bytes.Buffer
	w, err := armor.Encode(&private, openpgp.PublicKeyType, nil)
	if err == nil {
		err = errors.Join(good.SerializePrivate(w, nil), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signed.ParseKeys(private.String() + "\n"); err == nil {
		t.Error("a private key is taken as a public one")
	}
}

func TestGitBelievesWhatAKeySigns(t *testing.T) {
	s := newSigner(t)
	s.git("commit", "--quiet", "--allow-empty", "-m", "Begin")
	key, err := signed.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := key.Commit(s.raw("HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	if by, err := keys(t, key.Allowed("jibe")).Commit(raw, time.Now()); err != nil || by.Name != "jibe" {
		t.Errorf("by %v (%v)", by, err)
	}
	if _, err := key.Commit(raw); err == nil {
		t.Error("a signed commit is signed again")
	}
	for name, data := range map[string][]byte{"raw": raw, "allowed": []byte(key.Allowed("jibe") + "\n")} {
		if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hash := s.git("hash-object", "-t", "commit", "-w", "../raw")
	s.git("-c", "gpg.ssh.allowedSignersFile="+filepath.Join(s.dir, "allowed"), "verify-commit", hash)
	if _, err := signed.NewKey([]byte("short")); err == nil {
		t.Error("a key is made of a short seed")
	}
}

func FuzzObjectsThatOutsidersWriteAreNeverBelieved(f *testing.F) {
	const list = "a ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFBLl9AFMMdGGUAqmQwH8J0jx4QHMNG8uB8CJHiCAtkD"
	k, err := signed.ParseKeys(list)
	if err != nil {
		f.Fatal(err)
	}
	head := "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n"
	f.Add([]byte(head + "gpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lHAAAAAQ==\n -----END SSH SIGNATURE-----\n\nm\n"))
	f.Add([]byte(head + "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iHUEABYKAB0WIQ==\n -----END PGP SIGNATURE-----\n\nm\n"))
	f.Add([]byte("object 4b825dc642cb6eb9a060e54bf8d69288fbee4904\ntype commit\ntag v1\ntagger a <a@b> 1 +0000\n\nm\n-----BEGIN SSH SIGNATURE-----\n\n-----END SSH SIGNATURE-----\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if by, err := k.Commit(raw, time.Unix(2, 0)); !errors.Is(err, signed.ErrNotVerified) {
			t.Errorf("a commit is by %v (%v)", by, err)
		}
		if by, _, err := k.Tag(raw, "v1", time.Unix(2, 0)); !errors.Is(err, signed.ErrNotVerified) {
			t.Errorf("a tag is by %v (%v)", by, err)
		}
	})
}

func FuzzTextsOfKeysNeverCrash(f *testing.F) {
	f.Add("a ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFBLl9AFMMdGGUAqmQwH8J0jx4QHMNG8uB8CJHiCAtkD")
	f.Add("\"a b\" namespaces=\"git\",valid-after=\"20260101Z\" ssh-ed25519 AAAA")
	f.Add("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEZ\n-----END PGP PUBLIC KEY BLOCK-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := signed.ParseKeys(text)
		if (k == nil) == (err == nil) {
			t.Errorf("%v, %v", k, err)
		}
	})
}
