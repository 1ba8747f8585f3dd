package secret

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
)

// RecipientsFile is the name of the file in the data directory that lists who else can decrypt
// what this installation encrypts: one age recipient ("age1…") a line. It is on the host and
// not in git, as whoever is in it can read each secret from then on.
const RecipientsFile = "recipients.txt"

// maxRecipients bounds the others.
const maxRecipients = 20

// ErrLocked is returned where the key can't be read because what unlocks it is away, refuses, or
// wasn't named.
var ErrLocked = errors.New("the secret key is locked")

// keyring is what the key's file and the list of recipients held when they were last read.
type keyring struct {
	// identities are the current one and then the former ones, newest first.
	identities []*age.X25519Identity
	others     []*age.X25519Recipient
	// seed is what derived keys are made of; it never changes.
	seed []byte
	// clear says that the file isn't locked.
	clear bool
}

func (r *keyring) recipients() []age.Recipient {
	out := []age.Recipient{r.identities[0].Recipient()}
	for _, o := range r.others {
		out = append(out, o)
	}
	return out
}

func (r *keyring) readers() []age.Identity {
	out := make([]age.Identity, len(r.identities))
	for i, id := range r.identities {
		out[i] = id
	}
	return out
}

// stamp tells a file from the one that took its place.
type stamp struct {
	changed time.Time
	size    int64
	info    os.FileInfo
}

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return stamp{}, nil
	}
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.ModTime(), info.Size(), info}, nil
}

func (s stamp) same(as stamp) bool {
	return s.changed.Equal(as.changed) && s.size == as.size && (s.info == nil) == (as.info == nil) && (s.info == nil || os.SameFile(s.info, as.info))
}

// keys reads the key's files, and reads them again when they have changed: a key is rotated while
// a server runs. It is safe for concurrent use.
type keys struct {
	dir  string
	lock Lock // nil for none

	mu     sync.Mutex
	ring   *keyring
	stamps [2]stamp
	failed error     // of the last look at files that have changed
	again  time.Time // when a lock that was away is asked next
}

// patience is the pause between two questions to a lock that was away.
const patience = 30 * time.Second

// now is the keyring. Where the files have become unreadable, it is the former one together with
// an error: what is encrypted already can still be read.
func (k *keys) now() (*keyring, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var stamps [2]stamp
	for i, name := range []string{IdentityFile, RecipientsFile} {
		var err error
		if stamps[i], err = stampOf(filepath.Join(k.dir, name)); err != nil {
			return k.ring, fmt.Errorf("open secret key: %w", err)
		}
	}
	if k.ring != nil && stamps[0].same(k.stamps[0]) && stamps[1].same(k.stamps[1]) {
		return k.ring, k.failed
	}
	if k.ring != nil && time.Now().Before(k.again) {
		return k.ring, k.failed
	}
	next, err := readKeyring(k.dir, k.lock)
	if k.failed = err; errors.Is(err, ErrLocked) {
		k.again = time.Now().Add(patience)
		return k.ring, err
	}
	k.stamps, k.again = stamps, time.Time{}
	if err == nil {
		k.ring = next
	}
	return k.ring, err
}

// readKeyring reads the files. Errors quote nothing of them.
func readKeyring(dir string, lock Lock) (*keyring, error) {
	path := filepath.Join(dir, IdentityFile)
	text, err := readPrivate(path, 0o077, "others may read %s: run chmod 600 on it")
	if err != nil {
		return nil, err
	}
	ring := &keyring{clear: !bytes.HasPrefix(text, []byte(ageHeader))}
	switch {
	case !ring.clear && lock == nil:
		return nil, fmt.Errorf("%w: %s is encrypted: start jibe with the flags --key-kms or --key-plugin that it was made with", ErrLocked, path)
	case !ring.clear:
		if text, err = unlock(text, lock); err != nil {
			return nil, fmt.Errorf("open secret key %s: %w", path, err)
		}
	case lock != nil:
		return nil, fmt.Errorf("open secret key: %s is in clear, although %s is to keep it: run jibe secret rotate with the same flags", path, lock)
	}
	if err := ring.parse(text); err != nil {
		return nil, fmt.Errorf("open secret key: %s %w: restore it from a copy", path, err)
	}
	list, err := readPrivate(filepath.Join(dir, RecipientsFile), 0o022, "others may write %s: run chmod go-w on it")
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if ring.others, err = parseRecipients(list); err != nil {
			return nil, fmt.Errorf("recipients of secrets: %s: %w", filepath.Join(dir, RecipientsFile), err)
		}
	}
	return ring, nil
}

// readPrivate reads a file of which none of the mode's bits may be set; refusal says so.
func readPrivate(path string, never os.FileMode, refusal string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open secret key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("open secret key: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("open secret key: %s is no regular file", path)
	case info.Mode().Perm()&never != 0:
		return nil, fmt.Errorf("open secret key: "+refusal, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret))
	if err != nil {
		return nil, fmt.Errorf("open secret key: %w", err)
	}
	return text, nil
}

// seedLine begins the line with the seed of derived keys.
const seedLine = "# derived keys: "

// parse reads the identities and the seed. What it returns quotes nothing of the text.
func (r *keyring) parse(text []byte) error {
	found, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil || len(found) == 0 {
		return errors.New("doesn't hold an age identity")
	}
	for _, one := range found {
		id, ok := one.(*age.X25519Identity)
		if !ok {
			return errors.New("holds another identity than X25519 (AGE-SECRET-KEY-1…)")
		}
		r.identities = append(r.identities, id)
	}
	// An installation whose key was never rotated has no line: its seed is what HMAC makes of the
	// identity, which is longer than a block of its hash.
	sum := sha256.Sum256([]byte(r.identities[len(r.identities)-1].String()))
	r.seed = sum[:]
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, seedLine); ok {
			if r.seed, err = hex.DecodeString(strings.TrimSpace(rest)); err != nil || len(r.seed) != sha256.Size {
				return errors.New("has a damaged line of derived keys")
			}
		}
	}
	return nil
}

// text is the content of the key's file.
func (r *keyring) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Jibe's secret key. Keep a copy: without it encrypted credentials are lost.\n# public key: %s\n", r.identities[0].Recipient())
	fmt.Fprintf(&b, "%s%x\n%s\n", seedLine, r.seed, r.identities[0])
	if len(r.identities) > 1 {
		b.WriteString("# Former keys, for what was encrypted for them.\n")
	}
	for _, id := range r.identities[1:] {
		fmt.Fprintf(&b, "%s\n", id)
	}
	return b.Bytes()
}

// parseRecipients reads the list of the others, each once. A line that isn't one refuses all.
func parseRecipients(text []byte) ([]*age.X25519Recipient, error) {
	var out []*age.X25519Recipient
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r, err := age.ParseX25519Recipient(line)
		if err != nil {
			return nil, fmt.Errorf("line %d is no age recipient (age1…)", number)
		}
		if !slices.ContainsFunc(out, func(o *age.X25519Recipient) bool { return o.String() == r.String() }) {
			out = append(out, r)
		}
		if len(out) > maxRecipients {
			return nil, fmt.Errorf("it has more than %d recipients", maxRecipients)
		}
	}
	return out, nil
}
