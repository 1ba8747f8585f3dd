package kubecluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// vipLinks are external networks that give vip_CP an address, by the name that the VNFD maps.
func vipLinks(t testing.TB, name, address string) json.RawMessage {
	t.Helper()
	text, err := json.Marshal([]desired.ExtVirtualLink{{ID: "front", ResourceID: "net0", ExtCps: []desired.ExtCp{{
		CpdID: name, CpConfig: map[string]desired.ExtCpConfig{"one": {Protocols: []desired.CpProtocol{{
			LayerProtocol: "IP_OVER_ETHERNET", IPOverEthernet: &desired.IPOverEthernet{IPAddresses: []desired.IPAddress{{Type: "IPV4", FixedAddresses: []string{address}}}},
		}}}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const haPackage = "../../examples/packages/k8s-cluster-ha-1.0"

func TestTheVirtualAddressIsThatOfTheConnectionPointOrOfTheParameters(t *testing.T) {
	dir, err := filepath.Abs(haPackage)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{"virtual_address": "10.0.0.9", "port": 7443.0, "router_id": 7.0}
	for name, test := range map[string]struct {
		masters  int
		cp       string // of the cluster
		balancer any
		endpoint string
		link     string // connection point in extVirtualLinks
		want     string
		routerID int
	}{
		"a connection point by its own name": {3, "vip_CP", nil, "", "vip_CP", "10.0.0.100:16443", 100},
		"one by the name that the VNFD maps": {3, "vip_CP", nil, "", "virtual_link_vip", "10.0.0.100:16443", 100},
		"the masters' own one":               {3, "CP", nil, "", "CP", "", 0},
		"one master needs no balancer":       {1, "vip_CP", nil, "", "vip_CP", "", 0},
		"one master that is to have one":     {1, "vip_CP", map[string]any{"port": "7443"}, "", "vip_CP", "10.0.0.100:7443", 100},
		"somebody else forwards":             {3, "vip_CP", nil, "10.0.0.1:6443", "vip_CP", "", 0},
		"what the parameters say":            {3, "", given, "", "vip_CP", "10.0.0.9:7443", 7},
		"nothing is known":                   {3, "vip_CP", nil, "", "other", "", 0},
		"nothing is known, and it is wanted": {3, "vip_CP", map[string]any{}, "", "other", "no virtual address is known", 0},
	} {
		p := goodParams()
		s := p[params.Name].(map[string]any)
		s["master_node"].(map[string]any)["cluster_cp_name"] = test.cp
		if test.balancer != nil {
			s["load_balancer"] = test.balancer
		}
		if test.endpoint != "" {
			s["endpoint"] = test.endpoint
		}
		d := &driver{in: hooks.Input{Params: p, After: &hooks.Package{Dir: dir}}, stderr: io.Discard}
		d.in.Instance.ExtVirtualLinks = vipLinks(t, test.link, "10.0.0.100")
		if err := d.prepare(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b, err := d.balancer(test.masters)
		switch {
		case err != nil:
			if test.want == "" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", name, err)
			}
		case b == nil:
			if test.want != "" {
				t.Errorf("%s: there is none", name)
			}
		case b.endpoint() != test.want || b.routerID != test.routerID:
			t.Errorf("%s: it is %s, with the router %d", name, b.endpoint(), b.routerID)
		}
	}
}

// Three masters whose API server is played by a TLS server at its port: haproxy and keepalived
// are real.
func TestMastersForwardToEachOtherAndMoveTheirAddress(t *testing.T) {
	testenv.Program(t, "keepalived", "keepalived")
	testenv.Program(t, "haproxy", "haproxy")
	s := newSite(t, "10.208.4.0/24")
	targets := s.machines("MasterVDU", 3)
	const virtual = "10.208.4.200"
	in := with(s.input("instantiate_end", targets, nil), map[string]any{"load_balancer": map[string]any{"virtual_address": virtual}})
	d := &driver{in: in, stderr: os.Stderr, keys: map[string]string{}}
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	masters := d.masters()
	hosts := map[string]*netns.Host{}
	for _, m := range masters {
		h := s.w.hosts[m.Name]
		hosts[m.Name] = h
		const serve = `openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=it -keyout /tmp/key -out /tmp/crt 2>/dev/null
mkdir -p /tmp/api && cd /tmp/api && hostname >name && echo ok >readyz && exec openssl s_server -accept 6443 -WWW -quiet -cert /tmp/crt -key /tmp/key`
		if err := h.Serve("sh", "-c", serve); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			for name, h := range hosts {
				out, _ := h.Run(context.WithoutCancel(t.Context()), nil, "sh", "-c", "ip -o address; tail -n 30 /run/keepalived.log; ps ax; cat /etc/haproxy/haproxy.cfg")
				t.Logf("%s: %s", name, out)
			}
		}
	})
	b, err := d.balancer(3)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.balance(t.Context(), b, masters, masters); err != nil {
		t.Fatal(err)
	}
	// ask returns which master's server answers at the virtual address, "" for none.
	ask := func() string {
		out, err := exec.CommandContext(t.Context(), "curl", "-sk", "--max-time", "3", "https://"+b.endpoint()+"/name").Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	holder := func() string {
		for _, m := range masters {
			out, err := hosts[m.Name].Run(t.Context(), nil, "ip", "-o", "address", "show", "to", virtual)
			if err == nil && out != "" {
				return m.Name
			}
		}
		return ""
	}
	answering := func(names ...string) {
		t.Helper()
		kit.Until(t, fmt.Sprintf("just %q answer at the virtual address", names), func() bool {
			seen := map[string]bool{}
			for range 3 * len(names) {
				seen[ask()] = true
			}
			for _, n := range names {
				if !seen[n] {
					return false
				}
			}
			return len(seen) == len(names)
		})
	}
	answering(masters[0].Name, masters[1].Name, masters[2].Name)
	var first string
	kit.Until(t, "a master has the virtual address", func() bool { first = holder(); return first != "" })

	// What is told again changes nothing.
	pid := func(service string) string {
		text, err := hosts[first].ReadFile("/run/" + service + ".pid")
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.TrimSpace(text))
	}
	before := pid("haproxy")
	if err := d.balance(t.Context(), b, masters, masters); err != nil {
		t.Fatal(err)
	}
	if now := pid("haproxy"); now != before {
		t.Errorf("haproxy was started again: %s, %s", before, now)
	}

	// Who has the address and no haproxy any more loses it.
	if _, err := hosts[first].Run(t.Context(), nil, "kill", before); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "another master has the virtual address", func() bool { now := holder(); return now != "" && now != first })
	answering(masters[0].Name, masters[1].Name, masters[2].Name)

	// A master that goes gets no requests any more while it still serves.
	var stay []machine
	for _, m := range masters {
		if m.Name != first {
			stay = append(stay, m)
		}
	}
	if err := d.balance(t.Context(), b, stay, stay); err != nil {
		t.Fatal(err)
	}
	answering(stay[0].Name, stay[1].Name)
	// One whose API server ends is noticed.
	if _, err := hosts[stay[0].Name].Run(t.Context(), nil, "pkill", "-x", "openssl"); err != nil {
		t.Fatal(err)
	}
	answering(stay[1].Name)
}
