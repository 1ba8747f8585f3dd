// Package auth identifies callers of the API and says what they may do.
//
// It owns the token file and the comparison of tokens. It never decides what a
// route needs (that is sol) and never logs a token.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Role is what a caller may do; each includes the ones before it.
type Role string

// The roles.
const (
	Read    Role = "read"    // GET
	Operate Role = "operate" // every write of the SOL API
	Admin   Role = "admin"   // what concerns the process itself
)

// Allows says whether a caller with role r may do what needs role need.
func (r Role) Allows(need Role) bool { return r.rank() >= need.rank() && need.rank() > 0 }

func (r Role) rank() int {
	switch r {
	case Read:
		return 1
	case Operate:
		return 2
	case Admin:
		return 3
	}
	return 0
}

// Identity is a caller.
type Identity struct {
	// Name goes into commits and operation records.
	Name string
	Role Role
}

// ErrUnauthenticated is returned when a request carries no credentials, or wrong
// ones. The API answers 401.
var ErrUnauthenticated = errors.New("no valid bearer token")

// Authenticator identifies callers.
type Authenticator interface {
	// Authenticate MUST return an error that wraps [ErrUnauthenticated] for a
	// request without valid credentials. It is safe for concurrent use.
	Authenticate(r *http.Request) (Identity, error)
}

// Tokens is an [Authenticator] for static bearer tokens (RFC 6750 clause 2.1).
type Tokens struct{ entries []entry }

type entry struct {
	Identity
	sum [sha256.Size]byte
}

// file is the token file.
type file struct {
	Tokens []fileToken `json:"tokens"`
}

type fileToken struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Token is the token, or "sha256:" and its digest in hex.
	Token string `json:"token"`
}

const (
	hashed   = "sha256:"
	minToken = 16
)

// Parse reads a token file: YAML with a list "tokens" of name, role and token.
func Parse(data []byte) (*Tokens, error) {
	var f file
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		// The parser's message may quote the file, and with it a token.
		return nil, errors.New(`token file is not YAML of the form "tokens: [{name, role, token}]" without other keys`)
	}
	t := &Tokens{}
	for i, ft := range f.Tokens {
		e := entry{Identity: Identity{Name: ft.Name, Role: ft.Role}}
		where := fmt.Sprintf("token file: tokens[%d]", i)
		if ft.Name == "" || strings.ContainsAny(ft.Name, "<>\n\r\x00") {
			return nil, fmt.Errorf("%s: name is missing or has a line break, < or >", where)
		}
		if ft.Role.rank() == 0 {
			return nil, fmt.Errorf("%s (%s): role %q is none of read, operate, admin", where, ft.Name, ft.Role)
		}
		if digest, ok := strings.CutPrefix(ft.Token, hashed); ok {
			sum, err := hex.DecodeString(digest)
			if err != nil || len(sum) != sha256.Size {
				return nil, fmt.Errorf("%s (%s): sha256: is followed by 64 hexadecimal digits", where, ft.Name)
			}
			copy(e.sum[:], sum)
		} else {
			if len(ft.Token) < minToken {
				return nil, fmt.Errorf("%s (%s): token is shorter than %d characters", where, ft.Name, minToken)
			}
			e.sum = sha256.Sum256([]byte(ft.Token))
		}
		t.entries = append(t.entries, e)
	}
	if len(t.entries) == 0 {
		return nil, errors.New("token file holds no token; remove the file to have a new one made")
	}
	return t, nil
}

// LoadOrCreate reads the token file at path. Where there is none it makes one,
// readable by its owner alone, with one admin token. A file that others can read
// is refused.
func LoadOrCreate(path string) (*Tokens, error) {
	t, err := load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if err := create(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make token file: %w", err)
	}
	return load(path)
}

func load(path string) (*Tokens, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("token file %s can be read by others (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// create writes a temporary file and links it to path, so that nobody ever reads half of it
// and an existing file is never replaced.
func create(path string) error {
	data, err := yaml.Marshal(file{Tokens: []fileToken{{Name: "admin", Role: Admin, Token: rand.Text() + rand.Text()}}})
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

// Authenticate compares the request's token with every known one, in a
// time that doesn't depend on how much of it is right.
func (t *Tokens) Authenticate(r *http.Request) (Identity, error) {
	token, ok := tokenOf(r)
	if !ok {
		return Identity{}, fmt.Errorf("%w: send the header \"Authorization: Bearer <token>\"", ErrUnauthenticated)
	}
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

// tokenOf finds the request's token: a bearer token, the password of HTTP basic
// authentication (git, and clients that know nothing else), or X-Auth-Token, which clients
// of OpenStack's services send.
func tokenOf(r *http.Request) (string, bool) {
	if _, password, ok := r.BasicAuth(); ok {
		return password, true
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return token, true
	}
	token := r.Header.Get("X-Auth-Token")
	return token, token != ""
}

// Anyone is the [Authenticator] of a development server: everyone is admin.
type Anyone struct{}

// Authenticate accepts every request.
func (Anyone) Authenticate(*http.Request) (Identity, error) {
	return Identity{Name: "anonymous", Role: Admin}, nil
}
