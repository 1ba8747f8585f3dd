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
	t.Parallel()
	for _, c := range []struct {
		name       string
		away, back func(t *testing.T, s *transitServer)
	}{
		{
			"its server is killed",
			func(_ *testing.T, s *transitServer) { s.kill() },
			func(t *testing.T, s *transitServer) { s.start(t); s.unseal() },
		},
		{
			"its server was started again and is sealed",
			func(t *testing.T, s *transitServer) { s.kill(); s.start(t) },
			func(_ *testing.T, s *transitServer) { s.unseal() },
		},
		{
			"it is sealed",
			func(_ *testing.T, s *transitServer) { s.seal() },
			func(_ *testing.T, s *transitServer) { s.unseal() },
		},
		{
			"the token is wrong",
			func(t *testing.T, s *transitServer) { s.giveToken(t, "hvs.wrong") },
			func(t *testing.T, s *transitServer) { s.giveToken(t, s.token) },
		},
		{
			"the token has expired, and another one takes its place",
			func(_ *testing.T, s *transitServer) { s.expire(s.token) },
			func(t *testing.T, s *transitServer) { s.giveToken(t, s.newToken()) },
		},
		{
			"the token's file is gone",
			func(_ *testing.T, s *transitServer) { os.Remove(s.file("token")) },
			func(t *testing.T, s *transitServer) { s.giveToken(t, s.token) },
		},
		{
			"the token may do nothing any more",
			func(_ *testing.T, s *transitServer) { s.setPolicy(policy{"transit/*": {"deny"}}) },
			func(_ *testing.T, s *transitServer) { s.setPolicy(guidePolicy) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := startTransit(t)
			keptBy(t, s.options("jibe"), func() { c.away(t, s) }, func() { c.back(t, s) })
		})
	}
	t.Run("a rotated key of the engine reads what was kept before", func(t *testing.T) {
		t.Parallel()
		startTransit(t).rotated(t)
	})
	t.Run("what isn't the engine's or isn't ours is refused", func(t *testing.T) {
		t.Parallel()
		startTransit(t).refuses(t)
	})
}

// rotated: the engine's key is rotated, ours after that, and then the former one of the engine
// is withdrawn.
func (s *transitServer) rotated(t *testing.T) {
	lock := lockOf(t, s.options("jibe"))
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
	s.rotate(t, "jibe")
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
	s.setMinDecryption("jibe", 2)
	if k, err = secret.Open(dir, lock); err != nil {
		t.Fatalf("after the engine's former key was withdrawn: %v", err)
	}
	if got, err := k.For(secret.ForVIMs()).Resolve(ref); got != "pa55" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := secret.Open(stolen, lock); !errors.Is(err, secret.ErrLocked) {
		t.Errorf("a copy from before the rotation is read: %v", err)
	}
}

// refuses: no start with another key, server or file than those that the key was kept with.
func (s *transitServer) refuses(t *testing.T) {
	lock := lockOf(t, s.options("jibe"))
	dir := t.TempDir()
	if _, err := secret.Open(dir, lock); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, secret.IdentityFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{s.token, s.root, "AGE-SECRET-KEY"}
	refused := func(what string, lock secret.Lock) {
		t.Helper()
		k, err := secret.Open(dir, lock)
		if err == nil {
			t.Errorf("%s: opened, with the key of %s", what, k.Recipient())
			return
		}
		for _, text := range secrets {
			if strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error tells a secret: %v", what, err)
			}
		}
		if now, readErr := os.ReadFile(file); readErr != nil || len(now) != len(text) {
			t.Errorf("%s: the key's file has changed: %v", what, readErr)
		}
	}
	unknown := s.options("jibe")
	unknown.CA = ""
	refused("a server whose authority isn't known", lockOf(t, unknown))
	other := lockOf(t, s.options("other"))
	refused("a key that the token may not use", other)
	s.giveToken(t, s.root)
	refused("another key of the engine", other)
	s.giveToken(t, s.token)
	// A mistyped name makes no key: the token may not create one.
	if _, err := secret.Open(t.TempDir(), lockOf(t, s.options("jbie"))); !errors.Is(err, secret.ErrLocked) {
		t.Errorf("a key that doesn't exist: %v", err)
	}
	if s.hasKey("jbie") {
		t.Error("a mistyped name has made a key")
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
