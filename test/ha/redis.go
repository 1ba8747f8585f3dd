package ha

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// masterName is the sentinels' name for the master.
const masterName = "jibe"

// redisWait bounds the wait for Redis to be what is wanted.
const redisWait = time.Minute

// redisSet is a master of Redis with replicas, and the sentinels that watch it.
type redisSet struct {
	servers, sentinels []*redisserver.Server
}

// startRedis starts them. A single server has no sentinels. args are more of the servers'
// configuration.
func startRedis(ctx context.Context, dir string, servers int, args ...string) (_ *redisSet, err error) {
	r := &redisSet{}
	defer func() {
		if err != nil {
			r.kill()
		}
	}()
	folder := func(name string, i int) (string, error) {
		to := filepath.Join(dir, fmt.Sprintf("%s-%d", name, i))
		return to, os.Mkdir(to, 0o755)
	}
	for i := range servers {
		to, err := folder("redis", i)
		if err != nil {
			return nil, err
		}
		own := args
		if i > 0 {
			host, port, _ := net.SplitHostPort(r.servers[0].Address)
			own = append([]string{"--replicaof", host + " " + port}, args...)
		}
		s, err := redisserver.Launch(ctx, to, own...)
		if err != nil {
			return nil, err
		}
		r.servers = append(r.servers, s)
	}
	if servers == 1 {
		return r, nil
	}
	for i := range servers {
		to, err := folder("sentinel", i)
		if err != nil {
			return nil, err
		}
		s, err := redisserver.LaunchSentinel(ctx, to, masterName, r.servers[0].Address, servers/2+1)
		if err != nil {
			return nil, err
		}
		r.sentinels = append(r.sentinels, s)
	}
	return r, r.complete(ctx)
}

func (r *redisSet) kill() {
	for _, s := range append(append([]*redisserver.Server{}, r.sentinels...), r.servers...) {
		s.Kill()
	}
}

// complete waits until each sentinel knows all replicas and all other sentinels, and the master
// has its replicas: only then does a failover lose nothing.
func (r *redisSet) complete(ctx context.Context) error {
	return kit.Poll(ctx, redisWait, func() error {
		for _, s := range r.sentinels {
			text, err := ask(ctx, s, func(c *redis.Client) (string, error) { return c.Info(ctx, "sentinel").Result() })
			if err != nil {
				return err
			}
			if want := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", r.at(ctx), len(r.servers)-1, len(r.sentinels)); !strings.Contains(text, want) {
				return fmt.Errorf("a sentinel says %q, want %q", text, want)
			}
		}
		m := r.master(ctx)
		if m == nil {
			return errors.New("no server says that it is the master")
		}
		text, err := ask(ctx, m, func(c *redis.Client) (string, error) { return c.Info(ctx, "replication").Result() })
		if n := strings.Count(text, "state=online"); err == nil && n != len(r.servers)-1 {
			err = fmt.Errorf("the master has %d replicas: %s", n, text)
		}
		return err
	})
}

// at is the address of the master, as the first sentinel says.
func (r *redisSet) at(ctx context.Context) string {
	if len(r.sentinels) == 0 {
		return r.servers[0].Address
	}
	text, err := ask(ctx, r.sentinels[0], func(c *redis.Client) (string, error) {
		parts, err := c.Do(ctx, "SENTINEL", "get-master-addr-by-name", masterName).StringSlice()
		return strings.Join(parts, ":"), err
	})
	if err != nil {
		return ""
	}
	return text
}

// master is the server that the sentinels name, nil where there is none.
func (r *redisSet) master(ctx context.Context) *redisserver.Server {
	address := r.at(ctx)
	for _, s := range r.servers {
		if s.Address == address {
			return s
		}
	}
	return nil
}

// failOver kills the master, waits until another one is named and starts the killed one again,
// which becomes a replica in its own time. It begins when all is as it was before the last one.
func (r *redisSet) failOver(ctx context.Context) error {
	if err := r.complete(ctx); err != nil {
		return err
	}
	old := r.master(ctx)
	if old == nil {
		return errors.New("fail over: there is no master")
	}
	old.Kill()
	err := kit.Poll(ctx, redisWait, func() error {
		if now := r.at(ctx); now == old.Address || now == "" {
			return errors.New("the sentinels name no other master")
		}
		return nil
	})
	return errors.Join(err, old.Run(ctx))
}

// RedisAddress is where the master of Redis is.
func (r *Rig) RedisAddress(ctx context.Context) string { return r.redis.at(ctx) }

// Asked is what clients have asked Redis for in a while.
type Asked struct {
	// Requests are those of clients, by their command: one script is one of them. Within are the
	// commands that scripts run inside Redis.
	Requests map[string]int
	Within   int
}

// Total is how many requests there were.
func (a Asked) Total() (n int) {
	for _, x := range a.Requests {
		n += x
	}
	return n
}

// RedisAsked watches what the master of Redis is asked for so long (MONITOR).
func (r *Rig) RedisAsked(ctx context.Context, d time.Duration) (a Asked, err error) {
	a.Requests = map[string]int{}
	m := r.redis.master(ctx)
	if m == nil {
		return a, errors.New("no master is left of Redis")
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Address)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return a, err
		}
	}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		return a, err
	}
	lines := bufio.NewReader(conn)
	// A line is +TIME [DATABASE CLIENT] "COMMAND" "ARGUMENT"…, where the client of a script is lua.
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return a, nil
		}
		if err != nil {
			return a, fmt.Errorf("monitor Redis: %w", err)
		}
		client, command, ok := strings.Cut(line, "] \"")
		if !ok {
			continue // OK, which is no command
		}
		if strings.HasSuffix(client, " lua") {
			a.Within++
			continue
		}
		command, _, _ = strings.Cut(command, "\"")
		a.Requests[strings.ToUpper(command)]++
	}
}

// ask asks a server one thing.
func ask(ctx context.Context, s *redisserver.Server, question func(*redis.Client) (string, error)) (string, error) {
	if s == nil {
		return "", errors.New("no server to ask")
	}
	c := s.Dial()
	defer c.Close()
	return question(c)
}
