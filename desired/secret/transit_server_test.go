package secret_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// transitServer is a stand-in for a server of HashiCorp Vault or OpenBao with a transit engine at
// transit/. It has its own implementation of what a lock uses: the paths encrypt and decrypt with keys
// that have versions, tokens and their policy, and the seal. It answers as these pages of Vault's public
// documentation say:
//
//   - "HTTP API": the token is in the header X-Vault-Token; PUT and POST mean the same; errors are
//     {"errors": [...]} with 400 for invalid data, 403 for a wrong token or a missing permission, 404 for
//     an unknown path, 405 for a wrong method and 503 while the server is sealed.
//   - "Transit secrets engine (API)": requests and answers of encrypt and decrypt; the ciphertext
//     "vault:v1:..." names the key's version; encrypt makes a missing key for a token with the capability
//     "create" and fails with "update" alone; a rotation adds a version that encrypts from then on;
//     min_decryption_version refuses older ciphertexts; keys are aes256-gcm96 by default.
//   - "Policies": what no rule allows is denied; the most specific path counts; "deny" wins.
//   - "Seal/Unseal": a server starts sealed and then answers nothing but its seal's status.
//
// Keys, tokens and the policy outlive a restart, as they are kept in a real server's storage.
type transitServer struct {
	dir, address string
	certificate  tls.Certificate
	// root is a token that may do everything, token one that the policy binds.
	root, token string

	mu     sync.Mutex
	server *http.Server
	sealed bool
	policy policy
	tokens map[string]bool // whether the policy binds it
	keys   map[string]*transitKey
}

// policy is the capabilities of a token by path. A path may end in "*".
type policy map[string][]string

// guidePolicy is what docs/guide/secrets.md has a token do, and no more.
var guidePolicy = policy{"transit/encrypt/jibe": {"update"}, "transit/decrypt/jibe": {"update"}}

// transitKey is a named key with its versions, from 1.
type transitKey struct {
	versions      []cipher.AEAD
	minDecryption int
}

// startTransit starts a server that is unsealed, has the keys transit/jibe and transit/other, and a token
// that may do with the first what docs/guide/secrets.md says, and no more. The token is in the file of
// [transitServer.options].
func startTransit(t *testing.T) *transitServer {
	t.Helper()
	// An address of its own, so that no other process takes the port between a kill and a start.
	address, err := kit.FreeAddress(ownLoopback(t).String())
	if err != nil {
		t.Fatal(err)
	}
	s := &transitServer{
		dir: t.TempDir(), address: address, root: "hvs." + rand.Text(), token: "hvs." + rand.Text(),
		policy: guidePolicy, keys: map[string]*transitKey{},
	}
	s.tokens = map[string]bool{s.root: false, s.token: true}
	s.certify(t)
	s.rotate(t, "jibe")
	s.rotate(t, "other")
	s.giveToken(t, s.token)

	t.Cleanup(s.kill)
	s.start(t)
	s.unseal()
	return s
}

// ownLoopback returns an address of this host that hardly any other process uses.
func ownLoopback(t *testing.T) net.IP {
	t.Helper()
	b := make([]byte, 3)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}

	return net.IPv4(127, b[0]|1, b[1], b[2]|1)
}

func (s *transitServer) file(name string) string { return filepath.Join(s.dir, name) }

// options are those of the key transit/NAME.
func (s *transitServer) options(name string) secret.LockOptions {
	return secret.LockOptions{KMS: "https://" + s.address + "/transit/" + name, TokenFile: s.file("token"), CA: s.file("ca.pem")}
}

func (s *transitServer) giveToken(t *testing.T, token string) {
	t.Helper()
	if err := os.WriteFile(s.file("token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certify makes the server's certificate, of an authority of its own.
func (s *transitServer) certify(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "transit"}, IPAddresses: []net.IP{net.ParseIP(host)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}

	s.certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(s.file("ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
}

// start has the server answer at its address. It is sealed.
func (s *transitServer) start(t *testing.T) {
	t.Helper()

	// A process that another test starts holds the listener of before until it has become another program.
	var l net.Listener
	kit.Eventually(t, func() (err error) {
		l, err = net.Listen("tcp", s.address)
		return err
	})

	server := &http.Server{
		Handler: s, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{s.certificate}, MinVersion: tls.VersionTLS12},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // a client that refuses the certificate is part of the test
	}

	s.mu.Lock()
	s.server, s.sealed = server, true
	s.mu.Unlock()
	go func() { _ = server.ServeTLS(l, "", "") }() // it ends with Close
}

// kill ends the server at once, with all its connections.
func (s *transitServer) kill() {
	s.mu.Lock()
	server := s.server
	s.server = nil
	s.mu.Unlock()

	if server != nil {
		_ = server.Close()
	}
}

func (s *transitServer) unseal() { s.setSealed(false) }

// seal is what an operator of Vault does who suspects a break-in.
func (s *transitServer) seal() { s.setSealed(true) }

func (s *transitServer) setSealed(sealed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = sealed
}

func (s *transitServer) setPolicy(p policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policy = p
}

// expire has a token be unknown from now on.
func (s *transitServer) expire(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, token)
}

// newToken makes another token that the policy binds.
func (s *transitServer) newToken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := "hvs." + rand.Text()
	s.tokens[token] = true
	return token
}

// rotate makes a key, or adds a version to it.
func (s *transitServer) rotate(t *testing.T, name string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.addVersion(name); err != nil {
		t.Fatal(err)
	}
}

func (s *transitServer) addVersion(name string) error {
	material := make([]byte, 32)
	if _, err := rand.Read(material); err != nil {
		return err
	}
	block, err := aes.NewCipher(material)
	if err != nil {
		return err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}

	if s.keys[name] == nil {
		s.keys[name] = &transitKey{minDecryption: 1}
	}
	s.keys[name].versions = append(s.keys[name].versions, aead)
	return nil
}

// setMinDecryption withdraws the versions of a key before this one.
func (s *transitServer) setMinDecryption(name string, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[name].minDecryption = version
}

func (s *transitServer) hasKey(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[name] != nil
}

// refusal is an answer with an error.
type refusal struct {
	status int
	errs   []string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %q", r.status, r.errs) }

func answerError(status int, errs ...string) error { return &refusal{status, errs} }

// ServeHTTP implements [http.Handler].
func (s *transitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := s.answer(r)
	w.Header().Set("Content-Type", "application/json")
	if refusal, ok := errors.AsType[*refusal](err); ok {
		w.WriteHeader(refusal.status)
		data = map[string]any{"errors": refusal.errs}
	} else if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		data = map[string]any{"errors": []string{err.Error()}}
	} else {
		data = map[string]any{"data": data}
	}
	_ = json.NewEncoder(w).Encode(data) // a client that has gone
}

func (s *transitServer) answer(r *http.Request) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return nil, answerError(http.StatusServiceUnavailable, "Vault is sealed")
	}

	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	engine, rest, _ := strings.Cut(path, "/")
	operation, name, _ := strings.Cut(rest, "/")
	mayCreate, err := s.permit(r.Header.Get("X-Vault-Token"), path, s.keys[name] != nil)
	if err != nil {
		return nil, err
	}

	switch {
	case path == r.URL.Path, engine != "transit", operation != "encrypt" && operation != "decrypt", name == "":
		return nil, answerError(http.StatusNotFound, "no handler for route \""+path+"\". route entry not found.")
	case r.Method != http.MethodPut && r.Method != http.MethodPost:
		return nil, answerError(http.StatusMethodNotAllowed, "unsupported operation")
	}
	var with struct{ Plaintext, Ciphertext string }
	if err := json.NewDecoder(r.Body).Decode(&with); err != nil {
		return nil, answerError(http.StatusBadRequest, "failed to parse JSON input: "+err.Error())
	}
	if s.keys[name] == nil && mayCreate && operation == "encrypt" {
		if err := s.addVersion(name); err != nil {
			return nil, err
		}
	}
	key := s.keys[name]
	switch {
	case key == nil:
		return nil, answerError(http.StatusBadRequest, "encryption key not found")
	case operation == "encrypt":
		return key.encrypt(with.Plaintext)
	default:
		return key.decrypt(with.Ciphertext)
	}
}

// permit refuses what the token may not do. It reports whether the token may create what isn't there.
func (s *transitServer) permit(token, path string, exists bool) (mayCreate bool, err error) {
	bound, known := s.tokens[token]
	if !known {
		return false, answerError(http.StatusForbidden, "permission denied", "invalid token")
	}
	if !bound {
		return true, nil
	}

	capabilities := s.policy.at(path)
	create, update := slices.Contains(capabilities, "create"), slices.Contains(capabilities, "update")
	if slices.Contains(capabilities, "deny") || !update && (exists || !create) {
		return false, answerError(http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
	}

	return create, nil
}

// at returns the capabilities of the most specific rule for the path, none where there is none.
func (p policy) at(path string) []string {
	if found, ok := p[path]; ok {
		return found
	}
	var best string
	for rule := range p {
		if prefix, glob := strings.CutSuffix(rule, "*"); glob && strings.HasPrefix(path, prefix) && len(rule) > len(best) {
			best = rule
		}
	}

	return p[best]
}

func (k *transitKey) encrypt(plaintext string) (map[string]any, error) {
	clear, err := base64.StdEncoding.DecodeString(plaintext)
	if err != nil {
		return nil, answerError(http.StatusBadRequest, err.Error())
	}
	version := len(k.versions)
	aead := k.versions[version-1]
	nonce := make([]byte, aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}

	sealed := base64.StdEncoding.EncodeToString(aead.Seal(nonce, nonce, clear, nil))
	return map[string]any{"ciphertext": fmt.Sprintf("vault:v%d:%s", version, sealed), "key_version": version}, nil
}

func (k *transitKey) decrypt(ciphertext string) (map[string]any, error) {
	text, ours := strings.CutPrefix(ciphertext, "vault:v")
	number, text, ok := strings.Cut(text, ":")
	version, err := strconv.Atoi(number)
	switch {
	case ciphertext == "":
		return nil, answerError(http.StatusBadRequest, "missing ciphertext to decrypt")
	case !ours:
		return nil, answerError(http.StatusBadRequest, "invalid ciphertext: no prefix")
	case !ok || err != nil || version < 1:
		return nil, answerError(http.StatusBadRequest, "invalid ciphertext: version number could not be decoded")
	case version > len(k.versions):
		return nil, answerError(http.StatusBadRequest, "invalid ciphertext: version is too new")
	case version < k.minDecryption:
		return nil, answerError(http.StatusBadRequest, "ciphertext or signature version is disallowed by policy (too old)")
	}

	raw, err := base64.StdEncoding.DecodeString(text)
	aead := k.versions[version-1]
	if err != nil || len(raw) < aead.NonceSize() {
		return nil, answerError(http.StatusBadRequest, "invalid ciphertext: could not decode base64")
	}
	clear, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], nil)
	if err != nil {
		return nil, answerError(http.StatusBadRequest, "cipher: message authentication failed")
	}

	return map[string]any{"plaintext": base64.StdEncoding.EncodeToString(clear)}, nil
}

// What the tests of the lock rely on is what the pages named at [transitServer] say.
func TestTheTransitServerAnswersAsItsDocumentationSays(t *testing.T) {
	t.Parallel()
	s := startTransit(t)
	roots, err := os.ReadFile(s.file("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(client.CloseIdleConnections)

	// ask returns the status of a request and one text of its answer: a field, or its errors.
	ask := func(token, method, path, body, field string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.address+"/v1/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Vault-Token", token)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var answer struct {
			Data   map[string]any
			Errors []string
		}
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		text, _ := answer.Data[field].(string)
		return response.StatusCode, text + strings.Join(answer.Errors, "; ")
	}
	encrypt := func() string {
		t.Helper()
		status, text := ask(s.token, "POST", "transit/encrypt/jibe", `{"plaintext":"cGE1NQ=="}`, "ciphertext")
		if status != http.StatusOK {
			t.Fatalf("%d: %s", status, text)
		}
		return text
	}
	first := encrypt()
	s.rotate(t, "jibe")
	second := encrypt()
	if !strings.HasPrefix(first, "vault:v1:") || !strings.HasPrefix(second, "vault:v2:") {
		t.Fatalf("before and after a rotation: %s, %s", first, second)
	}

	cipherOf := func(text string) string { return `{"ciphertext":"` + text + `"}` }
	for _, c := range []struct {
		what, token, method, path, body string
		status                          int
		text                            string // the answer's
	}{
		{"a former version", s.token, "PUT", "transit/decrypt/jibe", cipherOf(first), 200, "cGE1NQ=="},
		{"the current version", s.token, "POST", "transit/decrypt/jibe", cipherOf(second), 200, "cGE1NQ=="},
		{"a version that isn't there yet", s.token, "POST", "transit/decrypt/jibe", cipherOf(strings.Replace(first, "v1", "v3", 1)), 400, "too new"},
		{"another version's ciphertext", s.token, "POST", "transit/decrypt/jibe", cipherOf(strings.Replace(first, "v1", "v2", 1)), 400, "authentication failed"},
		{"another key's ciphertext", s.root, "POST", "transit/decrypt/other", cipherOf(first), 400, "authentication failed"},
		{"no ciphertext of an engine", s.token, "POST", "transit/decrypt/jibe", cipherOf("x"), 400, "no prefix"},
		{"nothing", s.token, "POST", "transit/decrypt/jibe", `{}`, 400, "missing ciphertext"},
		{"no JSON", s.token, "POST", "transit/decrypt/jibe", `x`, 400, "parse JSON"},
		{"a token that nobody has", "x", "POST", "transit/decrypt/jibe", cipherOf(first), 403, "permission denied"},
		{"a key that the token may not use", s.token, "POST", "transit/decrypt/other", cipherOf(first), 403, "permission denied"},
		{"a key that isn't there, without the right to make it", s.token, "POST", "transit/encrypt/none", `{"plaintext":""}`, 403, "permission denied"},
		{"a key that isn't there", s.root, "POST", "transit/decrypt/none", cipherOf(first), 400, "encryption key not found"},
		{"a key that encrypt makes", s.root, "POST", "transit/encrypt/made", `{"plaintext":"cGE1NQ=="}`, 200, ""},
		{"another engine", s.root, "POST", "other/decrypt/jibe", cipherOf(first), 404, "no handler"},
		{"another method", s.root, "GET", "transit/decrypt/jibe", "", 405, "unsupported"},
	} {
		if status, text := ask(c.token, c.method, c.path, c.body, "plaintext"); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d, %s; want %d, %s", c.what, status, text, c.status, c.text)
		}
	}
	if !s.hasKey("made") || s.hasKey("none") {
		t.Error("encrypt makes a key that isn't there for a token that may create it, and for no other")
	}

	s.setMinDecryption("jibe", 2)
	if status, text := ask(s.token, "POST", "transit/decrypt/jibe", cipherOf(first), "plaintext"); status != 400 || !strings.Contains(text, "too old") {
		t.Errorf("a version that was withdrawn: %d, %s", status, text)
	}
	s.seal()
	if status, text := ask(s.root, "POST", "transit/decrypt/jibe", cipherOf(second), "plaintext"); status != 503 || text != "Vault is sealed" {
		t.Errorf("sealed: %d, %s", status, text)
	}
}
