package redis_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	goredis "github.com/redis/go-redis/v9"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/store/storetest"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// patience bounds a hang and measures nothing: a loaded machine is slow.
const patience = 2 * time.Minute

func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// suite runs the suite of all stores on a Redis. Each test has a prefix of its own.
func suite(t *testing.T, url string, c goredis.UniversalClient) {
	var n int
	var o redis.Options
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T, _ func() time.Time) store.Store {
			n++
			o = redis.Options{URL: fmt.Sprintf("%s?prefix=t%d", url, n)}
			return open(t, o)
		},
		Reopen: func(t *testing.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, o)
		},
		Pass: func(t *testing.T, d time.Duration) { pass(t, c, fmt.Sprintf("t%d", n), d) },
	})
}

// pass has all leases end earlier, as Redis's clock can't be set.
func pass(t *testing.T, c goredis.UniversalClient, prefix string, d time.Duration) {
	t.Helper()
	key := "{" + prefix + "}:leases"
	all, err := c.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, lease := range all {
		parts := strings.SplitN(lease, "\n", 3)
		ends, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		parts[1] = strconv.FormatInt(ends-d.Microseconds(), 10)
		if err := c.HSet(t.Context(), key, name, strings.Join(parts, "\n")).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// mini starts a miniredis that tells its run.
func mini(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(p *server.Peer, cmd string, _ ...string) bool {
		if !strings.EqualFold(cmd, "INFO") {
			return false
		}
		p.WriteBulk("redis_version:7.0.0\r\nredis_mode:standalone\r\nrun_id:1\r\n")
		return true
	})
	return m
}

func TestStoreOnMiniredis(t *testing.T) {
	m := mini(t)
	c := goredis.NewClient(&goredis.Options{Addr: m.Addr(), Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	suite(t, "redis://"+m.Addr(), c)
}

func TestStoreOnRedis(t *testing.T) {
	s := redisserver.Start(t)
	suite(t, "redis://"+s.Address, s.Client(t))
}

func TestURLsAreUnderstoodOrRefused(t *testing.T) {
	for url, want := range map[string]string{
		"redis://:secret@h/0":             "--store-password",
		"redis://me:secret@h:6379":        "--store-password",
		"http://h":                        "scheme",
		"redis://h/zero":                  "no number",
		"redis://a,b":                     "several hosts",
		"redis+sentinel://a,b":            "name of the master",
		"redis+cluster://a/1":             "one database",
		"redis+strange://a":               "no scheme",
		"redis://h?master=m":              "sentinel",
		"redis://h?strange=1":             "no parameter",
		"redis://h?prefix=a*":             "prefix",
		"rediss://h?ca=/does/not/exist":   "/does/not/exist",
		"redis://":                        "host is missing",
		"redis://127.0.0.1:1?prefix=mine": store.ErrUnavailable.Error(),
	} {
		s, err := redis.Open(t.Context(), redis.Options{URL: url, Password: "the password"})
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "the password") {
			t.Errorf("%s: %v, want an error with %q and no secret", url, err, want)
		}
	}
}

func TestTheGuidesRightsAreEnoughAndNeeded(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	var rule string
	for line := range strings.Lines(string(guide)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "ACL SETUSER jibe "); ok {
			rule = rest
		}
	}
	r := redisserver.Start(t)
	admin := r.Client(t)
	set := func(words ...string) {
		t.Helper()
		args := []any{"ACL", "SETUSER", "jibe"}
		for _, w := range words {
			args = append(args, w)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	words := strings.Fields(strings.ReplaceAll(rule, "PASSWORD", "secret"))
	set(words...)
	o := redis.Options{URL: "redis://jibe@" + r.Address, Password: "secret"}
	work := func(t *testing.T) error {
		s, err := redis.Open(t.Context(), o)
		if err != nil {
			return err
		}
		defer s.Close()
		at, err := s.Mark(t.Context())
		if err != nil {
			return err
		}
		recs, err := s.Put(t.Context(), store.Record{Key: "log/"})
		if err != nil {
			return err
		}
		session, err := s.Acquire(t.Context(), "session", "me", time.Minute)
		if err != nil {
			return err
		}
		attached, err := s.Attach(t.Context(), "attached", session)
		if err != nil {
			return err
		}
		_, err = s.Put(store.Under(t.Context(), attached), store.Record{Key: recs[0].Key, Version: 1, Delete: true})
		_, gerr := s.Get(t.Context(), "absent")
		if errors.Is(gerr, store.ErrNotFound) {
			gerr = nil
		}
		_, lerr := s.List(t.Context(), "", "", 0)
		_, serr := s.Leases(t.Context(), "")
		_, _, cerr := s.Changes(t.Context(), at)
		facts, ferr := s.Facts(t.Context())
		if ferr == nil && (facts.Skew.Abs() > time.Minute || facts.Memory == 0) {
			ferr = fmt.Errorf("the facts are %+v: the clock is this machine's own", facts)
		}
		rerr := errors.Join(s.Release(t.Context(), attached), s.Release(t.Context(), session))
		return errors.Join(err, gerr, lerr, serr, cerr, ferr, rerr, s.Probe(t.Context(), 100))
	}
	if err := work(t); err != nil {
		t.Fatalf("with the guide's rights: %v", err)
	}
	follow(t, o)
	// Without these something is told less, or only what this test doesn't do is refused.
	seldom := []string{"config|get", "select", "wait", "auth", "hello", "ping", "eval", "pexpire", "xread", "cluster|slots", "cluster|shards", "cluster|info"}
	for _, w := range words {
		command, is := strings.CutPrefix(w, "+")
		if !is || slices.Contains(seldom, command) {
			continue
		}
		set("-" + command)
		if err := work(t); err == nil {
			t.Errorf("%s isn't needed", command)
		} else if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("without %s: %v, want ErrUnavailable", command, err)
		}
		set("+" + command)
	}
}

// follow has one Store told of what another puts.
func follow(t *testing.T, o redis.Options) {
	s := open(t, o)
	at, err := s.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	go func() {
		_, _, err := s.Changes(t.Context(), at)
		told <- err
	}()
	if _, err := open(t, o).Put(t.Context(), store.Record{Key: "told"}); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Fatal(err)
	}
}

func TestAPasswordAndTLSAreUsed(t *testing.T) {
	dir := t.TempDir()
	ca, cert, key := dir+"/ca.pem", dir+"/cert.pem", dir+"/key.pem"
	certificates(t, ca, cert, key)
	_, port, _ := strings.Cut(kit.Free(t), ":")
	redisserver.Start(t, "--requirepass", "secret", "--tls-port", port, "--tls-ca-cert-file", ca, "--tls-cert-file", cert, "--tls-key-file", key)
	url := fmt.Sprintf("rediss://127.0.0.1:%s?ca=%s&cert=%s&key=%s", port, ca, cert, key)
	s := open(t, redis.Options{URL: url, Password: "secret"})
	if _, err := s.Put(t.Context(), store.Record{Key: "a"}); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]redis.Options{
		"another password":    {URL: url, Password: "wrong one"},
		"another authority":   {URL: fmt.Sprintf("rediss://127.0.0.1:%s?cert=%s&key=%s", port, cert, key), Password: "secret"},
		"without certificate": {URL: fmt.Sprintf("rediss://127.0.0.1:%s?ca=%s", port, ca), Password: "secret"},
		"in clear":            {URL: "redis://127.0.0.1:" + port, Password: "secret"},
	} {
		s, err := redis.Open(t.Context(), o)
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "wrong one") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWritesThatReplicasLackAreSaidToBeUnknown(t *testing.T) {
	r := redisserver.Start(t)
	s := open(t, redis.Options{URL: r.URL(), Replicas: 1})
	_, err := s.Put(t.Context(), store.Record{Key: "a"})
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "isn't known") {
		t.Fatalf("a Put that no replica has: %v", err)
	}
	host, port, _ := strings.Cut(r.Address, ":")
	redisserver.Start(t, "--replicaof", host+" "+port)
	eventually(t, "a Put that a replica has", func() error { _, err := s.Put(t.Context(), store.Record{Key: "log/"}); return err })
}

func TestStoreOnACluster(t *testing.T) {
	_, bus, _ := strings.Cut(kit.Free(t), ":") // by default 10,000 above its port: where the system takes clients' ports from
	r := redisserver.Start(t, "--cluster-enabled", "yes", "--cluster-port", bus)
	c := r.Client(t)
	if err := c.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster works", func() error { return c.Set(t.Context(), "x", "", 0).Err() })
	suite(t, "redis+cluster://"+r.Address, c)
	if u, err := open(t, redis.Options{URL: "redis+cluster://" + r.Address}).Usage(t.Context()); err != nil || u.Memory == 0 {
		t.Errorf("what a cluster uses: %+v, %v", u, err)
	}
}

func TestTheSentinelsMasterIsFollowed(t *testing.T) {
	r := redisserver.Start(t)
	host, port, _ := strings.Cut(r.Address, ":")
	replica := redisserver.Start(t, "--replicaof", host+" "+port)
	sentinel := redisserver.Sentinel(t, "mine", r.Address)
	followsTheMaster(t, r, replica, sentinel, "redis+sentinel://"+sentinel.Address+"/0?master=mine")
}

func TestTheSentinelsMasterIsFollowedOverTLS(t *testing.T) {
	dir := t.TempDir()
	ca, cert, key := dir+"/ca.pem", dir+"/cert.pem", dir+"/key.pem"
	certificates(t, ca, cert, key)
	over := func(more ...string) (address string, args []string) { // all that they say to each other, too
		address = kit.Free(t)
		_, port, _ := strings.Cut(address, ":")
		return address, append([]string{"--tls-port", port, "--tls-replication", "yes", "--tls-ca-cert-file", ca, "--tls-cert-file", cert, "--tls-key-file", key}, more...)
	}
	master, args := over()
	r := redisserver.Start(t, args...)
	host, port, _ := strings.Cut(master, ":")
	_, args = over("--replicaof", host+" "+port)
	replica := redisserver.Start(t, args...)
	at, args := over()
	sentinel := redisserver.Sentinel(t, "mine", master, args...)
	followsTheMaster(t, r, replica, sentinel, fmt.Sprintf("rediss+sentinel://%s/0?master=mine&ca=%s&cert=%s&key=%s", at, ca, cert, key))
}

// followsTheMaster has a Store at a URL go on where the master is killed, and its replica takes its place.
func followsTheMaster(t *testing.T, r, replica, sentinel *redisserver.Server, url string) {
	t.Helper()
	s := open(t, redis.Options{URL: url})
	if _, err := s.Put(t.Context(), store.Record{Key: "a"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica has it", func() error {
		n, err := replica.Client(t).Exists(t.Context(), "{jibe}:r:a").Result()
		if err == nil && n == 0 {
			err = errors.New("not yet")
		}
		return err
	})
	eventually(t, "the sentinel knows the replica", func() error {
		text, err := sentinel.Client(t).Info(t.Context(), "sentinel").Result()
		if err == nil && !strings.Contains(text, "slaves=1") {
			err = errors.New(text)
		}
		return err
	})
	replicas := func(want int) func() error {
		return func() error {
			u, err := s.Usage(t.Context())
			if err == nil && (u.Replicas != want || u.Records == 0 || u.Memory == 0) {
				err = fmt.Errorf("it uses %+v, want %d replicas", u, want)
			}
			return err
		}
	}
	eventually(t, "the master's replica is seen", replicas(1))
	r.Kill()
	eventually(t, "a Put after the failover", func() error { _, err := s.Put(t.Context(), store.Record{Key: "log/"}); return err })
	eventually(t, "what was put before", func() error { _, err := s.Get(t.Context(), "a"); return err })
	eventually(t, "the new master has none", replicas(0))
}

// certificates writes a certificate that is its own authority, for both sides.
func certificates(t *testing.T, ca, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		ca: {Type: "CERTIFICATE", Bytes: der}, cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
