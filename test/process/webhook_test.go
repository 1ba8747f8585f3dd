package process_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// hookSecret is what the forge and Jibe both know.
const hookSecret = "0123456789abcdef0123"

// deliver calls /webhook as a forge does, and returns the status of the answer.
func deliver(t *testing.T, s *process.Server, body string, header ...string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/webhook", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

func signedAsGitea(body string) string {
	m := hmac.New(sha256.New, []byte(hookSecret))
	m.Write([]byte(body))
	return hex.EncodeToString(m.Sum(nil))
}

// delivered is how many deliveries had an outcome, by the metrics.
func delivered(t *testing.T, s *process.Server, outcome string) string {
	t.Helper()
	answer, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(answer.Body)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), fmt.Sprintf("jibe_webhook_deliveries_total{outcome=%q} ", outcome)); ok {
			return n
		}
	}
	return ""
}

func TestWhatARealGiteaDeliversHasJibeFetchAndWhatNobodySignedDoesNot(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	g := newGiteaRepo(t)
	write := func(path, text string) string { return g.write("main", path, text) }
	s := g.start("--poll", "24h", "--webhook-secret", "file:"+g.keep("webhook-secret", hookSecret+"\n"))
	mirror := func() string {
		head, err := process.Git(context.WithoutCancel(t.Context()), s.Desired(), "rev-parse", "refs/heads/main")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(head)
	}
	before := mirror()

	wrong := g.hook(s, "another secret, of another forge", "push")
	pushed := write("one.txt", "1")
	// A Gitea at work tells a new hook also of what was pushed a moment before it.
	kit.Until(t, "a delivery is refused as forged", func() bool { n := delivered(t, s, "forged"); return n != "" && n != "0" })
	if got := mirror(); got != before {
		t.Errorf("the mirror went to %s by a delivery with a wrong signature", got)
	}
	if _, err := g.admin.DeleteRepoHook(g.owner, g.name, wrong.ID); err != nil {
		t.Fatal(err)
	}

	g.hook(s, hookSecret, "push")
	pushed = write("two.txt", pushed)
	kit.Eventually(t, func() error {
		if got := mirror(); got != pushed {
			return fmt.Errorf("the mirror is at %s, and %s was pushed", got, pushed)
		}
		return nil
	})
	if n := delivered(t, s, "taken"); n == "" || n == "0" {
		t.Error("no delivery was taken, and the push is here")
	}

	body := `{"ref":"refs/heads/main"}`
	for _, test := range []struct {
		what    string
		want    int
		headers []string
	}{
		{"nothing signed", http.StatusForbidden, nil},
		{"signed wrongly", http.StatusForbidden, []string{"X-Gitea-Signature", signedAsGitea(body + " ")}},
		{"signed", http.StatusAccepted, []string{"X-Gitea-Signature", signedAsGitea(body), "X-Gitea-Delivery", "1"}},
		{"signed, again", http.StatusConflict, []string{"X-Gitea-Signature", signedAsGitea(body), "X-Gitea-Delivery", "2"}},
	} {
		if got := deliver(t, s, body, test.headers...); got != test.want {
			t.Errorf("%s: answered with %d, want %d", test.what, got, test.want)
		}
	}
	if strings.Contains(s.Log(), hookSecret) {
		t.Error("the secret is in the log")
	}
}

func TestASecretOfTheWebhookThatKeepsNobodyOutIsRefused(t *testing.T) {
	t.Parallel()
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ value, want string }{
		"too short":                   {"file:" + short, "too short"},
		"the secret, not a reference": {"hunter2hunter2hunter2", "file:PATH or env:NAME"},
		"a file that isn't there":     {"file:" + short + "er", "no such file"},
	} {
		if out := refusedStart(t, t.TempDir(), "--webhook-secret", test.value); !strings.Contains(out, test.want) || strings.Contains(out, "hunter2") {
			t.Errorf("%s: %s", name, out)
		}
	}
}
