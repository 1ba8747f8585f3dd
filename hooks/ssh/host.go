// Package ssh runs commands on machines over SSH and writes files there, for the hooks of VNF
// packages: it checks who the machine is, waits for one that boots, notices a connection that
// was cut, and ends what runs too long.
//
// It takes host keys from known_hosts and nowhere else, allocates no terminal, needs no
// SFTP, and reads neither files nor the environment: all that it needs is in a [Host].
// Passwords, keys and commands are in none of its errors.
package ssh

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"
)

// Host is a machine, and how to log in to it. Key, Password or both are needed; the key is
// offered first.
type Host struct {
	// Address is a name or an IP address, Port 22 where it is 0.
	Address string
	Port    int
	User    string
	// Password is given where the machine asks for it, as "password" or as the only
	// question of "keyboard-interactive", once.
	Password string
	// Key is a private key in PEM or OpenSSH's format, Passphrase what it is encrypted with.
	Key        []byte
	Passphrase string
	// KnownHosts is the text of a known_hosts file (sshd(8)), with hashed names, ports,
	// @cert-authority and @revoked.
	KnownHosts string
	// Jump is the host from which this one is reached; nil is this machine.
	Jump *Host
}

// String returns user@address:port, without the rest.
func (h Host) String() string { return h.User + "@" + h.hostport() }

// GoString returns what String does: no way of printing a host shows its secrets.
func (h Host) GoString() string { return h.String() }

// LogValue returns what String does.
func (h Host) LogValue() slog.Value { return slog.StringValue(h.String()) }

func (h Host) hostport() string {
	return net.JoinHostPort(h.Address, strconv.Itoa(cmp.Or(h.Port, 22)))
}

// signer reads the key, nil where there is none.
func (h Host) signer() (ssh.Signer, error) {
	switch {
	case h.Address == "":
		return nil, errors.New("the host has no address")
	case h.Port < 0 || h.Port > 65535:
		return nil, fmt.Errorf("%s: %d is no port", h.Address, h.Port)
	case h.User == "":
		return nil, fmt.Errorf("%s: name the user to log in as", h.Address)
	case len(h.Key) == 0 && h.Password == "":
		return nil, fmt.Errorf("%s: neither a key nor a password is given: one is needed to log in", h)
	case len(h.Key) == 0:
		return nil, nil
	}
	key, err := ssh.ParsePrivateKey(h.Key)
	var encrypted *ssh.PassphraseMissingError
	if errors.As(err, &encrypted) {
		if h.Passphrase == "" {
			return nil, fmt.Errorf("%s: the private key is encrypted: give its passphrase, or a key without one", h)
		}
		key, err = ssh.ParsePrivateKeyWithPassphrase(h.Key, []byte(h.Passphrase))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the private key can't be read, or its passphrase is wrong: %w", h, err)
	}
	return key, nil
}
