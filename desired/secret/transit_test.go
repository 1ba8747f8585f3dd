package secret_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

func lockOf(t *testing.T, options secret.LockOptions) secret.Lock {
	t.Helper()
	lock, err := options.Lock()
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestATransitEngineKeepsTheKey(t *testing.T) {
	v := startVault(t)
	for _, c := range []struct {
		name       string
		away, back func()
	}{
		{"its server is killed", v.kill, func() { v.start(t); v.open(t) }},
		{"it is sealed", func() { v.seal(t) }, func() { v.open(t) }},
		{"the token is wrong", func() { v.giveToken(t, "hvs.wrong") }, func() { v.giveToken(t, v.token) }},
		{"the token's file is gone", func() { os.Remove(v.file("token")) }, func() { v.giveToken(t, v.token) }},
		{"the token may do nothing any more", func() {
			v.write(t, "sys/policy/jibe", map[string]any{"policy": `path "transit/*" { capabilities = ["deny"] }`})
		}, func() { v.write(t, "sys/policy/jibe", map[string]any{"policy": vaultPolicy}) }},
	} {
		t.Run(c.name, func(t *testing.T) { keptBy(t, v.options("jibe"), c.away, c.back) })
	}
	t.Run("a rotated key of the engine reads what was kept before", func(t *testing.T) { v.rotated(t) })
	t.Run("what isn't the engine's or isn't ours is refused", func(t *testing.T) { v.refuses(t) })
}

// rotated: the engine's key is rotated, ours after that, and then the former one of the engine
// is withdrawn.
func (v *vault) rotated(t *testing.T) {
	lock := lockOf(t, v.options("jibe"))
	dir := t.TempDir()
	k, err := secret.Open(dir, lock)
	if err != nil {
		t.Fatal(err)
	}
	ref := encrypted(t, k, "pa55")
	stolen := t.TempDir()
	text, err := os.ReadFile(filepath.Join(dir, secret.IdentityFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stolen, secret.IdentityFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	v.write(t, "transit/keys/jibe/rotate", nil)
	if _, err := secret.Open(dir, lock); err != nil {
		t.Fatalf("after the engine's key was rotated: %v", err)
	}
	r, err := secret.BeginRotation(dir, lock, lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.NewKey(), r.Close()); err != nil {
		t.Fatal(err)
	}
	v.write(t, "transit/keys/jibe/config", map[string]any{"min_decryption_version": 2})
	if k, err = secret.Open(dir, lock); err != nil {
		t.Fatalf("after the engine's former key was withdrawn: %v", err)
	}
	if got, err := k.Resolve(ref); got != "pa55" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := secret.Open(stolen, lock); !errors.Is(err, secret.ErrLocked) {
		t.Errorf("a copy from before the rotation is read: %v", err)
	}
}

// refuses: no start with another key, server or file than those that the key was kept with.
func (v *vault) refuses(t *testing.T) {
	lock := lockOf(t, v.options("jibe"))
	dir := t.TempDir()
	if _, err := secret.Open(dir, lock); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, secret.IdentityFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{v.token, v.admin.Token(), "AGE-SECRET-KEY"}
	refused := func(what string, lock secret.Lock) {
		t.Helper()
		k, err := secret.Open(dir, lock)
		if err == nil {
			t.Errorf("%s: opened, with the key of %s", what, k.Recipient())
			return
		}
		for _, s := range secrets {
			if strings.Contains(err.Error(), s) {
				t.Errorf("%s: the error tells a secret: %v", what, err)
			}
		}
		if now, readErr := os.ReadFile(file); readErr != nil || len(now) != len(text) {
			t.Errorf("%s: the key's file has changed: %v", what, readErr)
		}
	}
	unknown := v.options("jibe")
	unknown.CA = ""
	refused("a server whose authority isn't known", lockOf(t, unknown))
	other := lockOf(t, v.options("other"))
	refused("a key that the token may not use", other)
	v.giveToken(t, v.admin.Token())
	refused("another key of the engine", other)
	v.giveToken(t, v.token)
	// A mistyped name makes no key: the token may not create one.
	if _, err := secret.Open(t.TempDir(), lockOf(t, v.options("jbie"))); !errors.Is(err, secret.ErrLocked) {
		t.Errorf("a key that doesn't exist: %v", err)
	}
	if made, err := v.admin.Logical().ReadWithContext(t.Context(), "transit/keys/jbie"); err != nil || made != nil {
		t.Errorf("a mistyped name has made a key: %+v, %v", made, err)
	}
	for i := 0; i < len(text); i += 5 {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		refused("a file that somebody has changed", lock)
	}
}
