package csar

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // SHA-256
	_ "crypto/sha512" // SHA-384 and SHA-512
	"crypto/x509"
	"encoding/asn1"
	"hash"
	"io"
	"math/big"
	"slices"
	"time"
)

// minRSA and minCurve are the least sizes of keys, in bits.
const (
	minRSA   = 2048
	minCurve = 256
)

// trusted are the certificates that a signature was verified by.
type trusted struct {
	signer *x509.Certificate // the first one's
	chains []*x509.Certificate
}

// needs says whether the certificate is one of those between a signer and a root.
func (t *trusted) needs(c *x509.Certificate) bool { return slices.ContainsFunc(t.chains, c.Equal) }

// verifyCMS checks a detached signature (CMS SignedData, RFC 5652) of the content by every
// signer that it names, up to one of the roots. more are certificates that stand beside it.
// Nothing may stand in it that is neither signed nor needed: one byte that differs makes it
// another signature, or one that is refused.
func verifyCMS(content io.Reader, signature []byte, more []*x509.Certificate, roots *x509.CertPool, now time.Time) (*trusted, error) {
	sd, err := parseCMS(signature)
	if err != nil {
		return nil, err
	}
	certs := slices.Concat(sd.certs, more)
	digests := map[crypto.Hash][]byte{}
	for _, s := range sd.signers {
		digests[s.digest] = nil
	}
	if err := sum(content, digests); err != nil {
		return nil, err
	}
	var t trusted
	for _, s := range sd.signers {
		c, err := s.verify(digests[s.digest], certs)
		if err != nil {
			return nil, err
		}
		chain, err := chains(c, certs, roots, now)
		if err != nil {
			return nil, err
		}
		t.signer, t.chains = cmp.Or(t.signer, c), append(t.chains, chain...)
	}
	for _, c := range sd.certs {
		if !t.needs(c) {
			return nil, refuse("the signature holds the certificate of %s, which isn't needed", c.Subject)
		}
	}
	return &t, nil
}

// sum computes the digests of the content, reading it once.
func sum(content io.Reader, digests map[crypto.Hash][]byte) error {
	var to []io.Writer
	sums := map[crypto.Hash]hash.Hash{}
	for h := range digests {
		sums[h] = h.New()
		to = append(to, sums[h])
	}
	_, err := io.Copy(io.MultiWriter(to...), content)
	for h, s := range sums {
		digests[h] = s.Sum(nil)
	}
	return err
}

// verify checks the signature of one signer, and returns its certificate.
func (s *signerInfo) verify(digest []byte, certs []*x509.Certificate) (*x509.Certificate, error) {
	c := s.find(certs)
	if c == nil {
		return nil, refuse("the certificate of the signer is neither in the signature nor beside it")
	}
	if err := strong(c); err != nil {
		return nil, err
	}
	h := s.digest
	var message []byte
	if s.attributes != nil {
		if err := s.attribute(digest); err != nil {
			return nil, err
		}
		// What is signed is a SET, whatever its tag is where it stands.
		message = bytes.Clone(s.attributes)
		message[0] = asn1.TagSet | 0x20
		w := h.New()
		w.Write(message)
		digest = w.Sum(nil)
	}
	good := false
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		switch {
		case s.pss > 0:
			good = rsa.VerifyPSS(key, h, digest, s.signature, &rsa.PSSOptions{SaltLength: s.pss, Hash: h}) == nil
		case s.algorithm.Equal(oidRSA), s.algorithm.Equal(rsaWith[h]):
			good = rsa.VerifyPKCS1v15(key, h, digest, s.signature) == nil
		}
	case *ecdsa.PublicKey:
		good = s.algorithm.Equal(ecdsaWith[h]) && ecdsa.VerifyASN1(key, digest, s.signature)
	case ed25519.PublicKey:
		if message == nil {
			return nil, refuse("a signature by Ed25519 needs signed attributes")
		}
		good = s.algorithm.Equal(oidEd25519) && ed25519.Verify(key, message, s.signature)
	}
	if !good {
		return nil, refuse("the signature by %s doesn't hold", c.Subject)
	}
	return c, nil
}

// attribute checks the signed attributes against the content.
func (s *signerInfo) attribute(digest []byte) error {
	list, err := s.signedAttributes()
	if err != nil {
		return err
	}
	contentType, digests := list[oidContentType.String()], list[oidMessageDigest.String()]
	if len(contentType) != 1 || len(digests) != 1 {
		return refuse("the signed attributes lack the content's type or digest, or have several")
	}
	var oid asn1.ObjectIdentifier
	if after, err := asn1.Unmarshal(contentType[0], &oid); err != nil || len(after) > 0 || !oid.Equal(oidData) {
		return refuse("the signed content type is another")
	}
	var is []byte
	if after, err := asn1.Unmarshal(digests[0], &is); err != nil || len(after) > 0 || !bytes.Equal(is, digest) {
		return refuse("the content was changed after it was signed")
	}
	return nil
}

// find returns the certificate that the signer names.
func (s *signerInfo) find(certs []*x509.Certificate) *x509.Certificate {
	for _, c := range certs {
		switch {
		case s.serial != nil && c.SerialNumber.Cmp(s.serial) == 0 && bytes.Equal(c.RawIssuer, s.issuer),
			s.serial == nil && len(c.SubjectKeyId) > 0 && bytes.Equal(c.SubjectKeyId, s.keyID):
			return c
		}
	}
	return nil
}

// strong refuses the certificate of a key that is too weak.
func strong(c *x509.Certificate) error {
	bits, least := 0, 0
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		bits, least = key.N.BitLen(), minRSA
	case *ecdsa.PublicKey:
		bits, least = key.Curve.Params().BitSize, minCurve
	case ed25519.PublicKey:
	default:
		return refuse("the key of %s is of a kind that isn't taken: use RSA, ECDSA or Ed25519", c.Subject)
	}
	if bits < least {
		return refuse("the key of %s has %d bits: use %d or more", c.Subject, bits, least)
	}
	return nil
}

// chains follows the certificate to the roots, and returns all certificates on the ways. An
// authority may issue certificates for many ends: one that says its ends must be for signing code
// or mail.
func chains(c *x509.Certificate, others []*x509.Certificate, roots *x509.CertPool, now time.Time) ([]*x509.Certificate, error) {
	between := x509.NewCertPool()
	for _, o := range others {
		between.AddCert(o)
	}
	ways, err := c.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning, x509.ExtKeyUsageEmailProtection},
	})
	if err != nil {
		return nil, refuse("the signer %s isn't trusted: %v", c.Subject, err)
	}
	if c.KeyUsage != 0 && c.KeyUsage&(x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment) == 0 {
		return nil, refuse("the certificate of %s isn't for signatures", c.Subject)
	}
	var all []*x509.Certificate
	for _, way := range ways {
		for _, c := range way {
			if err := strong(c); err != nil {
				return nil, err
			}
		}
		all = append(all, way...)
	}
	return all, nil
}

// signerInfo is one signer of a SignedData.
type signerInfo struct {
	issuer     []byte   // the name in DER, and
	serial     *big.Int // the number of its certificate; or, where that is nil,
	keyID      []byte   // the id of its key
	digest     crypto.Hash
	attributes []byte // signed ones, as they stand; nil for none
	algorithm  asn1.ObjectIdentifier
	pss        int // the salt's length in bytes where it is RSA-PSS
	signature  []byte
}
