package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/jibe-vnfm/jibe/hooks/ssh"
)

// loginFlags name the places of credentials. No credential is an argument itself: everybody
// can read those in the list of processes.
type loginFlags struct {
	prefix                        string
	identity                      string
	passwordFile, passwordEnv     string
	passphraseFile, passphraseEnv string
}

func (l *loginFlags) register(f *pflag.FlagSet, prefix, of string) {
	l.prefix = prefix
	f.StringVar(&l.identity, prefix+"identity", "", "file with a private key for "+of)
	f.StringVar(&l.passphraseFile, prefix+"passphrase-file", "", "file with the passphrase of that key")
	f.StringVar(&l.passphraseEnv, prefix+"passphrase-env", "", "environment variable with the passphrase of that key")
	f.StringVar(&l.passwordFile, prefix+"password-file", "", "file with the password for "+of)
	f.StringVar(&l.passwordEnv, prefix+"password-env", "", "environment variable with the password for "+of)
}

// into reads the credentials.
func (l *loginFlags) into(h *ssh.Host) (err error) {
	if l.identity != "" {
		if h.Key, err = readSmall(l.identity); err != nil {
			return fmt.Errorf("--%sidentity: %w", l.prefix, err)
		}
	}
	if h.Passphrase, err = l.secret("passphrase", l.passphraseFile, l.passphraseEnv); err != nil {
		return err
	}
	h.Password, err = l.secret("password", l.passwordFile, l.passwordEnv)
	return err
}

// secret reads a secret from a file or a variable, "" where neither is named. The end of a
// file's last line isn't part of it.
func (l *loginFlags) secret(name, file, variable string) (string, error) {
	flag := "--" + l.prefix + name
	secret, flagged := "", ""
	switch {
	case file != "" && variable != "":
		return "", fmt.Errorf("%s-file and %s-env can't be given both", flag, flag)
	case file != "":
		data, err := readSmall(file)
		if err != nil {
			return "", fmt.Errorf("%s-file: %w", flag, err)
		}
		secret, flagged = string(bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))), flag+"-file "+file
	case variable != "":
		secret, flagged = os.Getenv(variable), flag+"-env "+variable
	default:
		return "", nil
	}
	if secret == "" {
		return "", fmt.Errorf("%s holds nothing", flagged)
	}
	return secret, nil
}

// readSmall reads a file that isn't larger than a secret can be.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(data) > maxSecret {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxSecret)
	}
	return data, err
}

// parseHost reads [user@]host[:port]; an IPv6 address with a port stands in brackets.
func parseHost(text string) (h ssh.Host, err error) {
	at := text
	if i := strings.LastIndex(text, "@"); i >= 0 {
		h.User, at = text[:i], text[i+1:]
	}
	h.Address = strings.TrimSuffix(strings.TrimPrefix(at, "["), "]")
	if strings.HasPrefix(at, "[") != strings.HasSuffix(at, "]") || strings.Count(at, ":") == 1 {
		var port string
		if h.Address, port, err = net.SplitHostPort(at); err == nil {
			if h.Port, err = strconv.Atoi(port); err == nil && (h.Port < 1 || h.Port > 65535) {
				err = strconv.ErrRange
			}
		}
	}
	if err != nil || h.Address == "" || strings.HasPrefix(text, "-") || strings.HasPrefix(h.Address, "-") {
		return h, fmt.Errorf("%q is no host: write user@host, user@host:port or user@[IPv6]:port", text)
	}
	return h, nil
}
