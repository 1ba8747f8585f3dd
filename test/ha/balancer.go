package ha

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// replicaHeader is the header of an answer with the name of the replica that gave it.
const replicaHeader = "X-Replica"

// balancerConfig is what an operator writes. A replica that says that it isn't ready, that takes no
// connection or that doesn't answer in five seconds, gets no requests: where a machine that all of them are on
// stands still for less, they aren't all taken for dead. What is sent again is what HTTP lets anybody send
// again: a request that no replica has got, and one that only reads. Each request has a connection of its own to a
// replica, which closes those that are kept when it ends. A connection that nobody uses is kept for
// longer than Go's clients keep it: they would meet its end with a request.
const balancerConfig = `global
    maxconn 2000
defaults
    mode http
    timeout connect 500ms
    timeout client 60s
    timeout http-keep-alive 3m
    timeout server 60s
    timeout check 5s
    option redispatch 1
    retries 3
    retry-on conn-failure empty-response response-timeout 502 503 504
frontend jibe
    bind %s
    http-request disable-l7-retry if !{ method GET HEAD }
    default_backend jibe
backend jibe
    balance roundrobin
    option http-server-close
    http-response set-header ` + replicaHeader + ` %%s
    option httpchk GET /readyz
    default-server check inter 250ms fall 1 rise 2
`

// balancer is a haproxy before the replicas.
type balancer struct {
	address string
	cmd     *exec.Cmd
	log     string
}

// startBalancer starts a haproxy before addresses.
func startBalancer(ctx context.Context, dir string, replicas []string) (*balancer, error) {
	program, err := findHAProxy()
	if err != nil {
		return nil, err
	}
	b := &balancer{log: filepath.Join(dir, "haproxy.log")}
	if b.address, err = kit.FreeAddress("127.0.0.1"); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(balancerConfig, b.address)
	for i, r := range replicas {
		config += fmt.Sprintf("    server replica-%d %s\n", i, r)
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return nil, err
	}
	log, err := os.Create(b.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	b.cmd = exec.Command(program, "-db", "-f", file)
	b.cmd.Stdout, b.cmd.Stderr = log, log
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	err = kit.Poll(ctx, readyWait, func() error {
		c, err := net.Dial("tcp", b.address)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if err != nil {
		b.stop()
		text, _ := os.ReadFile(b.log)
		return nil, fmt.Errorf("haproxy: %w\n%s", err, text)
	}
	return b, nil
}

func (b *balancer) stop() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// findHAProxy looks where Debian puts what is for administrators, too.
func findHAProxy() (string, error) {
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("haproxy is missing: install Debian's haproxy")
}

// Missing returns what this machine lacks for a rig, nil where it has all.
func Missing() error {
	var errs []error
	for _, name := range []string{"redis-server", "redis-benchmark", "git"} {
		if _, err := exec.LookPath(name); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing: install Debian's %s", name, strings.Replace(name, "redis-benchmark", "redis-tools", 1)))
		}
	}
	_, err := findHAProxy()
	return errors.Join(append(errs, err)...)
}
