package entrance

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/internal/lru"
)

// throttle slows down who guesses credentials: each address, and each name of HTTP basic
// authentication, from wherever, may be wrong so many times at once, and so often after that.
// Credentials that were right a while ago are let through, and so is a JWT that its issuer has
// signed, so that no caller is locked out by one who shares the address or claims his name; whether they
// are right still is found out as ever. A name that a JWT has counts for nothing: a caller who can't
// sign can't guess a signature either, and could only lock its owner out. Memory is bounded: what
// was forgotten begins anew.
type throttle struct {
	// genuine reports whether a request has a JWT that its issuer has signed for this server. It is
	// asked where the request would have to wait; nil is never.
	genuine func(*http.Request) bool
	now     func() time.Time
	salt    [sha256.Size]byte
	address pace
	claim   pace

	mu      sync.Mutex
	buckets *lru.Cache[*bucket]
	good    *lru.Cache[bool]
	trying  map[string]int // by credentials: how many requests with them are being judged
}

// pace is how often somebody may be wrong: atOnce times, and once every each after that.
type pace struct {
	atOnce float64
	each   time.Duration
}

// bucket is what is left of a pace.
type bucket struct {
	left float64
	at   time.Time
}

const (
	// throttleMemory is what addresses and claims may take, and credentials that were right,
	// each, in bytes.
	throttleMemory = 8 << 20
	bucketSize     = 32
)

func newThrottle(memory int) *throttle {
	t := &throttle{now: time.Now, address: pace{20, 2 * time.Second}, claim: pace{50, 2 * time.Second},
		buckets: lru.New[*bucket](memory, memory), good: lru.New[bool](memory, memory), trying: map[string]int{}}
	_, _ = rand.Read(t.salt[:]) // never fails
	return t
}

// attempt is a request's try at being let in.
type attempt struct {
	credentials string // as a digest; "" where there are none
	keys        []string
	taken       bool // from the buckets
	outcome     atomic.Int32
	claim       string
}

// What an authenticator said.
const (
	unjudged int32 = iota
	right
	wrong
)

type attemptKey struct{}

// Presented reports whether a request has credentials.
func Presented(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("X-Auth-Token") != ""
}

// begin says how long who asks has to wait before he is judged; 0 is not at all, and he gets an
// attempt that MUST be ended.
func (t *throttle) begin(r *http.Request, source netip.Addr) (*attempt, time.Duration) {
	a := &attempt{}
	if !Presented(r) {
		return a, 0
	}
	header := r.Header.Get("Authorization")
	a.credentials = t.hash("credentials", header+"\x00"+r.Header.Get("X-Auth-Token"))
	a.keys = []string{"address " + listener.Network(source).String()}
	if claimed, guessable := claimOf(r, header); claimed != "" {
		a.claim = t.hash("claim", claimed)
		if guessable {
			a.keys = append(a.keys, "claim "+a.claim)
		}
	}
	wait := t.admit(a, false)
	if wait > 0 && t.genuine != nil && t.genuine(r) {
		wait = t.admit(a, true)
	}
	return a, wait
}

// admit lets an attempt in, or says how long it has to wait. One that is known not to be a guess doesn't wait.
func (t *throttle) admit(a *attempt, known bool) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !known {
		known, _ = t.good.Get(a.credentials)
	}
	if known || t.trying[a.credentials] > 0 { // the same guess twice says no more than once
		t.trying[a.credentials]++
		return 0
	}
	var wait time.Duration
	for _, key := range a.keys {
		if b, p := t.bucket(key); b.left < 1 {
			wait = max(wait, time.Duration((1-b.left)*float64(p.each)))
		}
	}
	if wait > 0 {
		return wait
	}
	t.take(a.keys)
	a.taken = true
	t.trying[a.credentials]++
	return 0
}

// end learns how an attempt ended.
func (t *throttle) end(a *attempt) {
	if a.credentials == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trying[a.credentials]--; t.trying[a.credentials] <= 0 {
		delete(t.trying, a.credentials)
	}
	switch a.outcome.Load() {
	case wrong:
		t.good.Add(a.credentials, false, 1)
		if !a.taken {
			t.take(a.keys)
		}
		return
	case right:
		t.good.Add(a.credentials, true, 1)
	}
	if a.taken {
		for _, key := range a.keys {
			b, p := t.bucket(key)
			b.left = min(b.left+1, p.atOnce)
		}
	}
}

// take counts a wrong guess. What is owed is never more than a whole pace.
func (t *throttle) take(keys []string) {
	for _, key := range keys {
		b, p := t.bucket(key)
		b.left = max(b.left-1, -p.atOnce)
	}
}

func (t *throttle) bucket(key string) (*bucket, pace) {
	p := t.address
	if strings.HasPrefix(key, "claim ") {
		p = t.claim
	}
	now := t.now()
	b, ok := t.buckets.Get(key)
	if !ok {
		b = &bucket{left: p.atOnce, at: now}
		t.buckets.Add(key, b, bucketSize)
	}
	b.left = min(p.atOnce, b.left+now.Sub(b.at).Seconds()/p.each.Seconds())
	b.at = now
	return b, p
}

func (t *throttle) hash(kind, text string) string {
	h := hmac.New(sha256.New, t.salt[:])
	h.Write([]byte(kind + "\x00" + text))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// claimOf is who a request says that it is from, which is not verified: the subject of a JWT, wherever that
// stands, or the name of HTTP basic authentication, whose password can be guessed.
func claimOf(r *http.Request, header string) (name string, guessable bool) {
	name, token, guessable := r.BasicAuth()
	if !guessable {
		_, token, _ = strings.Cut(header, " ")
	}
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return name, guessable
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Iss, Sub string }
	if err != nil || json.Unmarshal(body, &claims) != nil || claims.Sub == "" {
		return name, guessable
	}
	return claims.Iss + "\x00" + claims.Sub, false
}

// seconds are a duration for Retry-After: whole ones, and at least one.
func seconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// Judged is the authenticator whose verdicts the throttle and the audit log learn.
type Judged struct{ auth.Authenticator }

// Authenticate implements [auth.Authenticator].
func (j Judged) Authenticate(r *http.Request) (auth.Identity, error) {
	who, err := j.Authenticator.Authenticate(r)
	a, _ := r.Context().Value(attemptKey{}).(*attempt)
	switch {
	case err == nil:
		if a != nil {
			a.outcome.Store(right)
		}
		audit.Note(r.Context(), func(rec *audit.Record) { rec.Identity, rec.Issuer = who.Name, who.Issuer })
	case errors.Is(err, auth.ErrUnauthenticated) && a != nil:
		a.outcome.Store(wrong)
	}
	return who, err
}

func withAttempt(ctx context.Context, a *attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// Aside is a context in which what an authenticator says counts for no attempt.
func Aside(ctx context.Context) context.Context { return withAttempt(ctx, nil) }
