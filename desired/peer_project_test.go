package desired_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

// A VNF that is asked to coordinate is told the password: no package of another project is.
func TestAPeerIsForItsProjectsAlone(t *testing.T) {
	t.Parallel()
	peers, err := desired.ParsePeers("peers.yaml", []byte(`
- {name: all, type: vnf, default: true}
- {name: core-vnfs, type: vnf, default: true, projects: [core, core-*], credentials: {username: jibe, password: "env:JIBE_SECRET_A"}}
- {name: edge-vnfs, type: vnf, default: true, projects: [edge], credentials: {username: jibe, password: "env:JIBE_SECRET_B"}}
- {name: em-core, type: em, endpoint: "https://em.example", projects: [core]}
- {name: em-all, type: em, endpoint: "https://em.example"}
`))
	if err != nil {
		t.Fatal(err)
	}
	s := &desired.Settings{Peers: peers}
	for _, c := range []struct{ project, kind, name, want string }{
		{"core", desired.PeerVNF, "", "core-vnfs"},
		{"core-lab", desired.PeerVNF, "", "core-vnfs"},
		{"edge", desired.PeerVNF, "", "edge-vnfs"},
		{"default", desired.PeerVNF, "", "all"},
		{"core", desired.PeerEM, "em-core", "em-core"},
		{"edge", desired.PeerEM, "em-core", ""},
		{"edge", desired.PeerEM, "em-all", "em-all"},
	} {
		p, err := s.Peer(c.project, c.kind, desired.InstanceFile, "em", c.name)
		switch {
		case c.want == "" && (err == nil || strings.Contains(strings.TrimPrefix(err.Error(), `vnf.yaml: em names "em-core"`), "em-core")):
			t.Errorf("%+v: %v, %v", c, p, err)
		case c.want != "" && (err != nil || p.Name != c.want):
			t.Errorf("%+v: %v, %v", c, p, err)
		}
	}

	for text, says := range map[string]string{
		"- {name: a, type: vnf, default: true, projects: [core]}\n- {name: b, type: vnf, default: true, projects: ['c*']}": "both the default",
		"- {name: a, type: vnf, default: true}\n- {name: b, type: vnf, default: true}":                                     "both the default",
		"- {name: a, type: vnf, projects: []}":                                                                             "names no project",
		"- {name: a, type: nfvo, endpoint: https://x, projects: [core]}":                                                   "isn't for type nfvo",
		"- {name: a, type: vnf, projects: ['a b']}":                                                                        "can't be",
	} {
		if _, err := desired.ParsePeers("peers.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
