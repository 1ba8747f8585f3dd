package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// place is where Redis is.
type place struct {
	redis.UniversalOptions
	prefix, name string
	// plain says that what is sent can be read on the way: there is no TLS, and Redis is on another machine.
	plain bool
}

// How long Redis may take. A connection that is lost silently is noticed after answerTime.
const (
	dialTime   = 2 * time.Second
	answerTime = 5 * time.Second
)

// IsURL says whether a text names a store in Redis.
func IsURL(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && (strings.HasPrefix(scheme, "redis") || scheme == "unix")
}

// parse reads the options. Its errors hold nothing of a URL that has a password.
func parse(o Options) (*place, error) {
	scheme, rest, ok := strings.Cut(o.URL, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	user, hosts := "", authority
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		user, hosts = authority[:i], authority[i+1:]
	}
	if strings.Contains(user, ":") {
		return nil, errors.New("the store's URL holds a password, which others can read in the list of processes: leave it out, and give it with --store-password file:PATH or env:NAME")
	}
	user, err := url.PathUnescape(user)
	params, perr := url.ParseQuery(query)
	if !ok || err != nil || perr != nil {
		return nil, fmt.Errorf("store %q: want a URL, as redis://HOST:6379/0", o.URL)
	}

	p := newPlace(scheme + "://" + hosts)
	p.Username, p.Password, p.SentinelPassword = user, o.Password, o.SentinelPassword
	if err := p.read(scheme, hosts, path, params); err != nil {
		return nil, fmt.Errorf("store %s: %w", o.URL, err)
	}
	return p, nil
}

// newPlace is a place with the options that are the same for all.
func newPlace(name string) *place {
	p := &place{prefix: DefaultPrefix, name: name}
	p.DialTimeout, p.DialerRetries, p.ReadTimeout, p.WriteTimeout = dialTime, 1, answerTime, answerTime
	p.ContextTimeoutEnabled = true
	// A Put whose answer is lost must not be sent again by the library, which can't tell it
	// from another one; see writer.go.
	p.MaxRetries = -1
	p.DisableIdentity = true
	p.Protocol = 2
	p.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return p
}

// read reads the parts of a URL. A parameter that isn't for its scheme is refused.
func (p *place) read(scheme, hosts, path string, params url.Values) (err error) {
	param := func(name string) string {
		v := params.Get(name)
		params.Del(name)
		return v
	}
	base, kind, _ := strings.Cut(scheme, "+")

	if v := param("prefix"); v != "" {
		if strings.ContainsAny(v, "{}*?[]\\\n") {
			return fmt.Errorf("the prefix %q has a character that isn't for keys", v)
		}
		p.prefix = v
	}
	p.MasterName, p.SentinelUsername = param("master"), param("sentinel-user")
	if base == "rediss" {
		if p.TLSConfig, err = tlsConfig(param("ca"), param("cert"), param("key")); err != nil {
			return err
		}
	}
	db := path
	switch {
	case scheme == "unix":
		p.Addrs, db = []string{"/" + path}, param("db")
		p.name = "unix:///" + path
	case base != "redis" && base != "rediss":
		return errors.New("the scheme is one of redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster and unix")
	default:
		if p.Addrs, err = addresses(hosts, kind); err != nil {
			return err
		}
	}
	p.plain = base == "redis" && slices.ContainsFunc(p.Addrs, elsewhere)
	if db != "" {
		if p.DB, err = strconv.Atoi(db); err != nil || p.DB < 0 {
			return fmt.Errorf("the database %q is no number", db)
		}
	}
	if err := p.fit(scheme, kind); err != nil {
		return err
	}
	for name := range params {
		return fmt.Errorf("there is no parameter %q", name)
	}
	return nil
}

// addresses are the hosts of a URL, with ports.
func addresses(hosts, kind string) (out []string, err error) {
	port := "6379"
	if kind == "sentinel" {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return nil, errors.New("a host is missing")
		}
		if strings.LastIndex(host, ":") <= strings.LastIndex(host, "]") {
			host += ":" + port
		}
		out = append(out, host)
	}
	return out, nil
}

// fit holds what was read to the kind of Redis that the scheme names: one server, Sentinel or a cluster.
func (p *place) fit(scheme, kind string) error {
	switch kind {
	case "":
		if len(p.Addrs) > 1 {
			return errors.New("several hosts are for redis+sentinel and redis+cluster")
		}
	case "sentinel":
		if p.MasterName == "" {
			return errors.New("the name of the master is missing: add ?master=NAME")
		}
	case "cluster":
		p.IsClusterMode = true
		if p.DB != 0 {
			return errors.New("a cluster has one database, 0")
		}
	default:
		return fmt.Errorf("there is no scheme %s", scheme)
	}
	if kind != "sentinel" && p.MasterName != "" {
		return errors.New("master is for redis+sentinel")
	}
	return nil
}

// elsewhere says whether an address, HOST:PORT, is on another machine. A name is, unless it is localhost.
func elsewhere(address string) bool {
	host, _, _ := net.SplitHostPort(address) // it has a port by now
	ip, err := netip.ParseAddr(host)
	return host != "localhost" && (err != nil || !ip.IsLoopback())
}

// tlsConfig reads the files of a URL; "" are the system's authorities, and no certificate.
func tlsConfig(ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
