package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"time"
)

// Certificate is a file of certificates in PEM that a flag of jibe serve names.
type Certificate struct {
	Flag, File string
	// Authorities says that they are those of others: an old one may stand beside its successor.
	Authorities bool
}

// soon is from when on an expiry is told of.
const soon = 21 * 24 * time.Hour

// expiry is what an expiry means.
func (t *Target) expiry(what string, at time.Time) Finding {
	switch left := at.Sub(t.Now()); {
	case left <= 0:
		return found(Failed, "Renew it.", "%s expired on %s", what, at.UTC().Format(time.RFC3339))
	case left < soon:
		return found(Warning, "Renew it; Jibe reads it anew by itself.", "%s expires on %s, in %d days", what, at.UTC().Format(time.RFC3339), int(left.Hours()/24))
	}
	return ok("%s holds until %s", what, at.UTC().Format(time.DateOnly))
}

// certificates looks at all that flags name, and tells the worst.
func (t *Target) certificates(context.Context) Finding {
	var named []Finding
	for _, c := range t.Certificates {
		if c.File != "" {
			named = append(named, t.certificate(c))
		}
	}
	if len(named) == 0 {
		return skipped("the API has no certificate of its own, or it wasn't named (--tls-cert)")
	}
	for _, state := range []State{Failed, Warning} {
		if i := slices.IndexFunc(named, func(f Finding) bool { return f.State == state }); i >= 0 {
			return named[i]
		}
	}
	var text []string
	for _, f := range named {
		text = append(text, f.Means)
	}
	return ok("%s", strings.Join(text, "; "))
}

// certificate looks at one file. Of a chain, the first that expires counts: clients refuse it then. Of authorities the last
// does: as long as one holds, the others may be old ones that are still to be taken out.
func (t *Target) certificate(c Certificate) Finding {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return found(Failed, "Put the file where "+c.Flag+" says.", "%v", err)
	}
	var at time.Time
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return found(Failed, "Put a certificate in PEM there.", "%s (%s): %v", c.File, c.Flag, err)
		}
		if at.IsZero() || cert.NotAfter.Before(at) != c.Authorities {
			at = cert.NotAfter
		}
	}
	if at.IsZero() {
		return found(Failed, "Put a certificate in PEM there.", "%s (%s) holds none", c.File, c.Flag)
	}
	return t.expiry("what "+c.Flag+" names", at)
}
