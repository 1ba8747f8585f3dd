package ssh

import (
	"errors"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// malice is an SSH server of the test's own, with one client, that does what session does. It
// returns the host, and a channel with what the client let it open.
func malice(t *testing.T, session func(ssh.Channel)) (Host, <-chan []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	key, _ := newKey(t, "")
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{
		PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil },
		BannerCallback:   func(ssh.ConnMetadata) string { return "\x1b[2J" + strings.Repeat("welcome ", 10_000) },
	}
	config.AddHostKey(signer)
	opened := make(chan []string, 1)
	go func() {
		raw, err := listener.Accept()
		if err != nil {
			return
		}
		conn, channels, requests, err := ssh.NewServerConn(raw, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		var all []string
		for _, kind := range []string{"auth-agent@openssh.com", "forwarded-tcpip", "direct-tcpip", "forwarded-streamlocal@openssh.com", "x11", "session", "tun@openssh.com"} {
			if _, _, err := conn.OpenChannel(kind, nil); err == nil {
				all = append(all, kind)
			}
		}
		opened <- all
		for wanted := range channels {
			if channel, asked, err := wanted.Accept(); err == nil {
				go func() {
					for request := range asked {
						_ = request.Reply(true, nil)
						if request.Type == "exec" {
							session(channel)
						}
					}
				}()
			}
		}
	}()
	at := listener.Addr().(*net.TCPAddr)
	return Host{Address: "127.0.0.1", Port: at.Port, User: "ubuntu", Password: "very secret",
		KnownHosts: knownhosts.Line([]string{at.String()}, signer.PublicKey())}, opened
}

func TestAServerOpensNothingAtItsClient(t *testing.T) {
	t.Parallel()
	h, opened := malice(t, func(ssh.Channel) {})
	dial(t, h, Options{})
	if all := <-opened; len(all) > 0 {
		t.Errorf("the server could open %v", all)
	}
}

func TestAServersNameOfASignalIsNoTerminals(t *testing.T) {
	t.Parallel()
	h, _ := malice(t, func(c ssh.Channel) {
		_, _ = c.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal     string
			CoreDumped bool
			Error      string
			Lang       string
		}{"KILL\x1b[2J\nroot@host#", false, "\x1b[2J", ""}))
		_ = c.Close()
	})
	c := dial(t, h, Options{})

	err := c.Run(soon(t), Command{Cmd: "true"})

	var exit *ExitError
	if !errors.As(err, &exit) || exit.Signal == "" || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("the error is %q", err)
	}
}

func TestAServerThatAsksForThePasswordTwiceGetsItOnce(t *testing.T) {
	t.Parallel()
	a := &attempt{hop: &hop{Host: Host{Password: "very secret"}}}
	for n, c := range []struct {
		questions []string
		echos     []bool
		answered  bool
	}{
		{nil, nil, false},
		{[]string{"Password: ", "Token: "}, []bool{false, false}, false},
		{[]string{"Your name for all to see: "}, []bool{true}, false},
		{[]string{"Password: "}, []bool{false}, true},
		{[]string{"Password: "}, []bool{false}, false},
	} {
		answers, _ := a.answer("", "\x1b[2J", c.questions, c.echos)
		if (len(answers) > 0) != c.answered {
			t.Errorf("question %d is answered with %d answers", n, len(answers))
		}
	}
}
