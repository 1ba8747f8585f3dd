package secret_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
)

func open(t *testing.T, dir string) *secret.Keeper {
	t.Helper()
	k, err := secret.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestTheKeyIsMadeOnceAndOnlyItsOwnerReadsIt(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	recipients := make([]string, 8)
	for i := range recipients {
		wg.Go(func() {
			k, err := secret.Open(dir, nil)
			if err != nil {
				t.Error(err)
				return
			}
			recipients[i] = k.Recipient()
		})
	}
	wg.Wait()
	for _, r := range recipients {
		if r != recipients[0] || !strings.HasPrefix(r, "age1") {
			t.Fatalf("recipients %v", recipients)
		}
	}
	path := filepath.Join(dir, secret.IdentityFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left over: %v %v", left, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := secret.Open(dir, nil); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others may read: %v", err)
	}
}

func TestADamagedKeyIsNeverReplacedNorShown(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "cut": "AGE-SECRET-KEY-1QQQQ", "other": "hunter2"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, secret.IdentityFile)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := secret.Open(dir, nil)
			if err == nil || content != "" && strings.Contains(err.Error(), content) {
				t.Errorf("error: %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != content {
				t.Errorf("the file became %q", after)
			}
		})
	}
}

func TestEncryptedSecretsResolveToThemselves(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	again := open(t, dir)
	other := open(t, t.TempDir())
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.String().Draw(t, "secret")
		ref, err := k.For(secret.ForVIMs()).Encrypt(plain)
		if err != nil {
			t.Fatal(err)
		}
		if !secret.IsRef(ref) || len(plain) > 8 && strings.Contains(ref, plain) {
			t.Fatalf("reference %q", ref)
		}
		if got, err := again.For(secret.ForVIMs()).Resolve(ref); err != nil || got != plain {
			t.Fatalf("%q, %v", got, err)
		}
		if !k.For(secret.ForVIMs()).Same(ref, plain) || k.For(secret.ForVIMs()).Same(ref, plain+"x") || k.For(secret.ForVIMs()).Same(plain, plain) {
			t.Fatal("Same is wrong")
		}
		if kept, err := k.For(secret.ForVIMs()).Keep(ref, plain); err != nil || kept != ref {
			t.Fatalf("kept %q, %v", kept, err)
		}
		if fresh, err := k.For(secret.ForVIMs()).Keep(ref, plain+"x"); err != nil || fresh == ref || !k.For(secret.ForVIMs()).Same(fresh, plain+"x") {
			t.Fatalf("a changed secret kept its text: %v", err)
		}
		if _, err := other.For(secret.ForVIMs()).Resolve(ref); !errors.Is(err, secret.ErrForeign) {
			t.Fatalf("another key: %v", err)
		}
		at := rapid.IntRange(len("age:"), len(ref)-1).Draw(t, "damaged at")
		if got, err := k.For(secret.ForVIMs()).Resolve(ref[:at]); err == nil {
			t.Fatalf("a cut reference gave %q", got)
		}
	})
	if kept, err := k.For(secret.ForVIMs()).Keep("", "env:TOKEN"); err != nil || kept != "env:TOKEN" {
		t.Errorf("a reference was encrypted: %q %v", kept, err)
	}
	if _, err := k.For(secret.ForVIMs()).Encrypt(strings.Repeat("x", 1<<20)); err == nil {
		t.Error("a huge secret was taken")
	}
}

func TestReferencesResolveOrSayWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	k := reaching(t, dir)
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	t.Setenv("JIBE_TEST_SECRET", "s3cret")
	t.Setenv("JIBE_SECRET_EMPTY", "")
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]any{
		"env:JIBE_TEST_SECRET":                     "s3cret",
		"env:JIBE_SECRET_EMPTY":                    secret.ErrMissing,
		"env:JIBE_SECRET_UNSET":                    secret.ErrMissing,
		file("line", "tok\n"):                      "tok",
		file("lines", "a\nb\n\n"):                  "a\nb\n",
		file("windows", "tok\r\n"):                 "tok",
		file("empty", "\n"):                        secret.ErrMissing,
		file("huge", strings.Repeat("x", 300<<10)): secret.ErrMissing,
		"file:" + dir:                              secret.ErrMissing,
		"file:" + fifo:                             secret.ErrMissing,
		"file:" + dir + "/none":                    secret.ErrMissing,
		"file:relative":                            secret.ErrNotRef,
		"env:":                                     secret.ErrNotRef,
		"env:A B":                                  secret.ErrNotRef,
		"age:":                                     secret.ErrNotRef,
		"age:!!!":                                  secret.ErrNotRef,
		"age:AAAA":                                 secret.ErrForeign,
		"hunter2-in-clear":                         secret.ErrNotRef,
		"":                                         secret.ErrNotRef,
	} {
		got, err := k.For(secret.ForVIMs()).Resolve(ref)
		switch want := want.(type) {
		case string:
			if err != nil || got != want {
				t.Errorf("%q: %q, %v", ref, got, err)
			}
		case error:
			if !errors.Is(err, want) || got != "" || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: %q, %v", ref, got, err)
			}
		}
	}
}

func certificate() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(strings.Repeat("certificate", 20))}))
}

func TestAConnectionIsReadAsClientsWriteIt(t *testing.T) {
	k := open(t, t.TempDir())
	token, err := k.For(secret.ForConnection("any", "https://127.0.0.1:6443")).Encrypt("tok")
	if err != nil {
		t.Fatal(err)
	}
	cert := certificate()
	for name, folded := range map[string]string{
		"as it is": cert,
		"blanks":   strings.ReplaceAll(cert, "\n", " "),
		"none":     strings.ReplaceAll(cert, "\n", ""),
		"escaped":  strings.ReplaceAll(cert, "\n", `\n`),
		"chain":    strings.ReplaceAll(cert+cert, "\n", " "),
	} {
		t.Run(name, func(t *testing.T) {
			want := cert
			if name == "chain" {
				want = cert + cert
			}
			v, err := k.ResolveConnection("vim1", desired.VIMConnection{
				VimType:       "kubernetes",
				InterfaceInfo: map[string]string{"endpoint": "https://127.0.0.1:6443", "ssl_ca_cert": folded},
				AccessInfo:    map[string]string{"bearer_token": token},
			})
			if err != nil {
				t.Fatal(err)
			}
			if string(v.CACert) != want || string(v.Token) != "tok" || v.Type != desired.VIMKubernetes || v.Name != "vim1" || v.Insecure {
				t.Errorf("got %s\n%s", v, v.CACert)
			}
			var log strings.Builder
			slog.New(slog.NewTextHandler(&log, nil)).Info("x", "vim", v)
			if s := fmt.Sprintf("%v %+v %#v %s", v, v, v, log.String()); strings.Contains(s, "tok") {
				t.Errorf("the token is shown: %s", s)
			}
		})
	}
}

func TestAConnectionThatCantWorkIsRefusedByItsField(t *testing.T) {
	k := reaching(t, t.TempDir())
	t.Setenv("JIBE_TEST_SECRET", "s3cret")
	ok := map[string]string{"endpoint": "https://127.0.0.1"}
	for want, c := range map[string]desired.VIMConnection{
		"vimType":              {VimType: "vmware"},
		"endpoint is missing":  {VimType: "kubernetes"},
		"without credentials":  {VimType: "kubernetes", InterfaceInfo: map[string]string{"endpoint": "https://u:hunter2@x"}},
		"ssl_ca_cert":          {VimType: "kubernetes", InterfaceInfo: map[string]string{"endpoint": "https://x", "ssl_ca_cert": "nonsense"}},
		"neither bearer_token": {VimType: "kubernetes", InterfaceInfo: ok},
		"belong together":      {VimType: "kubernetes", InterfaceInfo: ok, AccessInfo: map[string]string{"username": "u"}},
		"accessInfo.password":  {VimType: "openstack", InterfaceInfo: ok, AccessInfo: map[string]string{"username": "u", "password": "hunter2"}},
		"accessInfo.project":   {VimType: "openstack", InterfaceInfo: ok, AccessInfo: map[string]string{"username": "u", "password": "env:JIBE_TEST_SECRET"}},
		"as whom to come": {VimType: "openstack", InterfaceInfo: ok, AccessInfo: map[string]string{"username": "u", "password": "env:JIBE_TEST_SECRET", "project": "p",
			"applicationCredentialId": "i", "applicationCredentialSecret": "env:JIBE_TEST_SECRET"}},
		"accessInfo.oidc_token_url": {VimType: "kubernetes", InterfaceInfo: ok, AccessInfo: map[string]string{"oidc_token_url": "https://x"}},
	} {
		_, err := k.ResolveConnection("vim1", c)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "vim1") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", want, err)
		}
	}
	v, err := k.ResolveConnection("os", desired.VIMConnection{VimType: "openstack", InterfaceInfo: ok,
		AccessInfo: map[string]string{"username": "u", "password": "env:JIBE_TEST_SECRET", "project": "p", "region": "r"}})
	if err != nil || string(v.Password) != "s3cret" || v.Project != "p" || v.Region != "r" || v.Type != desired.VIMOpenStack {
		t.Errorf("%v %v", v, err)
	}
}

func TestAVIMFileIsResolvedFieldByField(t *testing.T) {
	dir := t.TempDir()
	k := reaching(t, dir)
	t.Setenv("JIBE_TEST_SECRET", "s3cret")
	v, err := k.ResolveVIM(&desired.VIM{Name: "a", Type: desired.VIMKubernetes, Endpoint: "https://x", CACert: certificate(),
		Credentials: desired.Credentials{Token: "env:JIBE_TEST_SECRET", Username: "u"}})
	if err != nil || string(v.Token) != "s3cret" || string(v.CACert) != certificate() || string(v.Username) != "u" || v.Endpoint != "https://x" {
		t.Errorf("%v %v", v, err)
	}
	_, err = k.ResolveVIM(&desired.VIM{Name: "a", Kubeconfig: "file:" + dir + "/none"})
	if !errors.Is(err, secret.ErrMissing) || !strings.Contains(err.Error(), "VIM a: kubeconfig: ") {
		t.Errorf("error: %v", err)
	}
}

func FuzzResolve(f *testing.F) {
	k, err := secret.Open(f.TempDir(), nil)
	if err != nil {
		f.Fatal(err)
	}
	ref, err := k.For(secret.ForVIMs()).Encrypt("x")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(strings.TrimPrefix(ref, "age:"))
	f.Add("YWdlLWVuY3J5cHRpb24ub3JnL3YxCg")
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := k.For(secret.ForVIMs()).Resolve("age:" + s); err == nil && got != "x" {
			t.Errorf("%q became %q", s, got)
		}
	})
}
