package kubecluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
	"github.com/jibe-vnfm/jibe/hooks/ssh"
)

const (
	// maxScript bounds the package's files that are uploaded, in bytes, and maxPrinted
	// what the script may print.
	maxScript  = 8 << 20
	maxPrinted = 4 << 20
	// shownPrint is how much of that an error shows.
	shownPrint = 1 << 10
	// jumpKey begins the names of the accepted keys of jump hosts.
	jumpKey = "jump "
	// lateness is how much longer we wait than the machine itself for its script.
	lateness = 15 * time.Second
	// lostPause is before a machine whose connection was lost is tried again.
	lostPause = time.Second
)

// asRoot runs its arguments as root.
const asRoot = `if [ "$(id -u)" = 0 ]; then exec "$@"; fi; exec sudo -n -- "$@"`

// runScript runs $1, a file, with the settings that stand in its standard input, one in a
// line until an empty one, so that no list of processes shows them. $2 is for how many
// seconds; the machine itself enforces that, as nobody can end what sudo runs over SSH. It
// waits for a script that an earlier connection has left running.
const runScript = `
f=$1 t=$2; shift 2
while IFS= read -r s && [ -n "$s" ]; do export "$s"; done
trap 'rm -f "$f"' EXIT
IFS= read -r first <"$f"
case $first in '#!'*) set -- ${first#??} "$f" ;; *) set -- sh "$f" ;; esac
if command -v timeout >/dev/null; then set -- timeout -k 5 "$t" "$@"; fi
if flock -V >/dev/null 2>&1; then set -- flock -o -w "$t" -E 75 /run/jibe-kubernetes.lock "$@"; fi
"$@" </dev/null 2>&1`

// dial logs in to a machine, which may be waited for.
func (d *driver) dial(ctx context.Context, m machine, wait time.Duration) (*ssh.Conn, error) {
	if err := m.reachable(); err != nil {
		return nil, err
	}
	h := ssh.Host{
		Address: m.sshAddress(), Port: d.SSH.Port, User: m.User, Password: m.Password,
		Key: []byte(d.SSH.Identity), Passphrase: d.SSH.Passphrase, KnownHosts: d.knownHosts(m.ID, m.sshAddress(), d.SSH.Port),
	}
	// A machine that is made anew at the same address has another key, so keys are kept by
	// unit, and not by address.
	holders := map[string]string{knownhosts.Normalize(net.JoinHostPort(h.Address, strconv.Itoa(h.Port))): m.ID}
	if j := d.SSH.Jump; j != nil {
		id := jumpKey + j.Host
		h.Jump = &ssh.Host{
			Address: j.Host, Port: j.Port, User: j.User, Password: j.Password, Key: []byte(j.Identity), Passphrase: j.Passphrase,
			KnownHosts: d.knownHosts(id, j.Host, j.Port),
		}
		holders[knownhosts.Normalize(net.JoinHostPort(j.Host, strconv.Itoa(j.Port)))] = id
	}
	o := ssh.Options{Wait: wait}
	if d.SSH.AcceptNew {
		o.Accept = func(hostport string, key xssh.PublicKey) error {
			d.note(&d.keys, holders[knownhosts.Normalize(hostport)], strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key))))
			return nil
		}
	}
	c, err := ssh.Dial(ctx, h, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", m, err, d.advice(err))
	}
	return c, nil
}

// advice says which parameter an error is about.
func (d *driver) advice(err error) string {
	var key *ssh.HostKeyError
	switch {
	case !errors.As(err, &key):
		return ""
	case key.Problem == ssh.KeyUnknown:
		return fmt.Sprintf(" (known_hosts is %s.ssh.known_hosts; %s.ssh.accept_new: true takes each new machine at its word, once)", params.Name, params.Name)
	case key.Problem == ssh.KeyChanged && slices.ContainsFunc(key.Known, func(k ssh.KnownKey) bool { return k.Line > strings.Count(d.SSH.KnownHosts, "\n") }):
		return fmt.Sprintf(" (it was accepted before; it stands in the instance's metadata %s)", metaKeys)
	}
	return ""
}

// knownHosts returns the known_hosts of the parameters, and the key that was accepted of the
// holder id.
func (d *driver) knownHosts(id, address string, port int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := strings.TrimRight(d.SSH.KnownHosts, "\n") + "\n"
	if key := d.keys[id]; key != "" {
		text += knownhosts.Normalize(net.JoinHostPort(address, strconv.Itoa(port))) + " " + key + "\n"
	}
	return text
}

// install runs the script on a machine until it has succeeded or failed, or
// the time is over. Where the connection is lost, it connects and runs the script again, which
// the script bears. The machine may still boot.
func (d *driver) install(ctx context.Context, until time.Time, m machine, action string, env map[string]string) error {
	// The machine ends its script before, and says how far the script came.
	ctx, cancel := context.WithDeadline(ctx, until.Add(lateness))
	defer cancel()
	for {
		err := d.installOnce(ctx, m, action, env, until)
		if !errors.Is(err, ssh.ErrLost) || ctx.Err() != nil || time.Until(until) < lostPause {
			return err
		}
		d.say("%s: the connection was lost during %s: once more", m, action)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lostPause):
		}
	}
}

func (d *driver) installOnce(ctx context.Context, m machine, action string, env map[string]string, until time.Time) error {
	conn, err := d.dial(ctx, m, time.Until(until))
	if err != nil {
		return err
	}
	defer conn.Close()
	all := map[string]string{"JIBE_K8S_ACTION": action}
	maps.Copy(all, d.Proxy)
	maps.Copy(all, env)
	var files []string
	defer func() {
		if len(files) > 0 { // the connection may be lost, and then they stay
			clear, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateness)
			defer cancel()
			_ = conn.Run(clear, ssh.Command{Cmd: ssh.Quote(append([]string{"rm", "-f", "--"}, files...)...)})
		}
	}()
	put := func(name string, data []byte) (string, error) {
		to := "/tmp/jibe-" + rand.Text() + "-" + path.Base(name)
		files = append(files, to)
		if err := conn.Upload(ctx, bytes.NewReader(data), to, 0o700); err != nil {
			return "", fmt.Errorf("%s: %w", m, err)
		}
		return to, nil
	}
	script, err := put(d.scriptName(), d.scriptText)
	if err != nil {
		return err
	}
	for _, setting := range []string{"JIBE_K8S_CNI", "JIBE_K8S_REPOSITORY_KEY"} {
		name := all[setting]
		if name == "" || strings.Contains(name, "://") {
			continue
		}
		data, err := d.packageFile(name)
		if err != nil {
			return err
		}
		if all[setting], err = put(name, data); err != nil {
			return err
		}
	}
	if all[settingDigest] != "" {
		if all[settingArtifacts], err = d.sendArtifacts(ctx, conn, m); err != nil {
			return err
		}
	}
	return d.run(ctx, conn, m, action, script, all, until)
}

// run runs a script that is on the machine.
func (d *driver) run(ctx context.Context, conn *ssh.Conn, m machine, action, script string, env map[string]string, until time.Time) error {
	var stdin bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.ContainsAny(env[name], "\n\x00") {
			return fmt.Errorf("%s: the setting %s can't have several lines", m, name)
		}
		fmt.Fprintf(&stdin, "%s=%s\n", name, env[name])
	}
	stdin.WriteString("\n")
	left := max(time.Until(until).Round(time.Second), time.Second)
	printed := &tail{}
	began := time.Now()
	err := conn.Run(ctx, ssh.Command{
		Cmd:   ssh.Quote("sh", "-c", asRoot, "sh", "sh", "-c", runScript, "sh", script, strconv.Itoa(int(left.Seconds()))),
		Stdin: &stdin, Stdout: printed, Stderr: printed,
	})
	what := fmt.Sprintf("%s: %s %s", m, d.scriptName(), action)
	var exit *ssh.ExitError
	switch {
	case err == nil:
		d.say("%s: done in %s", what, time.Since(began).Round(100*time.Millisecond))
		return nil
	case errors.Is(err, errTooLoud):
		return fmt.Errorf("%s was stopped: %w; the last was%s", what, err, printed)
	case errors.As(err, &exit) && exit.Status == 124, errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s didn't end within %s (join_timeout is %s); the last it printed was%s", what, left, d.JoinTime, printed)
	case errors.As(err, &exit) && exit.Status == 75 && printed.len == 0:
		return fmt.Errorf("%s waited for %s for an earlier run of the script on that machine, which doesn't end", what, left)
	case exit != nil:
		return fmt.Errorf("%s: %w; it printed%s", what, err, printed)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// errTooLoud ends a script that prints without end.
var errTooLoud = fmt.Errorf("it printed more than %d bytes", maxPrinted)

// tail keeps the end of what is printed.
type tail struct {
	text []byte
	len  int
}

func (t *tail) Write(p []byte) (int, error) {
	if t.len += len(p); t.len > maxPrinted {
		return 0, errTooLoud
	}
	t.text = append(t.text, p...)
	if more := len(t.text) - shownPrint; more > 0 {
		t.text = append(t.text[:0], t.text[more:]...)
	}
	return len(p), nil
}

// String returns the end in one line, after a colon.
func (t *tail) String() string {
	words := strings.Fields(strings.ToValidUTF8(string(t.text), ""))
	if len(words) == 0 {
		return " nothing"
	}
	return ": " + strings.Join(words, " ")
}
