package secret

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode"

	"filippo.io/age"

	"github.com/jibe-vnfm/jibe/internal/private"
)

const (
	// kmsTime bounds one question to a KMS, with its answer.
	kmsTime = 10 * time.Second
	// maxKMSAnswer bounds an answer, and maxKMSToken a token's file.
	maxKMSAnswer, maxKMSToken = 64 << 10, 16 << 10
	// maxKMSError bounds what of an error of the KMS is shown.
	maxKMSError = 300
	// fileKeySize is the size of what age has kept, as its format says.
	fileKeySize = 16
)

// transit is a key of a transit engine of HashiCorp Vault or OpenBao. It implements [Lock].
//
// Its server is believed in nothing: a redirect isn't followed, as the token would go along; an answer is bounded; what
// it encrypts is asked for again before anything is written; and its errors are shown without what was sent to it.
type transit struct {
	client          *http.Client
	where, mount    string
	name, tokenFile string
}

// transitStanza is the type of the stanza of age with a data key that a transit engine has
// encrypted.
const transitStanza = "jibe-transit"

// transitName is the name of an engine, or of a key. Anything else could be another path to the server than to a reader.
var transitName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

func newTransit(o LockOptions) (*transit, error) {
	u, err := url.Parse(o.KMS)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("--key-kms: want https://HOST:PORT/ENGINE/KEY, as https://vault.example:8200/transit/jibe")
	}
	names := strings.Split(strings.TrimSuffix(strings.TrimPrefix(u.EscapedPath(), "/"), "/"), "/")
	if len(names) < 2 || names[0] == "" || names[len(names)-1] == "" {
		return nil, errors.New("--key-kms: its path is the transit engine's and then the key's name, as /transit/jibe")
	}
	for _, name := range names {
		if !transitName.MatchString(name) {
			return nil, fmt.Errorf("--key-kms: %q in its path is no name of an engine or key: want letters, digits, '.', '_' and '-'", name)
		}
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Scheme == "http" && (err != nil || !ip.IsLoopback()) {
		return nil, errors.New("--key-kms: the token would go in clear: want https://")
	}
	if o.TokenFile == "" {
		return nil, errors.New("--key-kms needs --key-kms-token-file")
	}
	roots, err := authorities(o.CA)
	if err != nil {
		return nil, fmt.Errorf("--key-kms-ca: %w", err)
	}

	last := len(names) - 1
	return &transit{
		// Flags say it all: no variable of the environment that is meant for Vault's own client counts.
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
				DisableKeepAlives: true, MaxResponseHeaderBytes: maxKMSAnswer,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		where: u.Scheme + "://" + u.Host, mount: strings.Join(names[:last], "/"), name: names[last], tokenFile: o.TokenFile,
	}, nil
}

// authorities returns those in a PEM file; nil, the system's, for "".
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", file)
	}
	return roots, nil
}

// String implements [Lock].
func (t *transit) String() string { return "the key " + t.name + " of " + t.where + "/" + t.mount }

// Wrap implements [age.Recipient]. It has the engine decrypt what it has encrypted: with a ciphertext of anything else
// the key would be lost.
func (t *transit) Wrap(dataKey []byte) ([]*age.Stanza, error) {
	out, err := t.ask("encrypt", "ciphertext", map[string]string{"plaintext": base64.StdEncoding.EncodeToString(dataKey)})
	if err != nil {
		return nil, err
	}
	again, err := t.decrypt(out)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, dataKey) {
		return nil, fmt.Errorf("%w: %s doesn't decrypt to the same what it has encrypted: the key would be lost, and nothing was written", ErrLocked, t.where)
	}
	return []*age.Stanza{{Type: transitStanza, Body: []byte(out)}}, nil
}

// Unwrap implements [age.Identity].
func (t *transit) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type == transitStanza {
			return t.decrypt(string(s.Body))
		}
	}
	return nil, age.ErrIncorrectIdentity
}

func (t *transit) decrypt(ciphertext string) ([]byte, error) {
	out, err := t.ask("decrypt", "plaintext", map[string]string{"ciphertext": ciphertext})
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(out)
	if err != nil || len(key) != fileKeySize {
		return nil, t.nonsense("")
	}
	return key, nil
}

func (t *transit) nonsense(why string) error {
	return fmt.Errorf("%w: the answer of %s isn't what its API says%s", ErrLocked, t.where, why)
}

// ask has the engine do something with the key and returns one field of the answer.
func (t *transit) ask(what, field string, with map[string]string) (string, error) {
	token, err := t.token()
	if err != nil {
		return "", fmt.Errorf("%w: token of --key-kms-token-file: %w", ErrLocked, err)
	}
	body, err := json.Marshal(with)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), kmsTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, t.where+"/v1/"+t.mount+"/"+what+"/"+t.name, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrLocked, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Vault-Request", "true") // an agent in between may demand it
	req.Header.Set("X-Vault-Token", token)

	resp, err := t.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w: %s is away: %w", ErrLocked, t.where, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxKMSAnswer+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %s is away: %w", ErrLocked, t.where, err)
	case len(text) > maxKMSAnswer:
		return "", t.nonsense(fmt.Sprintf(": it has more than %d bytes", maxKMSAnswer))
	case resp.StatusCode/100 == 3:
		return "", t.redirected(resp)
	}

	var answer struct {
		Data   map[string]any
		Errors []string
	}
	err = json.Unmarshal(text, &answer)
	if said := readable(answer.Errors, token, with); resp.StatusCode != http.StatusOK || said != "" {
		return "", fmt.Errorf("%w: %s answered %d: %s", ErrLocked, t.where, resp.StatusCode, said)
	}
	out, ok := answer.Data[field].(string)
	if err != nil || !ok || out == "" {
		return "", t.nonsense("")
	}
	return out, nil
}

// redirected names the host to which the server points, and nothing else of it.
func (t *transit) redirected(resp *http.Response) error {
	to := "elsewhere"
	if at, err := resp.Location(); err == nil && at.Host != "" {
		to = "to " + readable([]string{at.Scheme + "://" + at.Host}, "", nil)
	}
	return fmt.Errorf("%w: %s redirects %s (%d), where the token isn't sent: give --key-kms the address of the server that answers", ErrLocked, t.where, to, resp.StatusCode)
}

// token reads the token, which is one line for this process alone.
func (t *transit) token() (string, error) {
	f, err := os.Open(t.tokenFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no regular file", t.tokenFile)
	case private.SharedWithOthers(info):
		return "", fmt.Errorf("others may read or write %s (mode %04o): run chmod 600 on it", t.tokenFile, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKMSToken))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s doesn't hold a token: want one line without spaces or control characters", t.tokenFile)
	}
	return token, nil
}

// readable makes one bounded line of what the server says, without what was sent to it.
func readable(said []string, token string, with map[string]string) string {
	text := strings.Join(said, "; ")
	for _, sent := range append(valuesOf(with), token) {
		if sent != "" {
			text = strings.ReplaceAll(text, sent, "***")
		}
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	if runes := []rune(strings.Join(strings.Fields(text), " ")); len(runes) > maxKMSError {
		return string(runes[:maxKMSError]) + "…"
	}
	return strings.Join(strings.Fields(text), " ")
}

func valuesOf(with map[string]string) (list []string) {
	for _, v := range with {
		list = append(list, v)
	}
	return list
}
