package forgesync

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/internal/reference"
)

// Webhook makes a fetch happen when a forge says that something was pushed. Nothing else in a
// delivery is believed: what the branch is, is asked of the forge.
type Webhook struct {
	deliveries *forge.Deliveries // nil where --webhook-secret isn't given
	open       bool              // takes what nothing has signed
	outcomes   *prometheus.CounterVec
	lines      *rate.Limiter // of the log, about those that are refused
	from       func(*http.Request) string
	log        *slog.Logger
}

// What became of a delivery, as the metric has it.
const (
	deliveryTaken    = "taken"
	deliveryUnsigned = "unsigned"
	deliveryForged   = "forged"
	deliveryReplayed = "replayed"
	deliveryUnread   = "unread"
)

// WebhookConfig says which deliveries are taken.
type WebhookConfig struct {
	// Secret is a reference (file:PATH or env:NAME) to what the forge signs its deliveries with, "" for none.
	Secret string
	// Open takes deliveries that nothing has signed, which a flag says (--open-webhook), and Anyone where everyone is let in.
	Open, Anyone bool
	// From is where a request comes from, for the log.
	From func(*http.Request) string
	Log  *slog.Logger
}

// NewWebhook resolves the secret.
func NewWebhook(c WebhookConfig) (*Webhook, error) {
	h := &Webhook{from: c.From, log: c.Log, open: c.Open || c.Anyone, lines: rate.NewLimiter(1.0/60, 5), outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "jibe_webhook_deliveries_total",
		Help: "Calls of /webhook, by what became of them: taken, or refused as unsigned, forged, replayed (taken before) or unread (cut off, or too long).",
	}, []string{"outcome"})}
	for _, outcome := range []string{deliveryTaken, deliveryUnsigned, deliveryForged, deliveryReplayed, deliveryUnread} {
		h.outcomes.WithLabelValues(outcome) // shown before the first
	}
	if c.Secret == "" {
		return h, nil
	}
	if c.Open {
		return nil, errors.New("--webhook-secret with --open-webhook: the one takes only what is signed, the other takes everything: give one of them")
	}
	secret, err := reference.Read("--webhook-secret", c.Secret)
	if err != nil {
		return nil, err
	}
	if len(secret) < minWebhookSecret {
		return nil, errors.New("--webhook-secret: the secret is too short to keep anybody out: make one of 16 characters or more (openssl rand -hex 20)")
	}
	h.deliveries = forge.NewDeliveries(secret)
	return h, nil
}

// minWebhookSecret is the least length of a secret: whoever gets hold of one delivery may try
// secrets without asking anybody.
const minWebhookSecret = 16

// noSecretError refuses a call where nothing tells the forge's from others. It counts as unsigned.
type noSecretError struct{}

func (noSecretError) Error() string {
	return "this server takes no webhook, as it has no secret by which it knows the forge: start it with --webhook-secret, and make the forge's webhook with the same secret; or start it with --open-webhook"
}

// Is makes it a [forge.ErrUnsigned].
func (noSecretError) Is(target error) bool { return target == forge.ErrUnsigned }

// Collectors are what is measured of the deliveries.
func (h *Webhook) Collectors() []prometheus.Collector { return []prometheus.Collector{h.outcomes} }

// Open reports whether it takes what nothing has signed.
func (h *Webhook) Open() bool { return h.open }

// Handler answers deliveries, and calls taken for each that is taken. With a secret it takes what the forge has signed, once.
// Without one it takes nothing, or, where that is open to anyone, every call, and many are the same as one.
func (h *Webhook) Handler(taken func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		switch {
		case h.deliveries != nil:
			err = h.deliveries.Take(r.Header, r.Body)
		case !h.open:
			err = noSecretError{}
		}
		if err != nil {
			h.refuse(w, r, err)
			return
		}

		h.outcomes.WithLabelValues(deliveryTaken).Inc()
		taken()
		w.WriteHeader(http.StatusAccepted)
	})
}

func (h *Webhook) refuse(w http.ResponseWriter, r *http.Request, err error) {
	outcome, status := deliveryUnread, http.StatusBadRequest
	switch {
	case errors.Is(err, forge.ErrUnsigned):
		outcome, status = deliveryUnsigned, http.StatusForbidden
	case errors.Is(err, forge.ErrForged):
		outcome, status = deliveryForged, http.StatusForbidden
	case errors.Is(err, forge.ErrReplayed):
		outcome, status = deliveryReplayed, http.StatusConflict
	case errors.Is(err, forge.ErrTooLong):
		status = http.StatusRequestEntityTooLarge
	}
	h.outcomes.WithLabelValues(outcome).Inc()
	if h.lines.Allow() {
		h.log.WarnContext(r.Context(), "a call of /webhook was refused", "address", h.from(r), "error", err)
	}
	answer.Problem(w, status, err.Error())
}
