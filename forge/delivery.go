package forge

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
)

var (
	// ErrUnsigned is returned for a delivery that none of the forges has signed: whoever sent it
	// doesn't know the secret, or the forge's webhook was made without one.
	ErrUnsigned = errors.New("the delivery isn't signed: make the forge's webhook with the secret that Jibe was given")
	// ErrForged is returned for a delivery whose signature is another than the secret makes.
	ErrForged = errors.New("the delivery's signature isn't one of the secret that Jibe was given")
	// ErrReplayed is returned for a delivery that was taken already.
	ErrReplayed = errors.New("the delivery was taken already")
	// ErrTooLong is returned for a delivery that is longer than forges make them.
	ErrTooLong = fmt.Errorf("the delivery has more than %d bytes", maxDelivery)
)

const (
	// maxDelivery is far above what a push makes forges send.
	maxDelivery = 25 << 20
	// deliveriesKept and deliveryKept bound what is remembered of deliveries, by number and time.
	deliveriesKept = 10_000
	deliveryKept   = 24 * time.Hour
	// clockDifference is how far the time in a delivery may be from now.
	clockDifference = 5 * time.Minute
)

// Deliveries takes what a forge's webhook delivers, each once. It is safe for concurrent use.
//
// Nothing in a delivery is believed but that the forge has sent it. What was taken is remembered for
// a bounded time by what its signature covers, as the id that it bears isn't covered: a replay
// with another id is still one. One that is forgotten, in a day or by a restart, would make one
// fetch happen: branches are read from the forge and never from a delivery.
type Deliveries struct {
	secret string
	taken  *expirable.LRU[[sha256.Size]byte, struct{}]
	now    func() time.Time
}

// NewDeliveries returns what takes deliveries that are signed with the secret.
func NewDeliveries(secret string) *Deliveries {
	return &Deliveries{
		secret: secret, now: time.Now,
		taken: expirable.NewLRU[[sha256.Size]byte, struct{}](deliveriesKept, nil, deliveryKept),
	}
}

// Take reads a delivery and returns nil where the forge has sent it and it is new. The body is
// read to its end, or as far as it may be long, and not kept.
//
// The strongest signature that it bears decides; a weaker one makes nothing good:
//
//   - GitLab's signing token (webhook-signature, of id, time and body; Standard Webhooks)
//   - Gitea, Forgejo (X-Gitea-Signature: HMAC-SHA256 of the body)
//   - GitHub (X-Hub-Signature-256: the same)
//   - GitLab's secret token (X-Gitlab-Token: the secret itself)
func (d *Deliveries) Take(h http.Header, body io.Reader) error {
	var of string // what is signed before the body
	var key []byte
	var want [][]byte
	switch {
	case h.Get("Webhook-Signature") != "":
		id, at := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
		seconds, err := strconv.ParseInt(at, 10, 64)
		if id == "" || err != nil {
			return ErrForged
		}
		if apart := d.now().Sub(time.Unix(seconds, 0)).Abs(); apart > clockDifference {
			return fmt.Errorf("%w: its time is %s from now (compare the clocks of this machine and the forge's)", ErrReplayed, apart.Round(time.Second))
		}
		of, key = id+"."+at+".", d.signingKey()
		for part := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
			if text, ok := strings.CutPrefix(part, "v1,"); ok {
				if mac, err := base64.StdEncoding.DecodeString(text); err == nil {
					want = append(want, mac)
				}
			}
		}
	case h.Get("X-Gitea-Signature") != "":
		key, want = []byte(d.secret), hexMAC(h.Get("X-Gitea-Signature"))
	case h.Get("X-Hub-Signature-256") != "":
		text, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
		if !ok {
			return ErrForged
		}
		key, want = []byte(d.secret), hexMAC(text)
	case h.Get("X-Gitlab-Token") != "":
		return d.takeToken(h, body)
	default:
		return ErrUnsigned
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(of))
	if err := readInto(mac, body); err != nil {
		return err
	}
	sum := mac.Sum(nil)
	for _, w := range want {
		if hmac.Equal(sum, w) {
			return d.once([sha256.Size]byte(sum))
		}
	}
	return ErrForged
}

// takeToken is Take where the secret comes along in clear. Who has seen it once can send anything: all
// that can be refused is the same again.
func (d *Deliveries) takeToken(h http.Header, body io.Reader) error {
	a, b := sha256.Sum256([]byte(h.Get("X-Gitlab-Token"))), sha256.Sum256([]byte(d.secret))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return ErrForged
	}
	sum := sha256.New()
	sum.Write([]byte(h.Get("Idempotency-Key") + "\n" + h.Get("X-Gitlab-Event-UUID") + "\n")) // GitLab's test events are all alike
	if err := readInto(sum, body); err != nil {
		return err
	}
	return d.once([sha256.Size]byte(sum.Sum(nil)))
}

// once remembers what was taken.
func (d *Deliveries) once(sum [sha256.Size]byte) error {
	// Two of the same at once may both pass: each makes a fetch happen, which many pokes are one of.
	if d.taken.Contains(sum) {
		return ErrReplayed
	}
	d.taken.Add(sum, struct{}{})
	return nil
}

// signingKey is the key of a signing token: Standard Webhooks write it in base64 behind whsec_.
func (d *Deliveries) signingKey() []byte {
	if text, ok := strings.CutPrefix(d.secret, "whsec_"); ok {
		if key, err := base64.StdEncoding.DecodeString(text); err == nil {
			return key
		}
	}
	return []byte(d.secret)
}

func hexMAC(text string) [][]byte {
	mac, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	return [][]byte{mac}
}

// readInto reads a body of a length that forges make.
func readInto(sum hash.Hash, body io.Reader) error {
	n, err := io.Copy(sum, io.LimitReader(body, maxDelivery+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the delivery: %w", err)
	case n > maxDelivery:
		return ErrTooLong
	}
	return nil
}
