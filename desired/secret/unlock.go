package secret

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"filippo.io/age"
	"filippo.io/age/plugin"
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

// pluginTime bounds one question to a plugin, where a person may have to touch a token.
const pluginTime = time.Minute

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
