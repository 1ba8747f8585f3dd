package forge

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

const deliverySecret = "a secret of the webhook"

// header makes one of pairs.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func macOf(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// signers make the headers that each forge's documentation describes.
func signers(at time.Time) map[string]func(secret, id, body string) http.Header {
	return map[string]func(secret, id, body string) http.Header{
		"Gitea": func(secret, id, body string) http.Header {
			return header("X-Gitea-Event", "push", "X-Gitea-Delivery", id, "X-Gitea-Signature", hex.EncodeToString(macOf([]byte(secret), body)))
		},
		"GitHub": func(secret, id, body string) http.Header {
			return header("X-Github-Event", "push", "X-Github-Delivery", id, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(macOf([]byte(secret), body)))
		},
		"GitLab by its secret token": func(secret, id, _ string) http.Header {
			return header("X-Gitlab-Event", "Push Hook", "Idempotency-Key", id, "X-Gitlab-Token", secret)
		},
		"GitLab by its signing token": func(secret, id, body string) http.Header {
			stamp := strconv.FormatInt(at.Unix(), 10)
			return header("X-Gitlab-Event", "Push Hook", "Webhook-Id", id, "Webhook-Timestamp", stamp,
				"Webhook-Signature", "v1,bm90IHRoaXMgb25l v1,"+base64.StdEncoding.EncodeToString(macOf([]byte(secret), id+"."+stamp+"."+body)))
		},
	}
}

func TestADeliveryThatAForgeHasSignedIsTakenOnce(t *testing.T) {
	for name, sign := range signers(time.Now()) {
		t.Run(name, func(t *testing.T) {
			d := NewDeliveries(deliverySecret)
			take := func(secret, id, signed, sent string) error {
				return d.Take(sign(secret, id, signed), strings.NewReader(sent))
			}
			if err := take("a guess", "1", "{}", "{}"); !errors.Is(err, ErrForged) {
				t.Errorf("signed with another secret: %v", err)
			}
			if err := take(deliverySecret, "1", "{}", "{}"); err != nil {
				t.Errorf("signed with the secret: %v", err)
			}
			if err := take(deliverySecret, "1", "{}", "{}"); !errors.Is(err, ErrReplayed) {
				t.Errorf("the same again: %v", err)
			}
			if err := take(deliverySecret, "2", `{"after":"1"}`, `{"after":"1"}`); err != nil {
				t.Errorf("another one: %v", err)
			}
		})
	}
}

func TestWhatASignatureCoversCantBeChanged(t *testing.T) {
	for name, sign := range signers(time.Now()) {
		if name == "GitLab by its secret token" { // which covers nothing
			continue
		}
		if err := NewDeliveries(deliverySecret).Take(sign(deliverySecret, "1", "{}"), strings.NewReader("{} ")); !errors.Is(err, ErrForged) {
			t.Errorf("%s: another body: %v", name, err)
		}
	}
}

func TestAReplayIsOneWhateverIdItBears(t *testing.T) {
	for _, name := range []string{"Gitea", "GitHub"} {
		d, sign := NewDeliveries(deliverySecret), signers(time.Now())[name]
		if err := d.Take(sign(deliverySecret, "1", "{}"), strings.NewReader("{}")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := d.Take(sign(deliverySecret, "2", "{}"), strings.NewReader("{}")); !errors.Is(err, ErrReplayed) {
			t.Errorf("%s: with another id: %v", name, err)
		}
	}
}

func TestADeliveryOfAnotherHourIsRefusedWhereItsTimeIsSigned(t *testing.T) {
	for _, at := range []time.Duration{-time.Hour, time.Hour} {
		sign := signers(time.Now().Add(at))["GitLab by its signing token"]
		if err := NewDeliveries(deliverySecret).Take(sign(deliverySecret, "1", "{}"), strings.NewReader("{}")); !errors.Is(err, ErrReplayed) {
			t.Errorf("%s from now: %v", at, err)
		}
	}
}

func TestASigningTokenInTheFormOfStandardWebhooksIsDecoded(t *testing.T) {
	key := []byte("0123456789abcdef01234567")
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	h := header("Webhook-Id", "1", "Webhook-Timestamp", stamp, "Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(macOf(key, "1."+stamp+".{}")))
	if err := NewDeliveries("whsec_"+base64.StdEncoding.EncodeToString(key)).Take(h, strings.NewReader("{}")); err != nil {
		t.Error(err)
	}
}

func TestAnUnsignedDeliveryIsRefused(t *testing.T) {
	for name, h := range map[string]http.Header{
		"no header":             {},
		"only an old signature": header("X-Hub-Signature", "sha1=00"),
	} {
		if err := NewDeliveries(deliverySecret).Take(h, strings.NewReader("{}")); !errors.Is(err, ErrUnsigned) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWeakerSignatureMakesNothingGood(t *testing.T) {
	h := header("X-Gitea-Signature", hex.EncodeToString(macOf([]byte("a guess"), "{}")), "X-Gitlab-Token", deliverySecret)
	if err := NewDeliveries(deliverySecret).Take(h, strings.NewReader("{}")); !errors.Is(err, ErrForged) {
		t.Errorf("a wrong signature beside the right token: %v", err)
	}
}

func TestADeliveryThatIsTooLongIsRefused(t *testing.T) {
	long := bytes.Repeat([]byte(" "), maxDelivery+1)
	h := signers(time.Now())["Gitea"](deliverySecret, "1", string(long))
	if err := NewDeliveries(deliverySecret).Take(h, bytes.NewReader(long)); !errors.Is(err, ErrTooLong) {
		t.Errorf("got %v", err)
	}
}

func FuzzNoDeliveryWithoutTheSecretIsTaken(f *testing.F) {
	f.Add("X-Gitea-Signature", "00", "{}")
	f.Add("X-Hub-Signature-256", "sha256=", "{}")
	f.Add("X-Gitlab-Token", "", "{}")
	f.Add("Webhook-Signature", "v1,", "{}")
	f.Fuzz(func(t *testing.T, name, value, body string) {
		h := header("Webhook-Id", "1", "Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10), name, value)
		if NewDeliveries("a secret that isn't in the corpus, "+deliverySecret).Take(h, strings.NewReader(body)) == nil {
			t.Errorf("taken: %s: %q", name, value)
		}
	})
}
