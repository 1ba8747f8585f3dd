package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	defaultConnectTimeout = 10 * time.Second
	defaultSilence        = 30 * time.Second
	defaultSessions       = 8
	retryPause            = time.Second
)

// Options say how a connection is made and kept.
type Options struct {
	// ConnectTimeout bounds one try at one host, from the first packet until it has let
	// us in; 0 is 10 s.
	ConnectTimeout time.Duration
	// Wait is for how long a host is tried again that can't be reached, refuses the
	// connection, or ends it before anybody logs in, as one does that boots; 0 is one
	// try. A host that is reached and refuses the login isn't tried again, nor is one with
	// a wrong key.
	Wait time.Duration
	// Silence is how long nothing may come from a host, although it is asked, until the
	// connection is taken for lost; 0 is 30 s.
	Silence time.Duration
	// Sessions is how many commands run at once on a connection, others wait; 0 is 8, as
	// OpenSSH allows 10.
	Sessions int
	// Accept is asked about the key of a host of which known_hosts has none, and stores
	// it, or returns an error to refuse it; nil refuses all. See [AcceptInto]. It is never
	// asked where another key is known.
	Accept func(hostport string, key ssh.PublicKey) error
}

// LoginError is returned where a host was reached, and refuses the login.
type LoginError struct {
	Host Host
	err  error
}

func (e *LoginError) Error() string {
	with := "the key"
	switch {
	case len(e.Host.Key) > 0 && e.Host.Password != "":
		with = "the key and the password"
	case e.Host.Password != "":
		with = "the password"
	}
	return fmt.Sprintf("%s refuses the login with %s: check the user, %s, and what the SSH server allows (its log tells): %v", e.Host, with, with, e.err)
}

// Unwrap returns the library's error.
func (e *LoginError) Unwrap() error { return e.err }

// Dial connects to a host, through its jump hosts, and logs in. The error is a
// [*HostKeyError], a [*LoginError], one that wraps the context's, or one that says why the
// host can't be reached.
func Dial(ctx context.Context, h Host, o Options) (*Conn, error) {
	o.ConnectTimeout = cmp.Or(max(o.ConnectTimeout, 0), defaultConnectTimeout)
	o.Silence = cmp.Or(max(o.Silence, 0), defaultSilence)
	o.Sessions = cmp.Or(max(o.Sessions, 0), defaultSessions)
	way, err := prepare(h, o)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var last error
	for tries := 1; ; tries++ {
		c, err := way.dial(ctx)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ended(ctx, h, last)
		}
		last = err
		if !transient(err) {
			return nil, err
		}
		left := o.Wait - time.Since(began)
		if left <= 0 {
			return nil, fmt.Errorf("%s can't be reached (tries: %d, in %s): see whether it runs, its SSH server listens, and a firewall lets this machine in: %w",
				h, tries, time.Since(began).Round(time.Second), err)
		}
		select {
		case <-ctx.Done():
			return nil, ended(ctx, h, last)
		case <-time.After(min(retryPause, left)):
		}
	}
}

// ended returns an error that says that the time was over, and what stood in the way.
func ended(ctx context.Context, h Host, last error) error {
	if last == nil {
		return fmt.Errorf("connect to %s: %w", h, context.Cause(ctx))
	}
	return fmt.Errorf("connect to %s: %w; the last try: %w", h, context.Cause(ctx), last)
}

// hop is a host on the way, with all that is read before a connection is made.
type hop struct {
	Host
	options Options
	signer  ssh.Signer
	keys    *hostKeys
	before  *hop
}

func prepare(h Host, o Options) (*hop, error) {
	p := &hop{Host: h, options: o}
	var err error
	if p.signer, err = h.signer(); err != nil {
		return nil, err
	}
	if p.keys, err = parseKnownHosts(h.KnownHosts); err != nil {
		return nil, fmt.Errorf("%s: %w", h, err)
	}
	p.keys.accept = o.Accept
	if h.Jump != nil {
		if p.before, err = prepare(*h.Jump, o); err != nil {
			return nil, fmt.Errorf("jump host: %w", err)
		}
	}
	return p, nil
}

// dial makes one try.
func (p *hop) dial(ctx context.Context) (_ *Conn, err error) {
	var jump *Conn
	if p.before != nil {
		if jump, err = p.before.dial(ctx); err != nil {
			return nil, fmt.Errorf("jump host: %w", err)
		}
	}
	defer func() {
		if err != nil && jump != nil {
			jump.Close()
		}
	}()
	limited, cancel := context.WithTimeout(ctx, p.options.ConnectTimeout)
	defer cancel()
	var raw net.Conn
	if jump != nil {
		if raw, err = jump.client.DialContext(limited, "tcp", p.hostport()); err != nil {
			err = fmt.Errorf("%s from the jump host: %w", p.hostport(), err)
		}
	} else {
		raw, err = new(net.Dialer).DialContext(limited, "tcp", p.hostport())
	}
	if err != nil {
		return nil, err
	}
	// A connection through a jump host knows no deadlines, so it is closed instead.
	stop := context.AfterFunc(limited, func() { _ = raw.Close() })
	w := &wire{Conn: raw}
	a := &attempt{hop: p}
	conn, channels, requests, err := ssh.NewClientConn(w, p.hostport(), a.config())
	if !stop() {
		if err == nil {
			_ = conn.Close()
		}
		err = fmt.Errorf("%s: not logged in within %s: %w", p.hostport(), p.options.ConnectTimeout, context.DeadlineExceeded)
	}
	if err != nil {
		return nil, a.explain(err)
	}
	return newConn(p.Host, p.options, ssh.NewClient(conn, channels, requests), w, jump), nil
}

// attempt is one handshake. Its callbacks are called one after the other.
type attempt struct {
	*hop
	keyError error // what is wrong with the host's key
	verified bool
	given    bool // the password
}

func (a *attempt) config() *ssh.ClientConfig {
	c := &ssh.ClientConfig{
		User:              a.User,
		HostKeyAlgorithms: a.keys.algorithms(a.hostport()),
		HostKeyCallback: func(hostport string, remote net.Addr, key ssh.PublicKey) error {
			a.keyError = a.keys.verify(hostport, remote, key)
			a.verified = a.keyError == nil
			return a.keyError
		},
	}
	if a.signer != nil {
		c.Auth = append(c.Auth, ssh.PublicKeys(a.signer))
	}
	if a.Password != "" {
		c.Auth = append(c.Auth, ssh.PasswordCallback(a.password), ssh.KeyboardInteractive(a.answer))
	}
	return c
}

func (a *attempt) password() (string, error) {
	a.given = true
	return a.Password, nil
}

// answer gives the password to servers that ask for it with a question. A server that has
// refused it isn't given it again: accounts are locked for that.
func (a *attempt) answer(_, _ string, questions []string, echos []bool) ([]string, error) {
	switch {
	case len(questions) == 0:
		return nil, nil
	case a.given:
		return nil, errors.New("the password was refused")
	case len(questions) > 1 || echos[0]:
		return nil, errors.New("the host asks for more than a password")
	}
	a.given = true
	return []string{a.Password}, nil
}

// explain says what a failed handshake means.
func (a *attempt) explain(err error) error {
	switch {
	case a.keyError != nil:
		return a.keyError
	case a.given && transient(err):
		// It may be the answer to a wrong password.
		return &finalError{fmt.Errorf("%s ended the connection after it was told the password, which may be wrong: %w", a.Host, err)}
	case transient(err):
		return err
	case a.verified:
		return &LoginError{Host: a.Host, err: err}
	}
	return fmt.Errorf("%s: no connection can be agreed on: %w", a.hostport(), err)
}

// finalError is an error after which no other try is made, whatever its cause.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// transient says whether another try may help: the machine, or its SSH server, may be
// about to start.
func transient(err error) bool {
	var final *finalError
	var login *LoginError
	var refused *ssh.OpenChannelError // what the jump host says of the next one
	switch {
	case errors.As(err, &final), errors.As(err, &login):
		return false
	case errors.As(err, &refused):
		return refused.Reason == ssh.ConnectionFailed
	}
	for _, cause := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
		syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETUNREACH, syscall.ETIMEDOUT,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}
