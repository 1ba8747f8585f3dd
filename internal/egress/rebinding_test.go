package egress_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

// zone answers queries of names, in memory: nothing goes over a network.
type zone struct {
	mu sync.Mutex
	// answers are the records of a name, of one look after the other; the last one stays.
	answers map[string][][]dnsmessage.ResourceBody
}

func address(text string) dnsmessage.ResourceBody {
	ip := netip.MustParseAddr(text)
	if ip.Is4() {
		return &dnsmessage.AResource{A: ip.As4()}
	}
	return &dnsmessage.AAAAResource{AAAA: ip.As16()}
}

func alias(name string) dnsmessage.ResourceBody {
	return &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(name)}
}

func (z *zone) resolver(t *testing.T) *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		t.Cleanup(func() { server.Close() })
		go z.serve(server)

		return client, nil
	}}
}

// serve answers queries as over TCP, until the connection ends.
func (z *zone) serve(c net.Conn) {
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}

		var m dnsmessage.Message
		if err := m.Unpack(query); err != nil {
			return
		}
		answer, err := z.answer(m).Pack()
		if err != nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil { //nolint:gosec // it is small
			return
		}
	}
}

// answer has the records of one look, each with a TTL of 0.
func (z *zone) answer(m dnsmessage.Message) *dnsmessage.Message {
	z.mu.Lock()
	defer z.mu.Unlock()
	q := m.Questions[0]
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".") + "/" + q.Type.String()
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}
	m.Additionals = nil

	looks := z.answers[name]
	if len(looks) == 0 {
		return &m
	}
	if len(looks) > 1 {
		z.answers[name] = looks[1:]
	}

	owner := q.Name
	for _, body := range looks[0] {
		header := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: body})
		if c, is := body.(*dnsmessage.CNAMEResource); is {
			owner = c.CNAME
		}
	}

	return &m
}

func TestANameThatChangesItsAddressReachesNothingHere(t *testing.T) {
	t.Parallel()
	s, connections := counted(t)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}

	const name = "rebind.example.org"
	z := &zone{answers: map[string][][]dnsmessage.ResourceBody{
		name + "/TypeA": {{address("10.0.0.1")}, {address("127.0.0.1")}},
	}}
	g := egress.New(egress.Options{Resolver: z.resolver(t)}).WithOwn()
	if err := g.Host(t.Context(), name); err != nil {
		t.Fatalf("the look before the call: %v", err)
	}

	if resp, err := get(t, g, "http://"+name+":"+port+"/"); !refused(err) {
		t.Errorf("%v, %v", resp, err)
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func get(t *testing.T, g *egress.Guard, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client(g).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()

	return resp.Status, nil
}

func TestRecordsThatLeadToThisMachineAreRefused(t *testing.T) {
	t.Parallel()
	s, connections := counted(t)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}

	for name, records := range map[string]map[string][]dnsmessage.ResourceBody{
		"several addresses, all here": {"TypeA": {address("127.0.0.1"), address("127.0.0.2")}},
		"an alias of localhost":       {"TypeA": {alias("localhost."), address("127.0.0.1")}},
		"aliases of aliases":          {"TypeA": {alias("a.example.net."), alias("localhost."), address("127.0.0.1")}},
		"IPv4 in an AAAA record":      {"TypeAAAA": {address("::ffff:127.0.0.1")}},
		"IPv4-compatible":             {"TypeAAAA": {address("::127.0.0.1")}},
		"translated":                  {"TypeAAAA": {address("64:ff9b::7f00:1")}},
		"unspecified":                 {"TypeA": {address("0.0.0.0")}, "TypeAAAA": {address("::")}},
		"the address of an interface": {"TypeA": {address("10.7.0.1")}},
	} {
		t.Run(name, func(t *testing.T) {
			const host = "callback.example.org"
			z := &zone{answers: map[string][][]dnsmessage.ResourceBody{}}
			for kind, r := range records {
				z.answers[host+"/"+kind] = [][]dnsmessage.ResourceBody{r}
			}
			g := egress.New(egress.Options{Resolver: z.resolver(t)}).WithOwn(netip.MustParseAddr("10.7.0.1"))

			if err := g.Host(t.Context(), host); !refused(err) {
				t.Errorf("the look: %v", err)
			}
			if resp, err := get(t, g, "http://"+host+":"+port+"/"); !refused(err) {
				t.Errorf("the call: %v, %v", resp, err)
			}
		})
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestOneForbiddenAddressAmongOthersIsNeverCalled(t *testing.T) {
	t.Parallel()
	forbidden, connections := counted(t)
	_, port, err := net.SplitHostPort(forbidden.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}

	const host = "mixed.example.org"
	z := &zone{answers: map[string][][]dnsmessage.ResourceBody{
		host + "/TypeA": {{address("127.0.0.1"), address("127.0.0.2")}},
	}}
	g := egress.New(egress.Options{Resolver: z.resolver(t), Allow: networks(t, "127.0.0.2")}).WithOwn()

	if err := g.Host(t.Context(), host); !refused(err) {
		t.Errorf("one that is named beforehand passes with one forbidden address: %v", err)
	}
	if resp, err := get(t, g, "http://"+host+":"+port+"/"); err == nil { // nothing listens at 127.0.0.2
		t.Errorf("%v", resp)
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made to the forbidden one", n)
	}
}
