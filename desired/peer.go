package desired

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// PeersFile lists the management systems beside Jibe that it calls.
const PeersFile = "peers.yaml"

// The values of Peer.Type.
const (
	// PeerEM is an element manager, which coordinates (SOL002 clause 10).
	PeerEM = "em"
	// PeerVNF stands for VNFs that coordinate by themselves. Where each is follows from its VNFD
	// and its VNFCs: the entry has no endpoint, and says how they are called.
	PeerVNF = "vnf"
	// PeerNFVO is an NFVO, which grants operations (SOL003 clause 9) where [GrantingFile] says so.
	PeerNFVO = "nfvo"
)

// peerTypes are all values of Peer.Type.
func peerTypes() []string { return []string{PeerEM, PeerVNF, PeerNFVO} }

// Peer is one entry of peers.yaml: a management system that Jibe calls, and how.
type Peer struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Endpoint is the root of its APIs (SOL013 clause 4.1): "/lcmcoord/v1", "/grant/v1" and the
	// like follow it.
	Endpoint string `json:"endpoint"`
	// Default makes it the one of its type where none is named.
	Default bool `json:"default,omitempty"`
	// Projects are patterns of the projects whose instances it is for; empty is all. A VNF that is
	// asked learns the password: one that projects share, they tell each other.
	Projects []string `json:"projects,omitempty"`
	// CACert is PEM, or a reference to it; "" trusts whom the system trusts.
	CACert      string          `json:"caCert,omitempty"`
	Credentials PeerCredentials `json:"credentials,omitzero"`
}

// PeerCredentials say who Jibe is towards a peer: nobody, or by Username and Password (BASIC),
// or by a token that TokenEndpoint gives for ClientID. A token is asked for with ClientPassword
// or, without one, with the client certificate. The certificate is shown to the peer as well,
// and may be all. Passwords, certificate and key are references.
type PeerCredentials struct {
	Username       string `json:"username,omitempty"`
	Password       string `json:"password,omitempty"`
	TokenEndpoint  string `json:"tokenEndpoint,omitempty"`
	ClientID       string `json:"clientId,omitempty"`
	ClientPassword string `json:"clientPassword,omitempty"`
	ClientCert     string `json:"clientCert,omitempty"`
	ClientKey      string `json:"clientKey,omitempty"`
}

// Peer returns the peer of a type for instances of the project, by name; "" names the default one,
// and of two defaults the one that names projects. The error is a [*Problem] that says what is
// missing; field of file is what may name it.
func (s *Settings) Peer(project, kind, file, field, name string) (*Peer, error) {
	var known []string
	var found *Peer
	for i := range s.Peers {
		p := &s.Peers[i]
		if p.Type != kind || len(p.Projects) > 0 && !matchesAny(p.Projects, project) {
			continue
		}
		if (p.Name == name || name == "" && p.Default) && (found == nil || len(p.Projects) > 0) {
			found = p
		}
		known = append(known, p.Name)
	}
	if found != nil {
		return found, nil
	}

	list := "it has none of type " + kind
	if project != "" {
		list += " for project " + project
	}
	if len(known) > 0 {
		slices.Sort(known)
		list = fmt.Sprintf("it has %s of type %s", strings.Join(known, ", "), kind)
	}
	if name != "" {
		return nil, &Problem{File: file, Message: fmt.Sprintf("%s names %q, which isn't in %s: %s", field, clip(name), PeersFile, list),
			Remedy: "add it there, or name another"}
	}
	return nil, &Problem{File: file, Message: fmt.Sprintf("no %s is known: %s names none, and %s has no default: %s", kind, file, PeersFile, list),
		Remedy: fmt.Sprintf("write %s: <name> in %s, or default: true at one entry of %s with type: %s", field, file, PeersFile, kind)}
}

// ParsePeers reads peers.yaml strictly: a list of peers. An empty file is an empty list. The
// error is an [*InvalidError] with everything that is wrong.
func ParsePeers(file string, data []byte) ([]Peer, error) {
	d := &document{file: file}
	n := d.root(data)
	if n == nil {
		return nil, d.err()
	}
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "begin each one with \"- name:\"", "the file must be a list of peers, not %s", kindOf(n))
		return nil, d.err()
	}
	var out []Peer
	names := map[string]int{}
	for i, c := range n.Content {
		p := d.peer(c, fmt.Sprintf("[%d]", i))
		if first, ok := names[p.Name]; ok && p.Name != "" {
			d.fail(c, "rename one of them", "peer %q is given twice, first in line %d", p.Name, first)
		}
		if at := slices.IndexFunc(out, p.competes); at >= 0 {
			d.fail(c, "keep default: true at one of them", "%q and %q are both the default of type %s", out[at].Name, p.Name, p.Type)
		}
		names[p.Name] = c.Line
		out = append(out, p)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return out, nil
}

// competes reports whether both are the default of one type for one project.
func (p *Peer) competes(other Peer) bool {
	if !p.Default || !other.Default || p.Type != other.Type {
		return false
	}
	_, _, meet := anyMeet(p.Projects, other.Projects, globsMeet)
	return meet || len(p.Projects) == 0 && len(other.Projects) == 0
}

func (d *document) peer(n *yaml.Node, where string) Peer {
	var p Peer
	before := len(d.problems)
	at := func(key string) string { return where + "." + key }
	d.mapping(n, where,
		field{"name", func(_, v *yaml.Node) {
			if p.Name = d.text(v, at("name"), 0); v.ShortTag() == "!!str" && !settingName.MatchString(p.Name) {
				d.fail(v, "use letters, digits, '-', '_' and single dots, at most 63", "%q can't name a peer", clip(p.Name))
			}
		}},
		field{"type", func(_, v *yaml.Node) { p.Type = d.oneOf(v, at("type"), peerTypes()...) }},
		field{"endpoint", func(_, v *yaml.Node) { p.Endpoint = strings.TrimRight(d.endpoint(v, at("endpoint")), "/") }},
		field{"default", func(_, v *yaml.Node) { p.Default = d.boolean(v, at("default")) }},
		field{"projects", func(_, v *yaml.Node) { p.Projects = d.patterns(v, at("projects"), d.settingPattern) }},
		field{"caCert", func(_, v *yaml.Node) { p.CACert = d.certificate(v, at("caCert")) }},
		field{"credentials", func(_, v *yaml.Node) { p.Credentials = d.peerCredentials(v, at("credentials")) }},
	)
	if len(d.problems) == before && d.completePeer(n, where, p) {
		d.completePeerCredentials(n, where, p)
	}
	return p
}

// completePeer refuses a peer whose parts are right but don't make one, and reports whether they do.
func (d *document) completePeer(n *yaml.Node, where string, p Peer) bool {
	at := func(key string) string { return where + "." + key }
	switch {
	case p.Name == "":
		d.fail(n, "add name: …", "%q is missing", at("name"))
	case p.Type == "":
		d.fail(n, "add type: "+strings.Join(peerTypes(), " or "), "%q is missing", at("type"))
	case p.Type == PeerVNF && p.Endpoint != "":
		d.fail(n, "remove it: the VNFD says where its VNFs are asked", "%q isn't for type %s", at("endpoint"), PeerVNF)
	case p.Projects != nil && len(p.Projects) == 0:
		d.fail(n, "name projects, or remove it", "%q names no project", at("projects"))
	case len(p.Projects) > 0 && p.Type == PeerNFVO:
		d.fail(n, "remove it: an NFVO grants the operations of all", "%q isn't for type %s", at("projects"), PeerNFVO)
	case p.Endpoint == "" && p.Type != PeerVNF:
		d.fail(n, "add endpoint: https://…", "%q is missing", at("endpoint"))
	case strings.ContainsAny(p.Endpoint, "?#"):
		d.fail(n, "write the root of its APIs, such as https://host:port/path", "%q has a query or a fragment", at("endpoint"))
	default:
		return true
	}
	return false
}

// completePeerCredentials refuses credentials whose parts don't belong together, and such as others could read on their
// way.
func (d *document) completePeerCredentials(n *yaml.Node, where string, p Peer) {
	at := func(key string) string { return where + ".credentials" + key }
	c := p.Credentials
	oauth2 := c.TokenEndpoint != ""
	switch {
	case (c.Username == "") != (c.Password == ""):
		d.fail(n, "give both or neither", "%q and %q belong together", at(".username"), at(".password"))
	case strings.Contains(c.Username, ":"):
		d.fail(n, "ask for another name", "%q has a colon, which BASIC can't send (RFC 7617)", at(".username"))
	case (c.ClientCert == "") != (c.ClientKey == ""):
		d.fail(n, "give both or neither", "%q and %q belong together", at(".clientCert"), at(".clientKey"))
	case oauth2 != (c.ClientID != ""), !oauth2 && c.ClientPassword != "":
		d.fail(n, "give tokenEndpoint and clientId, with clientPassword or with clientCert and clientKey", "the parts of %q don't make an OAuth2 client", at(""))
	case oauth2 && c.ClientPassword == "" && c.ClientCert == "":
		d.fail(n, "add clientPassword, or clientCert and clientKey", "%q has nothing that proves %q", at(""), "clientId")
	case oauth2 && c.Username != "":
		d.fail(n, "keep one of them", "%q has both BASIC (username) and OAuth2 (tokenEndpoint)", at(""))
	default:
		d.protectPeerCredentials(n, at(".clientCert"), p.Endpoint, c)
	}
}

// protectPeerCredentials refuses endpoints that credentials can't go to, or would go to in clear. cert is where the
// client certificate stands.
func (d *document) protectPeerCredentials(n *yaml.Node, cert, endpoint string, c PeerCredentials) {
	switch {
	case c.proves() && inClear(endpoint):
		d.fail(n, "use https://", "the credentials would go to %s in clear", clip(endpoint))
	case c.proves() && inClear(c.TokenEndpoint):
		d.fail(n, "use https://", "the credentials would go to %s in clear", clip(c.TokenEndpoint))
	case c.ClientCert != "" && withoutTLS(endpoint):
		d.fail(n, "use https://", "%q is shown by TLS, and %s has none", cert, clip(endpoint))
	case c.ClientCert != "" && c.ClientPassword == "" && withoutTLS(c.TokenEndpoint):
		d.fail(n, "use https://, or add clientPassword", "%q is shown by TLS, and %s has none", cert, clip(c.TokenEndpoint))
	}
}

// proves says whether anything of the credentials is secret.
func (c PeerCredentials) proves() bool {
	return c.Password != "" || c.ClientPassword != "" || c.ClientCert != ""
}

// withoutTLS says whether the URL is plain HTTP; "" isn't.
func withoutTLS(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && u.Scheme == "http"
}

// inClear says whether others may read what goes to the URL: it is plain HTTP, and leaves this
// machine.
func inClear(endpoint string) bool {
	if !withoutTLS(endpoint) {
		return false
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

func (d *document) peerCredentials(n *yaml.Node, where string) (c PeerCredentials) {
	text := func(key string, to *string) field {
		return field{key, func(_, v *yaml.Node) { *to = d.text(v, where+"."+key, maxName) }}
	}
	ref := func(key string, to *string) field {
		return field{key, func(_, v *yaml.Node) { *to = d.reference(v, where+"."+key) }}
	}
	d.mapping(n, where,
		text("username", &c.Username),
		ref("password", &c.Password),
		field{"tokenEndpoint", func(_, v *yaml.Node) { c.TokenEndpoint = d.endpoint(v, where+".tokenEndpoint") }},
		text("clientId", &c.ClientID),
		ref("clientPassword", &c.ClientPassword),
		ref("clientCert", &c.ClientCert),
		ref("clientKey", &c.ClientKey),
	)
	return c
}
