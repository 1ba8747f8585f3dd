package secret

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/plugin"
	"github.com/openbao/openbao/api/v2"
)

// LockOptions say, by the flags of the host, what keeps the key. The zero value is nothing: the
// key's file is in clear.
type LockOptions struct {
	// KMS is the URL of a key of the transit engine of HashiCorp Vault or OpenBao: the address of
	// the server, the engine's path and the key's name, "https://vault.example:8200/transit/jibe".
	KMS string
	// TokenFile has the token for it, and is read for each question, as tokens are renewed.
	TokenFile string
	// CA is a PEM file with the authorities of its certificate; "" is the system's.
	CA string
	// Plugin is a file with an identity of an age plugin (AGE-PLUGIN-…), whose program
	// age-plugin-… is found in PATH.
	Plugin string
}

// kmsTime bounds one question to a KMS, pluginTime one to a plugin, where somebody may have to
// touch a token.
const (
	kmsTime    = 10 * time.Second
	pluginTime = time.Minute
)

// Lock returns what keeps the key, nil for nothing.
func (o LockOptions) Lock() (Lock, error) {
	switch {
	case o.KMS != "" && o.Plugin != "":
		return nil, errors.New("--key-kms and --key-plugin exclude each other: give one")
	case o.KMS != "":
		return newTransit(o)
	case o.TokenFile != "" || o.CA != "":
		return nil, errors.New("--key-kms-token-file and --key-kms-ca need --key-kms")
	case o.Plugin != "":
		return newPlugin(o.Plugin)
	}
	return nil, nil
}

// transit is a key of a transit engine. It implements [Lock].
type transit struct {
	client          *api.Client
	where, mount    string
	name, tokenFile string
}

// transitStanza is the type of the stanza of age with a data key that a transit engine has
// encrypted.
const transitStanza = "jibe-transit"

func newTransit(o LockOptions) (*transit, error) {
	u, err := url.Parse(o.KMS)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("--key-kms: want https://HOST:PORT/ENGINE/KEY, as https://vault.example:8200/transit/jibe")
	}
	mount, name := path.Split(strings.Trim(path.Clean(u.Path), "/"))
	if mount = strings.Trim(mount, "/"); mount == "" || name == "" {
		return nil, errors.New("--key-kms: its path is the transit engine's and then the key's name, as /transit/jibe")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Scheme == "http" && (err != nil || !ip.IsLoopback()) {
		return nil, errors.New("--key-kms: the token would go in clear: want https://")
	}
	if o.TokenFile == "" {
		return nil, errors.New("--key-kms needs --key-kms-token-file")
	}
	config := api.DefaultConfig()
	if config.Error != nil {
		return nil, fmt.Errorf("--key-kms: %w", config.Error)
	}
	config.Address, config.Timeout, config.MaxRetries = u.Scheme+"://"+u.Host, kmsTime, 1
	if err := config.ConfigureTLS(&api.TLSConfig{CACert: o.CA}); err != nil {
		return nil, fmt.Errorf("--key-kms-ca: %w", err)
	}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("--key-kms: %w", err)
	}
	// Neither the environment's address nor its token counts: flags say it all.
	if err := client.SetAddress(config.Address); err != nil {
		return nil, fmt.Errorf("--key-kms: %w", err)
	}
	client.ClearToken()
	return &transit{client: client, where: config.Address, mount: mount, name: name, tokenFile: o.TokenFile}, nil
}

// String implements [Lock].
func (t *transit) String() string { return "the key " + t.name + " of " + t.where + "/" + t.mount }

// Wrap implements [age.Recipient].
func (t *transit) Wrap(dataKey []byte) ([]*age.Stanza, error) {
	out, err := t.ask("encrypt", "ciphertext", map[string]any{"plaintext": base64.StdEncoding.EncodeToString(dataKey)})
	if err != nil {
		return nil, err
	}
	return []*age.Stanza{{Type: transitStanza, Body: []byte(out)}}, nil
}

// Unwrap implements [age.Identity].
func (t *transit) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type != transitStanza {
			continue
		}
		out, err := t.ask("decrypt", "plaintext", map[string]any{"ciphertext": string(s.Body)})
		if err != nil {
			return nil, err
		}
		key, err := base64.StdEncoding.DecodeString(out)
		if err != nil {
			return nil, fmt.Errorf("%w: the answer of %s isn't what its API says", ErrLocked, t.where)
		}
		return key, nil
	}
	return nil, age.ErrIncorrectIdentity
}

// ask has the engine do something with the key and returns one field of the answer.
func (t *transit) ask(what, field string, with map[string]any) (string, error) {
	token, err := os.ReadFile(t.tokenFile)
	if err != nil {
		return "", fmt.Errorf("%w: token of --key-kms-token-file: %w", ErrLocked, err)
	}
	client, err := t.client.Clone()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrLocked, err)
	}
	client.SetToken(strings.TrimSpace(string(token)))
	ctx, cancel := context.WithTimeout(context.Background(), kmsTime)
	defer cancel()
	answer, err := client.Logical().WriteWithContext(ctx, t.mount+"/"+what+"/"+t.name, with)
	if said, ok := errors.AsType[*api.ResponseError](err); ok {
		return "", fmt.Errorf("%w: %s answered %d: %s", ErrLocked, t.where, said.StatusCode, strings.Join(said.Errors, "; "))
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s is away: %w", ErrLocked, t.where, err)
	}
	if answer != nil {
		if out, ok := answer.Data[field].(string); ok && out != "" {
			return out, nil
		}
	}
	return "", fmt.Errorf("%w: the answer of %s isn't what its API says", ErrLocked, t.where)
}

// pluginLock is an identity of an age plugin. It implements [Lock].
type pluginLock struct {
	identity *plugin.Identity
	file     string
}

func newPlugin(file string) (*pluginLock, error) {
	text, err := readPrivate(file, 0o022, "others may write %s: run chmod go-w on it")
	if err != nil {
		return nil, fmt.Errorf("--key-plugin: %w", err)
	}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		// Nobody is there who could be asked for a word: a plugin that wants one fails.
		id, err := plugin.NewIdentity(string(line), &plugin.ClientUI{
			DisplayMessage: func(_, _ string) error { return nil },
			RequestValue:   func(_, _ string, _ bool) (string, error) { return "", errors.New("nobody can be asked") },
			Confirm:        func(_, _, _, _ string) (bool, error) { return false, errors.New("nobody can be asked") },
			WaitTimer:      func(string) {},
		})
		if err != nil {
			return nil, fmt.Errorf("--key-plugin: %s holds no identity of an age plugin (AGE-PLUGIN-…)", file)
		}
		return &pluginLock{identity: id, file: file}, nil
	}
	return nil, fmt.Errorf("--key-plugin: %s holds no identity of an age plugin (AGE-PLUGIN-…)", file)
}

// String implements [Lock].
func (p *pluginLock) String() string { return "the plugin age-plugin-" + p.identity.Name() }

// Wrap implements [age.Recipient].
func (p *pluginLock) Wrap(dataKey []byte) ([]*age.Stanza, error) {
	return bounded(p, func() ([]*age.Stanza, error) { return p.identity.Recipient().Wrap(dataKey) })
}

// Unwrap implements [age.Identity].
func (p *pluginLock) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	return bounded(p, func() ([]byte, error) { return p.identity.Unwrap(stanzas) })
}

// bounded bounds a question to a plugin. The library can't end one: it goes on by itself.
func bounded[T any](p *pluginLock, ask func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := ask()
		done <- outcome{v, err}
	}()
	var none T
	timer := time.NewTimer(pluginTime)
	defer timer.Stop()
	select {
	case o := <-done:
		if o.err != nil && !errors.Is(o.err, age.ErrIncorrectIdentity) {
			return none, fmt.Errorf("%w: %s: %w", ErrLocked, p, o.err)
		}
		return o.v, o.err
	case <-timer.C:
		return none, fmt.Errorf("%w: %s gave no answer within %s", ErrLocked, p, pluginTime)
	}
}
