// Package openstacktest is an OpenStack inside a test's process: Keystone, Heat, Nova,
// Neutron, Glance and Cinder of the Zed release, as far as a VNF manager asks them,
// spoken to over HTTP.
//
// It is for fast tests and for faults. Its answers were taken from the real services, and a test
// compares the two where a real cloud is given; it proves nothing by itself. It does no work in
// the background: each request first brings the cloud to what it should be by now, so that
// thousands of stacks cost nothing while nobody sends a request.
package openstacktest

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers"
)

// Service is one API of the cloud.
type Service string

// The services that the cloud has.
const (
	Keystone Service = "keystone"
	Heat     Service = "heat"
	Nova     Service = "nova"
	Neutron  Service = "neutron"
	Glance   Service = "glance"
	Cinder   Service = "cinder"
)

var services = []Service{Keystone, Heat, Nova, Neutron, Glance, Cinder}

// The one account of the cloud.
const (
	region      = "RegionOne"
	userName    = "admin"
	password    = "labpass"
	projectName = "admin"
	domainName  = "Default"
	credential  = "7b0f0b1c2f6f4f0f9a3a6c0f0e8d5a11" // an application credential
	secret      = "application-secret"
)

// Options make a cloud other than the usual one.
type Options struct {
	// Delay is how long Heat works on a stack; 0 is no time at all. Half way the
	// resources are there, and not ready yet.
	Delay time.Duration
	// TokenLife is how long a token is good for; 0 is a day.
	TokenLife time.Duration
}

// Cloud is the running fake. Its methods may be called from several goroutines.
type Cloud struct {
	opts      Options
	project   string
	user      string
	listeners map[Service]*httptest.Server

	mu       sync.Mutex
	tokens   map[string]token
	stacks   map[string]*stack // by id; the deleted ones too, as Heat remembers them
	order    []*stack          // the living ones, as they were made
	due      schedule
	servers  shelf[*server]
	ports    shelf[*port]
	networks shelf[*network]
	subnets  shelf[*subnet]
	volumes  shelf[*volume]
	images   shelf[*image]
	flavors  shelf[*flavor]
	macs     int
	faults   []*Fault
	failing  []failure
	stuck    map[string]bool
	turning  []*server // those whose power is being turned off or on
	racing   int       // requests that don't see that a stack's name is taken
	linger   bool      // deleted stacks keep their names
	quota    int       // of servers; -1 is none
	counts   map[Service]int
	others   map[string]string // what the catalogue has beside the cloud's own: kind -> URL
	seen     []Request
}

// New starts a cloud with the images img1 and img2, the flavours m1.tiny and m1.small,
// and the network net0 (10.10.0.0/16) with its subnet subnet0. It ends with the test.
func New(t testing.TB, o Options) *Cloud {
	t.Helper()
	if o.TokenLife <= 0 {
		o.TokenLife = 24 * time.Hour
	}
	c := &Cloud{
		opts: o, project: hexID(), user: hexID(), listeners: map[Service]*httptest.Server{},
		tokens: map[string]token{}, stacks: map[string]*stack{},
		stuck: map[string]bool{}, quota: -1, counts: map[Service]int{},
	}
	for _, s := range services {
		c.listeners[s] = httptest.NewServer(c.handler(s))
		t.Cleanup(c.listeners[s].Close)
	}
	for _, name := range []string{"img1", "img2"} {
		c.AddImage(name)
	}
	c.AddFlavor("m1.tiny", 1, 64)
	c.AddFlavor("m1.small", 2, 128)
	c.AddNetwork("net0", "subnet0", "10.10.0.0/16")
	return c
}

// VIM is the connection to the cloud, by username and password.
func (c *Cloud) VIM() drivers.VIM {
	return drivers.VIM{
		Name: "fake", Type: "ETSINFV.OPENSTACK_KEYSTONE.V_3", Endpoint: c.URL(Keystone) + "/v3", Region: region,
		Username: userName, Password: password, Project: projectName, ProjectDomain: domainName, UserDomain: domainName,
	}
}

// ApplicationCredentialVIM is the connection to the cloud by an application credential.
func (c *Cloud) ApplicationCredentialVIM() drivers.VIM {
	v := c.VIM()
	v.Username, v.Password, v.Project, v.ProjectDomain, v.UserDomain = "", "", "", "", ""
	v.ApplicationCredential, v.ApplicationCredentialSecret = credential, secret
	return v
}

// AddEndpoint enters a service that isn't the cloud's own in the catalogue.
func (c *Cloud) AddEndpoint(kind, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.others == nil {
		c.others = map[string]string{}
	}
	c.others[kind] = url
}

// URL is where the service listens, without the path that its catalogue entry has.
func (c *Cloud) URL(s Service) string { return c.listeners[s].URL }

// endpoint is the service's entry in the catalogue.
func (c *Cloud) endpoint(s Service) string {
	switch s {
	case Keystone:
		return c.URL(s) + "/v3"
	case Heat:
		return c.URL(s) + "/v1/" + c.project
	case Nova:
		return c.URL(s) + "/v2.1"
	case Cinder:
		return c.URL(s) + "/v3/" + c.project
	}
	return c.URL(s)
}

// AddImage puts an image into Glance; it returns its id.
func (c *Cloud) AddImage(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := &image{id: uuid.NewString(), name: name, created: time.Now()}
	c.images.add(x.id, x)
	return x.id
}

// AddFlavor puts a flavour into Nova; it returns its id.
func (c *Cloud) AddFlavor(name string, cpus, megabytes int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := &flavor{id: uuid.NewString(), name: name, cpus: cpus, memory: megabytes}
	c.flavors.add(x.id, x)
	return x.id
}

// AddNetwork puts a network with one subnet into Neutron; it returns the network's id.
func (c *Cloud) AddNetwork(name, subnetName, cidr string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.makeNetwork(name)
	if _, err := c.makeSubnet(n, subnetName, netip.MustParsePrefix(cidr)); err != nil {
		panic(err) // the test's own arguments
	}
	return n.id
}

// shelf keeps things in the order in which they were made.
type shelf[T any] struct {
	byID  map[string]T
	order []string
}

func (s *shelf[T]) add(id string, x T) {
	if s.byID == nil {
		s.byID = map[string]T{}
	}
	s.byID[id] = x
	s.order = append(s.order, id)
}

func (s *shelf[T]) get(id string) (T, bool) {
	x, ok := s.byID[id]
	return x, ok
}

func (s *shelf[T]) remove(id string) {
	if _, ok := s.byID[id]; !ok {
		return
	}
	delete(s.byID, id)
	if len(s.order) > 64 && len(s.order) > 2*len(s.byID) { // what was removed is dropped now and then
		kept := make([]string, 0, len(s.byID))
		for _, id := range s.order {
			if _, ok := s.byID[id]; ok {
				kept = append(kept, id)
			}
		}
		s.order = kept
	}
}

// all calls f with each thing, oldest first, until it says false.
func (s *shelf[T]) all(f func(T) bool) {
	for _, id := range s.order {
		if x, ok := s.byID[id]; ok && !f(x) {
			return
		}
	}
}

// find is the oldest thing that f is true for.
func (s *shelf[T]) find(f func(T) bool) (found T, ok bool) {
	s.all(func(x T) bool {
		if f(x) {
			found, ok = x, true
		}
		return !ok
	})
	return found, ok
}

func hexID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// shortID is what Heat makes names unique with: 12 letters and digits.
func shortID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))[:12]
}

func requestID() string { return "req-" + uuid.NewString() }

func (c *Cloud) mac() string {
	c.macs++
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", c.macs>>16&255, c.macs>>8&255, c.macs&255)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

// zulu is a time as Heat and Nova write it, micro as Cinder and Nova's extensions do.
func zulu(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func micro(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000") }

// later is now, and at least a second after before: real work takes that long, and who
// reads times of whole seconds may rely on it.
func later(before time.Time) time.Time {
	now := time.Now().Truncate(time.Second)
	if !before.IsZero() && !now.After(before) {
		return before.Add(time.Second)
	}
	return now
}
