package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/internal/private"
)

// Tokens is an [Authenticator] for static bearer tokens (RFC 6750 clause 2.1). It also knows
// whose the certificates of clients are.
type Tokens struct {
	entries      []entry
	certificates []certificate
}

type entry struct {
	Identity
	sum [sha256.Size]byte
}

const (
	hashed   = "sha256:"
	minToken = 16
)

// Parse reads a token file: YAML with a list "tokens" of name, role or roles, and token, and
// what confines it; and a list "certificates" of the same with what a certificate says in place
// of the token.
func Parse(data []byte) (*Tokens, error) {
	var f file
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		// The parser's message may quote the file, and with it a token.
		return nil, errors.New(`token file is not YAML of the form "tokens: [{name, role, token}]", where other keys are roles, interface and em, ` +
			`beside it "certificates: [{name, role, subject}]", and no value is empty`)
	}
	t := &Tokens{}
	for i, ft := range f.Tokens {
		where := fmt.Sprintf("token file: tokens[%d]", i)
		id, err := ft.identity(IssuerTokens)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		sum, err := sumOf(string(ft.Token))
		if err != nil {
			return nil, fmt.Errorf("%s (%s): %w", where, id.Name, err)
		}
		for j, other := range t.entries {
			if other.sum == sum {
				return nil, fmt.Errorf("%s (%s): the token is that of tokens[%d], so that nobody could tell the two callers apart", where, id.Name, j)
			}
			if other.Name == id.Name && !reflect.DeepEqual(other.Identity, id) {
				return nil, fmt.Errorf("%s (%s): tokens[%d] has the same name and other rights: a name is one caller", where, id.Name, j)
			}
		}
		t.entries = append(t.entries, entry{id, sum})
	}
	var err error
	if t.certificates, err = readCertificates(f.Certificates); err != nil {
		return nil, err
	}
	if len(t.entries)+len(t.certificates) == 0 {
		return nil, errors.New("token file holds no token; remove the file to have a new one made")
	}
	return t, nil
}

// current is the caller as the file has them; ok is false for one that it hasn't.
func (t *Tokens) current(who Identity) (now Identity, ok bool) {
	for _, e := range t.entries {
		if e.Is(who) {
			return e.Identity, true
		}
	}
	for _, c := range t.certificates {
		if c.Is(who) {
			return c.Identity, true
		}
	}
	return Identity{}, false
}

// sumOf is the digest of a token as a token file has it: in clear, or "sha256:" and its
// digest in hex.
func sumOf(token string) (sum [sha256.Size]byte, err error) {
	if digest, ok := strings.CutPrefix(token, hashed); ok {
		b, err := hex.DecodeString(digest)
		if err != nil || len(b) != sha256.Size {
			return sum, errors.New("sha256: is followed by 64 hexadecimal digits")
		}
		return [sha256.Size]byte(b), nil
	}
	if len(token) < minToken {
		return sum, fmt.Errorf("token is shorter than %d characters", minToken)
	}
	return sha256.Sum256([]byte(token)), nil
}

// load reads the token file at path. One that others can read is refused.
func load(path string) (*Tokens, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("token file: %w", err)
	}
	if private.SharedWithOthers(info) {
		return nil, info, fmt.Errorf("token file %s can be read by others (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, largestFile+1))
	if err != nil {
		return nil, info, fmt.Errorf("token file: %w", err)
	}
	if len(data) > largestFile {
		return nil, info, fmt.Errorf("token file %s has more than %d bytes", path, largestFile)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, info, fmt.Errorf("%s: %w", path, err)
	}
	return t, info, nil
}

// largestFile bounds a token file, in bytes.
const largestFile = 4 << 20

// create writes a temporary file and links it to path, so that nobody ever reads half of it
// and an existing file is never replaced.
func create(path string) error {
	data, err := yaml.Marshal(map[string]any{"tokens": []map[string]any{{"name": "admin", "role": Admin, "token": rand.Text() + rand.Text()}}})
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tokens-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}

// Authenticate implements [Authenticator].
func (t *Tokens) Authenticate(r *http.Request) (Identity, error) {
	token, ok := tokenOf(r)
	if !ok {
		return Identity{}, fmt.Errorf("%w: send the header \"Authorization: Bearer <token>\"", ErrUnauthenticated)
	}
	return t.whose(token)
}

// whose compares the token with every known one, in a time that doesn't depend on how much of it
// is right.
func (t *Tokens) whose(token string) (Identity, error) {
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	found := -1
	for i, e := range t.entries {
		if subtle.ConstantTimeCompare(sum[:], e.sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Identity{}, fmt.Errorf("%w: the token is not known", ErrUnauthenticated)
	}
	return t.entries[found].Identity, nil
}
