package secret_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// pluginLock is a lock by a real plugin of age, whose program is in PATH from then on.
func pluginLock(t *testing.T) secret.LockOptions {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "filippo.io/age/extra/age-plugin-pq").CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v: %s", err, out)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	id, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	convert := exec.CommandContext(t.Context(), "age-plugin-pq", "-identity")
	convert.Stdin = strings.NewReader(id.String() + "\n")
	text, err := convert.Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "plugin-identity")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return secret.LockOptions{Plugin: file}
}

// keptBy holds what is promised of each lock: away makes it unable to answer, and back mends that.
func keptBy(t *testing.T, options secret.LockOptions, away, back func()) {
	t.Helper()
	lock, err := options.Lock()
	if err != nil {
		t.Fatal(err)
	}
	// An installation whose key is in clear has it kept from a rotation on.
	dir := t.TempDir()
	plain := open(t, dir)
	ref, derived := encrypted(t, plain, "pa55"), plain.Derive("x")
	if _, err := secret.Open(dir, lock); err == nil || !strings.Contains(err.Error(), "jibe secret rotate") {
		t.Errorf("a key in clear where one is to be kept: %v", err)
	}
	r, err := secret.BeginRotation(dir, lock, lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.NewKey(), r.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, secret.IdentityFile))
	if err != nil || bytes.Contains(text, []byte("AGE-SECRET-KEY")) {
		t.Fatalf("%v: the key is on the disk in clear", err)
	}
	if _, err := secret.Open(dir, nil); !errors.Is(err, secret.ErrLocked) || !strings.Contains(err.Error(), "--key-kms") {
		t.Errorf("without the flag: %v", err)
	}
	reads := func(what string, k *secret.Keeper) {
		t.Helper()
		if got, err := k.For(secret.ForVIMs()).Resolve(ref); got != "pa55" || err != nil || !bytes.Equal(k.Derive("x"), derived) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	k, err := secret.Open(dir, lock)
	if err != nil {
		t.Fatal(err)
	}
	reads("kept", k)
	reads("a process without the lock that ran before", plain)
	if _, err := plain.For(secret.ForVIMs()).Encrypt("x"); !errors.Is(err, secret.ErrLocked) {
		t.Errorf("a process that can't read the new key encrypts: %v", err)
	}

	away()
	if _, err := secret.Open(dir, lock); !errors.Is(err, secret.ErrLocked) || strings.Contains(err.Error(), "AGE-") {
		t.Errorf("a start while it is away: %v", err)
	}
	reads("while it is away", k)
	if _, err := k.For(secret.ForVIMs()).Encrypt("x"); err != nil {
		t.Errorf("while it is away nothing is encrypted: %v", err)
	}
	if r, err := secret.BeginRotation(dir, lock, lock); !errors.Is(err, secret.ErrLocked) {
		t.Errorf("a rotation while it is away: %v, %v", r, err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, secret.IdentityFile)); err != nil || !bytes.Equal(now, text) {
		t.Errorf("the key's file has changed: %v", err)
	}
	back()
	// And from a new start on, with a key that was never in clear; then no longer.
	fresh := t.TempDir()
	if k, err = secret.Open(fresh, lock); err != nil {
		t.Fatal(err)
	}
	ref, derived = encrypted(t, k, "pa55"), k.Derive("x")
	if text, err := os.ReadFile(filepath.Join(fresh, secret.IdentityFile)); err != nil || bytes.Contains(text, []byte("AGE-SECRET-KEY")) {
		t.Errorf("%v: a new key is on the disk in clear", err)
	}
	if r, err = secret.BeginRotation(fresh, lock, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.NewKey(), r.Close()); err != nil {
		t.Fatal(err)
	}
	reads("no longer kept", open(t, fresh))
}

func TestAPluginOfAgeKeepsTheKey(t *testing.T) {
	kit.Long(t)
	options := pluginLock(t)
	path := os.Getenv("PATH")
	keptBy(t, options, func() { t.Setenv("PATH", "/nowhere") }, func() { t.Setenv("PATH", path) })
}

func TestLocksThatMakeNoSenseAreRefused(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("AGE-SECRET-KEY-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]secret.LockOptions{
		"two":              {KMS: "https://kms.example/transit/jibe", TokenFile: none, Plugin: none},
		"plain HTTP":       {KMS: "http://kms.example/transit/jibe", TokenFile: none},
		"no key":           {KMS: "https://kms.example/transit", TokenFile: none},
		"no engine":        {KMS: "https://kms.example/", TokenFile: none},
		"a password in it": {KMS: "https://a:b@kms.example/transit/jibe", TokenFile: none},
		"no URL":           {KMS: "kms.example/transit/jibe", TokenFile: none},
		"no token":         {KMS: "https://kms.example/transit/jibe"},
		"a token alone":    {TokenFile: none},
		"no CA":            {KMS: "https://kms.example/transit/jibe", TokenFile: none, CA: none},
		"no plugin":        {Plugin: none},
		"no file":          {Plugin: none + "x"},
	} {
		if lock, err := o.Lock(); err == nil {
			t.Errorf("%s: %v", name, lock)
		} else if strings.Contains(err.Error(), "a:b") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
