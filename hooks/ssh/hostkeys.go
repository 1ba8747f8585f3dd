package ssh

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// KeyProblem is what is wrong with a host key.
type KeyProblem string

// What can be wrong with a host key.
const (
	// KeyUnknown: nothing is known of the host's key, and new ones aren't accepted.
	KeyUnknown KeyProblem = "unknown"
	// KeyChanged: the host has another key than the known one.
	KeyChanged KeyProblem = "changed"
	// KeyRevoked: the key is marked @revoked.
	KeyRevoked KeyProblem = "revoked"
	// KeyUncertified: known_hosts names an authority that signs the host's key, and the
	// host shows one that isn't signed.
	KeyUncertified KeyProblem = "uncertified"
)

// HostKeyError is returned where a host isn't who it should be, as far as is known. The host
// was sent no secret, and it doesn't help to try again.
type HostKeyError struct {
	// Host is address:port.
	Host    string
	Problem KeyProblem
	// Got is the key that the host showed.
	Got ssh.PublicKey
	// Known are those that it might have shown, and in which lines of known_hosts they
	// stand (0: accepted a moment before).
	Known []KnownKey
}

// KnownKey is a key in a known_hosts file.
type KnownKey struct {
	Key  ssh.PublicKey
	Line int
}

func (e *HostKeyError) Error() string {
	got := fingerprint(e.Got)
	switch e.Problem {
	case KeyRevoked:
		return fmt.Sprintf("the host key of %s is revoked: %s is marked @revoked in known_hosts; give the machine a new one", e.Host, got)
	case KeyUncertified:
		return fmt.Sprintf("the host key of %s has no certificate: it shows %s alone, but known_hosts names a @cert-authority for it; "+
			"configure the machine's HostCertificate, or add its key to known_hosts", e.Host, got)
	case KeyChanged:
		var known []string
		for _, k := range e.Known {
			where := "accepted a moment ago"
			if k.Line > 0 {
				where = fmt.Sprintf("line %d of known_hosts", k.Line)
			}
			known = append(known, fmt.Sprintf("%s (%s)", fingerprint(k.Key), where))
		}
		return fmt.Sprintf("the host key of %s has changed: it shows %s, but known is %s. Either the machine was made anew, or somebody stands between: "+
			"compare with the machine's own (on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), and only where it is the same, put it in the known one's place",
			e.Host, got, strings.Join(known, ", "))
	default:
		return fmt.Sprintf("the host key of %s isn't known: it shows %s. Where that is the machine's own (on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), "+
			"add this line to known_hosts: %s", e.Host, got, knownhosts.Line([]string{e.Host}, e.Got))
	}
}

// fingerprint returns a key as ssh-keygen -l shows it, with its type.
func fingerprint(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

// hostKeys are those of one known_hosts text.
type hostKeys struct {
	check ssh.HostKeyCallback
	lines []string
	// accept may take keys of unknown hosts, nil takes none; accepted are those that it
	// has taken, so that a host can't show another one the next time.
	accept   func(hostport string, key ssh.PublicKey) error
	accepted map[string]ssh.PublicKey
}

// parseKnownHosts reads the text of a known_hosts file.
func parseKnownHosts(text string) (*hostKeys, error) {
	// The library reads nothing but files.
	f, err := os.CreateTemp("", "known_hosts-")
	if err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	check, err := knownhosts.New(f.Name())
	if err != nil {
		// It begins with the name of the temporary file, then the line.
		said := strings.TrimPrefix(err.Error(), "knownhosts: ")
		return nil, fmt.Errorf("known_hosts: line %s; correct or remove it", strings.TrimPrefix(said, f.Name()+":"))
	}
	return &hostKeys{check: check, lines: strings.Split(text, "\n"), accepted: map[string]ssh.PublicKey{}}, nil
}

// verify is an ssh.HostKeyCallback.
func (k *hostKeys) verify(hostport string, _ net.Addr, key ssh.PublicKey) error {
	err := k.look(hostport, key)
	var refused *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return &HostKeyError{Host: hostport, Problem: KeyRevoked, Got: key}
	case !errors.As(err, &refused):
		return fmt.Errorf("the host key of %s, %s, is refused: %w", hostport, fingerprint(key), err)
	}
	switch plain, authority := k.known(refused); {
	case len(plain) > 0:
		return &HostKeyError{Host: hostport, Problem: KeyChanged, Got: key, Known: plain}
	case authority:
		return &HostKeyError{Host: hostport, Problem: KeyUncertified, Got: key}
	}
	if before := k.accepted[hostport]; before != nil {
		if bytes.Equal(before.Marshal(), key.Marshal()) {
			return nil
		}
		return &HostKeyError{Host: hostport, Problem: KeyChanged, Got: key, Known: []KnownKey{{Key: before}}}
	}
	if k.accept == nil {
		return &HostKeyError{Host: hostport, Problem: KeyUnknown, Got: key}
	}
	if err := k.accept(hostport, key); err != nil {
		return fmt.Errorf("the new host key of %s, %s, isn't accepted: %w", hostport, fingerprint(key), err)
	}
	k.accepted[hostport] = key
	return nil
}

// look asks the library for the name alone: the address that it resolves to says nothing of
// who answers there.
func (k *hostKeys) look(hostport string, key ssh.PublicKey) error {
	return k.check(hostport, &net.TCPAddr{IP: net.IPv4zero}, key)
}

// known returns the keys that the library names, without those of authorities: the library
// doesn't tell the two apart.
func (k *hostKeys) known(e *knownhosts.KeyError) (plain []KnownKey, authority bool) {
	for _, w := range e.Want {
		if w.Line > 0 && w.Line <= len(k.lines) && strings.HasPrefix(strings.TrimSpace(k.lines[w.Line-1]), "@cert-authority") {
			authority = true
			continue
		}
		plain = append(plain, KnownKey{Key: w.Key, Line: w.Line})
	}
	return plain, authority
}

// algorithms returns those that the host is to prove itself with. Those of the known keys come
// first: the host would else show a key of another type, which would look like a changed one.
func (k *hostKeys) algorithms(hostport string) []string {
	var first, plain, certified []string
	for _, a := range ssh.SupportedAlgorithms().HostKeys {
		if strings.Contains(a, "-cert-v01@") {
			certified = append(certified, a)
		} else {
			plain = append(plain, a)
		}
	}
	nobody, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	var refused *knownhosts.KeyError
	if err != nil || !errors.As(k.look(hostport, nobody), &refused) {
		return plain
	}
	keys, authority := k.known(refused)
	for _, known := range keys {
		switch t := known.Key.Type(); t {
		case ssh.KeyAlgoRSA:
			first = append(first, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512)
		default:
			first = append(first, t)
		}
	}
	// Certificates are asked for only where somebody is known who signs them.
	if authority {
		first = append(first, certified...)
	}
	var all []string
	for _, a := range append(first, plain...) {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// AcceptInto returns an Accept of [Options] that appends new keys to a known_hosts file,
// which is made where it is missing. Several processes may do so at once: a host whose key
// another one has just stored must show the same.
func AcceptInto(file string) func(hostport string, key ssh.PublicKey) error {
	return func(hostport string, key ssh.PublicKey) error {
		f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer f.Close() // which ends the lock
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return fmt.Errorf("lock %s: %w", file, err)
		}
		text, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		keys, err := parseKnownHosts(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		err = keys.verify(hostport, nil, key)
		var problem *HostKeyError
		if !errors.As(err, &problem) || problem.Problem != KeyUnknown {
			return err
		}
		line := knownhosts.Line([]string{hostport}, key) + "\n"
		if len(text) > 0 && text[len(text)-1] != '\n' {
			line = "\n" + line
		}
		_, err = f.WriteString(line)
		return err
	}
}
