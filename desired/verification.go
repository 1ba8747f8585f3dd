package desired

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/internal/signed"
)

// Verification is what a package repository must be signed with, for its packages to be used. The
// zero value demands nothing.
type Verification struct {
	// Signers are the keys of which one must have signed each version, its tag or its commit: lines
	// of allowed signers, and OpenPGP keys in ASCII armour. "" demands no such signature.
	Signers string `json:"signers,omitempty"`
	// Tags demands that the tag itself is signed, so that nobody can put its name to another
	// version that is signed too.
	Tags bool `json:"tags,omitempty"`
	// CSAR are certificates in PEM up to which the manifest of each package must be signed (SOL004
	// clause 5.1, option 1). "" demands no such signature.
	CSAR string `json:"csar,omitempty"`
}

// maxTrusted is how many characters of trusted keys, or certificates, there may be.
const maxTrusted = 1 << 19

func (d *document) verification(n *yaml.Node, where string) Verification {
	var v Verification
	before := len(d.problems)
	read := func(key string, into *string, check func(string) error) field {
		return field{key, func(_, n *yaml.Node) {
			if *into = d.text(n, where+"."+key, maxTrusted); *into == "" {
				d.fail(n, "write the keys below it, or remove it", "%q is empty", where+"."+key)
			} else if err := check(*into); err != nil {
				d.fail(n, "correct it", "%q: %v", where+"."+key, err)
			}
		}}
	}
	d.mapping(n, where,
		read("signers", &v.Signers, func(text string) error { _, err := signed.ParseKeys(text); return err }),
		field{"tags", func(_, n *yaml.Node) { v.Tags = d.boolean(n, where+".tags") }},
		read("csar", &v.CSAR, func(text string) error { _, err := ParseCertificates(text); return err }),
	)
	switch {
	case len(d.problems) > before:
	case v.Signers == "" && v.CSAR == "":
		d.fail(n, "add signers: or csar:", "%q demands nothing", where)
	case v.Tags && v.Signers == "":
		d.fail(n, "add signers:", "%q demands signed tags without saying whose", where)
	}
	return v
}

// ParseCertificates reads certificates in PEM, and nothing else.
func ParseCertificates(text string) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for rest := []byte(strings.TrimSpace(text)); len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("want certificates in PEM, and nothing else")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(list)+1, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("there is no certificate")
	}
	return list, nil
}

// emptyVerify refuses a "verify:" without a value: it would demand nothing where somebody has
// meant that it does. Keys inside of it are looked at likewise.
func (d *document) emptyVerify(n *yaml.Node, where string) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case where == "" && k.Value != "verify":
		case isNull(v):
			d.fail(k, "say what is to be verified, or remove it", "%q has no value", k.Value)
		case where == "":
			d.emptyVerify(v, k.Value)
		}
	}
}

// PlainTransport says whether whoever is on the way can change what comes from the URL. On the way
// to this machine itself there is nobody.
func PlainTransport(url string) bool {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "git") {
		return false
	}
	u, err := neturl.Parse("https://" + rest)
	if err != nil {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// Unprotected says why nothing may be fetched from the repository, "" where it may be. A commit
// is the digest of all that it holds, so that a signed one is safe on any way; hooks aren't to
// depend on that alone.
func (r Repository) Unprotected() string {
	switch {
	case !PlainTransport(r.URL):
		return ""
	case r.Verify.Signers == "":
		return "anybody on the way can change what comes by git:// and http://: use https:// or ssh://, or add verify: with signers:"
	case r.Hooks:
		return "its hooks may not run, as it is fetched by git:// or http://: use https:// or ssh://, or remove hooks: true"
	}
	return ""
}
