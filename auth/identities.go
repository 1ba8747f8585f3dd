package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"sync"
	"time"
)

// Identities are the callers of a token file as it is now: a change of the file counts from the
// next request on. A file that can't be used leaves those of the last good one in force, which
// the log and [Identities.Broken] tell. It is safe for concurrent use.
type Identities struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu   sync.Mutex
	good *Tokens
	// seen is the file as it was read last, and read when that was. It is nil where the file
	// wasn't there.
	seen     fs.FileInfo
	read     time.Time
	broken   error
	onReload func(error)
}

// settle is how long a file is read again after it was written: its times tell nothing of a
// second write in the same moment.
const settle = 2 * time.Second

// OpenIdentities reads the token file at path. Where there is none it makes one, readable by its
// owner alone, with one admin token. A file that others can read is refused.
func OpenIdentities(path string, log *slog.Logger) (*Identities, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	i := &Identities{path: path, log: log, now: time.Now}
	tokens, info, err := load(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make token file: %w", err)
		}
		tokens, info, err = load(path)
	}
	if err != nil {
		return nil, err
	}
	i.good, i.seen, i.read = tokens, info, i.now()
	return i, nil
}

// current reads the file again if it has changed.
func (i *Identities) current() *Tokens {
	i.mu.Lock()
	defer i.mu.Unlock()
	info, err := os.Stat(i.path)
	if err == nil && i.seen != nil && os.SameFile(info, i.seen) && info.ModTime().Equal(i.seen.ModTime()) &&
		info.Size() == i.seen.Size() && info.Mode() == i.seen.Mode() && i.read.Sub(info.ModTime()) > settle {
		return i.good
	}
	tokens, info, err := load(i.path)
	i.seen, i.read = info, i.now()
	switch {
	case err == nil:
		if i.broken != nil {
			i.log.Info("the token file can be used again", "file", i.path)
		}
		if i.onReload != nil && (i.broken != nil || !reflect.DeepEqual(tokens, i.good)) {
			i.onReload(nil)
		}
		i.good, i.broken = tokens, nil
	case i.broken == nil || i.broken.Error() != err.Error():
		i.broken = err
		if i.onReload != nil {
			i.onReload(err)
		}
		i.log.Error("the token file can't be used: who it let in before is let in still, and nobody else", "file", i.path, "error", err)
	}
	return i.good
}

// OnReload has f called when others are let in from now on because the file has changed, and when it
// can't be used any more: err says why. f must not authenticate anybody.
func (i *Identities) OnReload(f func(err error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.onReload = f
}

// Broken is why the file can't be used as it is now, nil where it can.
func (i *Identities) Broken() error {
	i.current()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.broken
}

// Authenticate implements [Authenticator] for static tokens.
func (i *Identities) Authenticate(r *http.Request) (Identity, error) {
	return i.current().Authenticate(r)
}

func (i *Identities) whose(token string) (Identity, error) { return i.current().whose(token) }

// Certified is whose the certificate is. The caller has verified that it comes from an
// authority that is believed.
func (i *Identities) Certified(leaf *x509.Certificate) (Identity, error) {
	return i.current().certified(leaf)
}

// Current is what the caller may do now: as the file says where it is the file that says so, else
// as who has them. ok is false for one who was taken out of the file.
func (i *Identities) Current(who Identity) (now Identity, ok bool) {
	if i == nil || who.Issuer != IssuerTokens && who.Issuer != IssuerCertificates {
		return who, true
	}
	return i.current().current(who)
}
