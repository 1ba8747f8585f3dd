package secret_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

func rotation(t *testing.T, dir string) *secret.Rotation {
	t.Helper()
	r, err := secret.BeginRotation(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func encrypted(t *testing.T, k *secret.Keeper, clear string) string {
	t.Helper()
	ref, err := k.For(secret.ForVIMs()).Encrypt(clear)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestAProcessThatRunsTakesARotatedKeyUpAndReadsWhatWasEncryptedBefore(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	derived, was := k.Derive("digests"), k.Recipient()
	before := encrypted(t, k, "pa55")
	r := rotation(t, dir)
	if _, err := secret.BeginRotation(dir, nil, nil); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("two rotations at once: %v", err)
	}
	if err := r.NewKey(); err != nil {
		t.Fatal(err)
	}
	if k.Recipient() == was || k.Recipient() != r.Recipient() {
		t.Error("the process encrypts for the former key")
	}
	after := encrypted(t, k, "pa55")
	for name, keeper := range map[string]*secret.Keeper{"the one that ran": k, "one that starts": open(t, dir)} {
		for _, ref := range []string{before, after} {
			if got, err := keeper.For(secret.ForVIMs()).Resolve(ref); got != "pa55" || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		if !bytes.Equal(keeper.Derive("digests"), derived) {
			t.Errorf("%s: derived keys have changed", name)
		}
	}
	file := []byte("# vnf\nparams:\n  a: " + before + " # old\n  b: \"" + after + "\"\n  c: " + before + "\n")
	if n, err := r.Outdated(file, nil); n != 2 || err != nil {
		t.Errorf("%d values are outdated, %v", n, err)
	}
	next, n, err := r.Encrypt(file, nil)
	if err != nil || n != 2 || strings.Contains(string(next), before) || !strings.Contains(string(next), after) || !strings.HasPrefix(string(next), "# vnf\nparams:\n  a: age:") || !strings.Contains(string(next), " # old\n") {
		t.Errorf("%d, %v:\n%s", n, err, next)
	}
	if n, err := r.Outdated(next, nil); n != 0 || err != nil {
		t.Errorf("encrypted anew, %d are outdated, %v", n, err)
	}
	info, err := os.Stat(filepath.Join(dir, secret.IdentityFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestAValueThatCannotBeReadStopsARotationBeforeItBegins(t *testing.T) {
	dir := t.TempDir()
	ref, foreign := encrypted(t, open(t, dir), "a"), encrypted(t, open(t, t.TempDir()), "a")
	r := rotation(t, dir)
	for name, text := range map[string]string{"another key's": "a: x\nb: " + foreign + "\n", "cut": "a: x\nb: " + ref[:len(ref)-3] + "\n", "over two lines": "a: x\nb: " + ref[:90] + "\n   " + ref[90:] + "\n"} {
		_, err := r.Outdated([]byte(text), nil)
		if no, ok := errors.AsType[*secret.UnreadableError](err); !ok || no.Line != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoIsInTheListOfRecipientsReadsWhatIsEncryptedFromThenOnAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	before := encrypted(t, k, "pa55")
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, secret.RecipientsFile)
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.Remove(list); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(list, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("# the safe\n"+other.Recipient().String()+"\n\n"+other.Recipient().String()+"\n", 0o600)
	after := encrypted(t, k, "pa55")
	safe := t.TempDir()
	if err := os.WriteFile(filepath.Join(safe, secret.IdentityFile), []byte(other.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := open(t, safe)
	if got, err := theirs.For(secret.ForVIMs()).Resolve(after); got != "pa55" || err != nil {
		t.Errorf("the recipient reads %q, %v", got, err)
	}
	if _, err := theirs.For(secret.ForVIMs()).Resolve(before); !errors.Is(err, secret.ErrForeign) {
		t.Errorf("of what was encrypted before: %v", err)
	}
	r := rotation(t, dir)
	if n, err := r.Outdated([]byte(before+"\n"+after), nil); n != 1 || err != nil {
		t.Errorf("%d are for other recipients, %v", n, err)
	}
	for name, bad := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"a damaged line": {other.Recipient().String() + "\nage1none\n", 0o600}, "a secret key": {other.String() + "\n", 0o600},
		"others may write it": {other.Recipient().String() + "\n", 0o666},
	} {
		write(bad.text, bad.mode)
		if _, err := k.For(secret.ForVIMs()).Encrypt("x"); err == nil || strings.Contains(err.Error(), other.String()) {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := k.For(secret.ForVIMs()).Resolve(after); got != "pa55" || err != nil {
			t.Errorf("%s: what is encrypted already isn't read: %q, %v", name, got, err)
		}
		if _, err := secret.Open(dir, nil); err == nil {
			t.Errorf("%s: a process starts", name)
		}
	}
}

// FuzzKeyFiles holds that no key's file, list of recipients or reference makes anything fail
// but with an error, and that errors quote no key.
func FuzzKeyFiles(f *testing.F) {
	dir := f.TempDir()
	k, err := secret.Open(dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	ref, err := k.For(secret.ForVIMs()).Encrypt("s")
	if err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, secret.IdentityFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text), k.Recipient(), ref)
	f.Add("# derived keys: 00\nAGE-SECRET-KEY-1", "age1\n#", "age:YWdlLWVuY3J5cHRpb24ub3JnL3Yx")
	f.Add("age-encryption.org/v1\n-> X25519 a\n", "", "a: 'age:YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0-'")
	f.Fuzz(func(t *testing.T, key, recipients, file string) {
		dir := t.TempDir()
		for name, text := range map[string]string{secret.IdentityFile: key, secret.RecipientsFile: recipients} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := secret.BeginRotation(dir, nil, nil)
		if err != nil {
			if strings.Contains(err.Error(), "AGE-SECRET-KEY-1Q") {
				t.Errorf("the error quotes the key: %v", err)
			}
			return
		}
		defer r.Close()
		next, n, err := r.Encrypt([]byte(file), nil)
		if err != nil {
			return
		}
		if n == 0 && string(next) != file {
			t.Error("nothing was outdated and the file has changed")
		}
		if left, err := r.Outdated(next, nil); left != 0 || err != nil {
			t.Errorf("of a file that was encrypted anew %d are outdated, %v", left, err)
		}
	})
}
