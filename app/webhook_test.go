package app

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/app/entrance"
	"github.com/jibe-vnfm/jibe/app/forgesync"
)

func TestWithoutASecretTheWebhookTakesNothing(t *testing.T) {
	t.Parallel()
	h, err := forgesync.NewWebhook(Options{Log: slog.New(slog.DiscardHandler)}.webhooks(&entrance.Entrance{}))
	if err != nil {
		t.Fatal(err)
	}

	for name, headers := range map[string]map[string]string{
		"unsigned":                {},
		"signed with nothing":     {"X-Gitea-Signature": "", "X-Hub-Signature-256": "sha256="},
		"with GitLab's token":     {"X-Gitlab-Token": ""},
		"signed by an empty key":  {"X-Gitea-Signature": "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
		"with an authorization":   {"Authorization": "Bearer a"},
		"as from another address": {"X-Forwarded-For": "127.0.0.1"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/webhook", &bytes.Buffer{})
		for key, value := range headers {
			r.Header.Set(key, value)
		}
		w := httptest.NewRecorder()

		h.Handler(nil).ServeHTTP(w, r) // a fetch would meet a repository that isn't there

		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "--webhook-secret") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestTheWebhookIsOpenOnlyWhereAFlagSaysSo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options Options
		open    bool
	}{
		"nothing":        {Options{}, false},
		"open":           {Options{OpenWebhook: true}, true},
		"for everyone":   {Options{InsecureDev: true}, true},
		"with a remote":  {Options{Remote: "https://git.example.org/vnfs.git"}, false},
		"open metrics":   {Options{OpenMetrics: true}, false},
		"plain HTTP too": {Options{AllowPlainHTTP: true}, false},
	} {
		h, err := forgesync.NewWebhook(test.options.webhooks(nil))
		if err != nil {
			t.Fatal(err)
		}
		if h.Open() != test.open {
			t.Errorf("%s: open %v", name, h.Open())
		}
	}

	both := Options{OpenWebhook: true, WebhookSecret: "env:JIBE_SECRET_NONE"}
	if _, err := forgesync.NewWebhook(both.webhooks(nil)); err == nil || !strings.Contains(err.Error(), "--open-webhook") {
		t.Errorf("a secret with an open webhook: %v", err)
	}
}
