package secret_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

// liar stands between Jibe and a transit engine, and answers in its place while it lies.
type liar struct {
	*httptest.Server
	engine *transitServer
	lie    atomic.Pointer[func(w http.ResponseWriter, operation, sent string)]
}

func newLiar(t *testing.T, settings *tls.Config) (*liar, secret.LockOptions) {
	t.Helper()
	l := &liar{engine: startTransit(t)}
	l.Server = httptest.NewUnstartedServer(l)
	l.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	l.TLS = settings
	l.StartTLS()
	t.Cleanup(l.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return l, secret.LockOptions{KMS: l.URL + "/transit/jibe", TokenFile: l.engine.file("token"), CA: ca}
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lie := l.lie.Load()
	if lie == nil {
		l.engine.ServeHTTP(w, r)
		return
	}
	sent, _ := io.ReadAll(r.Body)
	operation := strings.Split(r.URL.Path, "/")[3]
	r.Body = io.NopCloser(bytes.NewReader(sent))
	var with struct{ Plaintext, Ciphertext string }
	_ = json.Unmarshal(sent, &with)
	(*lie)(w, operation, with.Plaintext+with.Ciphertext)
}

func answerField(w http.ResponseWriter, field, value string) {
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{field: value}})
}

func TestAKMSThatLiesGetsNothingAndChangesNothing(t *testing.T) {
	t.Parallel()

	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	foreign := base64.StdEncoding.EncodeToString([]byte(rand.Text()[:16]))
	redirect := func(to string, status int) func(http.ResponseWriter, string, string) {
		return func(w http.ResponseWriter, _, _ string) { w.Header().Set("Location", to); w.WriteHeader(status) }
	}
	for name, c := range map[string]struct {
		lie  func(w http.ResponseWriter, operation, sent string)
		says string
	}{
		"another key's plaintext": {func(w http.ResponseWriter, operation, _ string) {
			answerField(w, map[string]string{"encrypt": "ciphertext", "decrypt": "plaintext"}[operation], foreign)
		}, ""},
		"a plaintext of another size": {func(w http.ResponseWriter, _, _ string) {
			answerField(w, "plaintext", base64.StdEncoding.EncodeToString(make([]byte, 4096)))
		}, "isn't what its API says"},
		"a body without an end": {func(w http.ResponseWriter, _, _ string) {
			for {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 32<<10)); err != nil {
					return
				}
			}
		}, "more than 65536 bytes"},
		"an error with 200": {func(w http.ResponseWriter, _, _ string) {
			_, _ = io.WriteString(w, `{"errors":["policy says no"],"data":{"plaintext":"`+foreign+`","ciphertext":"x"}}`)
		}, "policy says no"},
		"a page":                      {func(w http.ResponseWriter, _, _ string) { _, _ = io.WriteString(w, "<html>sign in</html>") }, "isn't what its API says"},
		"a redirect to another host":  {redirect(other.URL+"/v1/transit/decrypt/jibe", http.StatusTemporaryRedirect), "redirects to " + other.URL},
		"a redirect by GET":           {redirect(other.URL, http.StatusFound), "redirects to " + other.URL},
		"a redirect to what is local": {redirect("unix:///run/docker.sock", http.StatusPermanentRedirect), "redirects elsewhere"},
		"an error that echoes all": {func(w http.ResponseWriter, _, sent string) {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{"\x1b[2Jbad " + sent, strings.Repeat("long ", 5000)}})
		}, "answered 400: [2Jbad ***; long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, options := newLiar(t, nil)
			lock := lockOf(t, options)
			dir := t.TempDir()
			runs, err := secret.Open(dir, lock)
			if err != nil {
				t.Fatal(err)
			}
			ref := encrypted(t, runs, "pa55")
			file := filepath.Join(dir, secret.IdentityFile)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := secret.BeginRotation(dir, lock, lock)
			if err != nil {
				t.Fatal(err)
			}

			var asked []string
			l.lie.Store(new(func(w http.ResponseWriter, operation, sent string) {
				asked = append(asked, sent)
				c.lie(w, operation, sent)
			}))
			_, starts := secret.Open(dir, lock)
			rotates := errors.Join(r.NewKey())
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}

			for what, err := range map[string]error{"a start": starts, "a rotation": rotates} {
				if err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 1000 {
					t.Errorf("%s: %v", what, err)
					continue
				}
				for _, hidden := range append(asked, l.engine.token, "AGE-SECRET", foreign) {
					if hidden != "" && strings.Contains(err.Error(), hidden) {
						t.Errorf("%s tells %q: %v", what, hidden, err)
					}
				}
			}
			if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, text) {
				t.Errorf("the key's file has changed: %v", err)
			}
			if got, err := runs.For(secret.ForVIMs()).Resolve(ref); got != "pa55" || err != nil {
				t.Errorf("a process that runs reads %q, %v", got, err)
			}
			l.lie.Store(nil)
			if _, err := secret.Open(dir, lock); err != nil {
				t.Errorf("once it tells the truth: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		if n := elsewhere.Load(); n > 0 {
			t.Errorf("the server that it redirects to was asked %d times", n)
		}
	})
}

func TestNoKeyIsLockedByWhatAKMSDoesNotDecrypt(t *testing.T) {
	t.Parallel()

	l, options := newLiar(t, nil)
	l.lie.Store(new(func(w http.ResponseWriter, operation, sent string) {
		if operation == "encrypt" { // it encrypts something else
			sent = base64.StdEncoding.EncodeToString([]byte(rand.Text()[:16]))
			answerField(w, "ciphertext", "vault:v1:"+sent)
			return
		}
		answerField(w, "plaintext", strings.TrimPrefix(sent, "vault:v1:"))
	}))
	dir := t.TempDir()
	if _, err := secret.Open(dir, lockOf(t, options)); !errors.Is(err, secret.ErrLocked) || !strings.Contains(err.Error(), "the key would be lost") {
		t.Errorf("a new key: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, secret.IdentityFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a key was written: %v", err)
	}
}

func TestTheTLSOfAKMSIsNeverWeakened(t *testing.T) {
	for _, name := range []string{"VAULT_SKIP_VERIFY", "BAO_SKIP_VERIFY"} {
		t.Setenv(name, "true")
	}
	_, old := newLiar(t, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}) //nolint:gosec // what must be refused
	_, unknown := newLiar(t, nil)
	unknown.CA = ""
	for name, options := range map[string]secret.LockOptions{"TLS 1.1": old, "an authority that isn't known, with variables of Vault's client": unknown} {
		if _, err := secret.Open(t.TempDir(), lockOf(t, options)); !errors.Is(err, secret.ErrLocked) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheTokenForAKMSIsOneLineOfThisProcessAlone(t *testing.T) {
	t.Parallel()

	s := startTransit(t)
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		says string // "" where it is taken
	}{
		"a line":                        {s.token + "\r\n", 0o600, ""},
		"read by the group":             {s.token, 0o640, "chmod 600"},
		"read by all":                   {s.token, 0o644, "chmod 600"},
		"written by all":                {s.token, 0o602, "chmod 600"},
		"a header after it":             {s.token + "\r\nX-Vault-Namespace: root", 0o600, "one line"},
		"another line":                  {s.token + "\n" + s.root, 0o600, "one line"},
		"a NUL in it":                   {s.token + "\x00" + s.root, 0o600, "one line"},
		"nothing":                       {"\n", 0o600, "one line"},
		"what isn't in ASCII, as a BOM": {"\ufeff" + s.token, 0o600, "one line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := s.options("jibe")
			options.TokenFile = filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(options.TokenFile, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(options.TokenFile, c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := secret.Open(t.TempDir(), lockOf(t, options))
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if err != nil && (!errors.Is(err, secret.ErrLocked) || strings.Contains(err.Error(), s.token) || strings.Contains(err.Error(), s.root)) {
				t.Errorf("isn't only that it is locked: %v", err)
			}
		})
	}
}

func TestTheURLOfAKMSNamesAnEngineAndAKey(t *testing.T) {
	t.Parallel()

	for _, at := range []string{
		"https://kms/transit/../sys/jibe", "https://kms/transit/%2e%2e/sys/jibe", "https://kms/transit/jibe%2f..%2fother", "https://kms/transit//jibe",
		"https://kms/transit/jibe%3fx=1", "https://kms/transit/jibe%0d%0aX: y", "https://kms/transit/jibe?x", "https://kms/transit/jibe?", "https://kms/transit/jibe#x",
		"https://kms/transit/.", "https://kms/jibe", "https://kms", "http://kms/transit/jibe", "http://127.0.0.1.example/transit/jibe", "https://u:p@kms/transit/jibe",
		"ftp://kms/transit/jibe", "https:///transit/jibe",
	} {
		if lock, err := (secret.LockOptions{KMS: at, TokenFile: "/token"}).Lock(); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v, %v", at, lock, err)
		}
	}
	for _, at := range []string{"https://kms:8200/transit/jibe", "https://kms/team-a/transit/jibe.v1/", "http://[::1]:8200/transit/jibe"} {
		if _, err := (secret.LockOptions{KMS: at, TokenFile: "/token"}).Lock(); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}
