package csar

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	tags "golang.org/x/crypto/cryptobyte/asn1"
)

// The object identifiers of RFC 5652, 5754, 8017, 5753 and 8419 that are needed.
var (
	oidData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidContentType   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	oidRSA           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	oidMGF1          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 8}
	oidPSS           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}
	oidEd25519       = asn1.ObjectIdentifier{1, 3, 101, 112}
	rsaWith          = map[crypto.Hash]asn1.ObjectIdentifier{
		crypto.SHA256: {1, 2, 840, 113549, 1, 1, 11}, crypto.SHA384: {1, 2, 840, 113549, 1, 1, 12}, crypto.SHA512: {1, 2, 840, 113549, 1, 1, 13},
	}
	ecdsaWith = map[crypto.Hash]asn1.ObjectIdentifier{
		crypto.SHA256: {1, 2, 840, 10045, 4, 3, 2}, crypto.SHA384: {1, 2, 840, 10045, 4, 3, 3}, crypto.SHA512: {1, 2, 840, 10045, 4, 3, 4},
	}
	hashIDs = map[crypto.Hash]asn1.ObjectIdentifier{
		crypto.SHA256: {2, 16, 840, 1, 101, 3, 4, 2, 1}, crypto.SHA384: {2, 16, 840, 1, 101, 3, 4, 2, 2}, crypto.SHA512: {2, 16, 840, 1, 101, 3, 4, 2, 3},
	}
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSignature}, args...)...)
}

// signedData is a SignedData without content.
type signedData struct {
	certs   []*x509.Certificate
	signers []*signerInfo
}

// armour are the words in the first line of a signature in PEM.
var armour = []string{"CMS", "PKCS7", "PKCS #7 SIGNED DATA"}

// unarmor returns the content of PEM, or the bytes themselves where they are none. There is one
// way to write each content in lines of one width.
func unarmor(text []byte, words ...string) ([]byte, error) {
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	if !bytes.HasPrefix(text, []byte(begin)) {
		return text, nil
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if n := len(lines) - 1; strings.HasSuffix(lines[0], "\r") { // as Windows ends lines, and all of them
		for i, line := range lines {
			var ok bool
			if lines[i], ok = strings.CutSuffix(line, "\r"); !ok && i < n {
				return nil, refuse("the signature's lines end in different ways")
			}
		}
	}
	n := len(lines) - 1
	word := strings.TrimSuffix(strings.TrimPrefix(lines[0], begin), dashes)
	if !slices.Contains(words, word) || lines[0] != begin+word+dashes || lines[n] != end+word+dashes || n < 2 {
		return nil, refuse("%.60q isn't the beginning of a signature in PEM, or that has no end, or something follows", lines[0])
	}
	lines = lines[1:n]
	for i, line := range lines {
		if line == "" || strings.ContainsRune(line, '\r') || len(line) > len(lines[0]) || len(line) < len(lines[0]) && i < len(lines)-1 {
			return nil, refuse("the signature isn't written in lines of one width")
		}
	}
	data, err := base64.StdEncoding.Strict().DecodeString(strings.Join(lines, ""))
	if err != nil {
		return nil, refuse("the signature isn't base64")
	}
	return data, nil
}

// refuseForm refuses what isn't in the form of CMS.
func refuseForm() error {
	return refuse("the signature isn't one of CMS in DER or PEM, as openssl cms -sign -outform PEM makes it")
}

// parseCMS reads a SignedData without content, as PEM or DER.
func parseCMS(signature []byte) (*signedData, error) {
	der, err := unarmor(signature, armour...)
	if err != nil {
		return nil, err
	}
	parts, err := cutCMS(der)
	if err != nil {
		return nil, err
	}
	out := &signedData{}
	if out.certs, err = x509.ParseCertificates(parts.certs); err != nil {
		return nil, refuse("a certificate in the signature can't be read")
	}

	version := 1
	used := map[crypto.Hash]bool{}
	for !parts.signers.Empty() {
		s, v, err := parseSigner(&parts.signers)
		if err != nil {
			return nil, err
		}
		version = max(version, v)
		used[s.digest] = true
		out.signers = append(out.signers, s)
	}
	for !parts.digests.Empty() {
		h, err := parseDigest(&parts.digests)
		if err != nil {
			return nil, err
		}
		if !used[h] {
			return nil, refuse("the signature lists a digest algorithm that no signer uses, or one twice")
		}
		delete(used, h)
	}
	if len(used) > 0 || parts.version != version {
		return nil, refuseForm()
	}
	return out, nil
}

// cmsParts are the parts of a SignedData (RFC 5652 clause 5.1), in DER.
type cmsParts struct {
	version                 int
	digests, certs, signers cryptobyte.String
}

// cutCMS cuts a SignedData into its parts, and refuses one with content or lists of revoked certificates.
func cutCMS(der []byte) (parts cmsParts, err error) {
	in, outer := cryptobyte.String(der), cryptobyte.String(nil)
	var explicit, sd, content, skipped cryptobyte.String
	var signed, held asn1.ObjectIdentifier
	var hasContent, hasCerts, hasCRLs bool
	wrapped := in.ReadASN1(&outer, tags.SEQUENCE) && in.Empty() &&
		outer.ReadASN1ObjectIdentifier(&signed) && signed.Equal(oidSignedData) && outer.ReadASN1(&explicit, context(0)) && outer.Empty() &&
		explicit.ReadASN1(&sd, tags.SEQUENCE) && explicit.Empty()
	whole := wrapped && sd.ReadASN1Integer(&parts.version) && sd.ReadASN1(&parts.digests, tags.SET) && sd.ReadASN1(&content, tags.SEQUENCE) &&
		sd.ReadOptionalASN1(&parts.certs, &hasCerts, context(0)) && sd.ReadOptionalASN1(&skipped, &hasCRLs, context(1)) &&
		sd.ReadASN1(&parts.signers, tags.SET) && sd.Empty()
	if !whole || !content.ReadASN1ObjectIdentifier(&held) || !content.ReadOptionalASN1(&skipped, &hasContent, context(0)) || !content.Empty() {
		return parts, refuseForm()
	}
	switch {
	case hasContent:
		err = refuse("the signature holds content of its own: make a detached one")
	case hasCRLs:
		err = refuse("the signature holds lists of revoked certificates, which aren't looked at: leave them out")
	case !held.Equal(oidData):
		err = refuse("the signature is of the content type %v, not of data", held)
	case parts.signers.Empty():
		err = refuse("the signature has no signer")
	}
	return parts, err
}

// context is the tag of a field that is constructed.
func context(n uint8) tags.Tag { return tags.Tag(n).ContextSpecific().Constructed() }

// parseAlgorithm reads an AlgorithmIdentifier, and its parameters in DER.
func parseAlgorithm(in *cryptobyte.String) (oid asn1.ObjectIdentifier, parameters cryptobyte.String, ok bool) {
	var a cryptobyte.String
	ok = in.ReadASN1(&a, tags.SEQUENCE) && a.ReadASN1ObjectIdentifier(&oid)
	return oid, a, ok
}

// none says whether parameters are absent or NULL.
func none(parameters cryptobyte.String) bool {
	return parameters.Empty() || bytes.Equal(parameters, []byte{5, 0})
}

func parseDigest(in *cryptobyte.String) (crypto.Hash, error) {
	oid, parameters, ok := parseAlgorithm(in)
	if !ok || !none(parameters) {
		return 0, refuse("the signature's digest algorithm can't be read")
	}
	for h, id := range hashIDs {
		if id.Equal(oid) {
			return h, nil
		}
	}
	return 0, refuse("the signature's digest algorithm %v isn't taken: use SHA-256, SHA-384 or SHA-512", oid)
}

// parseSigner reads a SignerInfo and the version of SignedData that it asks for.
func parseSigner(in *cryptobyte.String) (s *signerInfo, version int, err error) {
	s = &signerInfo{}
	bad := refuse("what the signature says of its signer can't be read")
	var info, id, issuer, parameters, signature cryptobyte.String
	if !in.ReadASN1(&info, tags.SEQUENCE) || !info.ReadASN1Integer(&version) {
		return nil, 0, bad
	}
	keyID := tags.Tag(0).ContextSpecific()
	switch {
	case version == 1:
		s.serial = new(big.Int)
		if !info.ReadASN1(&id, tags.SEQUENCE) || !id.ReadASN1Element(&issuer, tags.SEQUENCE) || !id.ReadASN1Integer(s.serial) || !id.Empty() {
			return nil, 0, bad
		}
		s.issuer = issuer
	case version != 3 || !info.ReadASN1((*cryptobyte.String)(&s.keyID), keyID):
		return nil, 0, bad
	}
	if s.digest, err = parseDigest(&info); err != nil {
		return nil, 0, err
	}
	if info.PeekASN1Tag(context(0)) && !info.ReadASN1Element((*cryptobyte.String)(&s.attributes), context(0)) {
		return nil, 0, bad
	}
	var ok bool
	if s.algorithm, parameters, ok = parseAlgorithm(&info); !ok || !info.ReadASN1(&signature, tags.OCTET_STRING) {
		return nil, 0, bad
	}
	if s.signature = signature; !info.Empty() {
		return nil, 0, refuse("the signature holds attributes that nobody has signed")
	}
	if !s.algorithm.Equal(oidPSS) {
		if !none(parameters) {
			return nil, 0, bad
		}
		return s, version, nil
	}
	if s.pss, ok = parsePSS(parameters, s.digest); !ok {
		return nil, 0, refuse("the parameters of RSA-PSS aren't taken: use one digest algorithm for all, and a salt of its length or less")
	}
	return s, version, nil
}

// parsePSS returns the length of the salt in RSASSA-PSS-params (RFC 8017 clause A.2.3), which must
// name the digest h.
func parsePSS(in cryptobyte.String, h crypto.Hash) (salt int, ok bool) {
	var p, part, mask cryptobyte.String
	if !in.ReadASN1(&p, tags.SEQUENCE) || !in.Empty() || !p.ReadASN1(&part, context(0)) {
		return 0, false
	}
	if is, err := parseDigest(&part); err != nil || is != h || !part.Empty() || !p.ReadASN1(&part, context(1)) {
		return 0, false
	}
	oid, mask, ok := parseAlgorithm(&part)
	if is, err := parseDigest(&mask); !ok || !oid.Equal(oidMGF1) || err != nil || is != h || !mask.Empty() || !part.Empty() {
		return 0, false
	}
	salt = 20
	if p.PeekASN1Tag(context(2)) && (!p.ReadASN1(&part, context(2)) || !part.ReadASN1Integer(&salt) || !part.Empty()) {
		return 0, false
	}
	return salt, p.Empty() && salt > 0 && salt <= 512
}

// signedAttributes returns the values in DER of each signed attribute, by its object identifier.
func (s *signerInfo) signedAttributes() (map[string][][]byte, error) {
	bad := refuse("the signed attributes can't be read")
	element, set := cryptobyte.String(s.attributes), cryptobyte.String(nil)
	if !element.ReadASN1(&set, context(0)) || !element.Empty() {
		return nil, bad
	}
	list := map[string][][]byte{}
	for !set.Empty() {
		var attribute, values, value cryptobyte.String
		var oid asn1.ObjectIdentifier
		if !set.ReadASN1(&attribute, tags.SEQUENCE) || !attribute.ReadASN1ObjectIdentifier(&oid) || !attribute.ReadASN1(&values, tags.SET) || !attribute.Empty() {
			return nil, bad
		}
		for !values.Empty() {
			var tag tags.Tag
			if !values.ReadAnyASN1Element(&value, &tag) {
				return nil, bad
			}
			list[oid.String()] = append(list[oid.String()], value)
		}
	}
	return list, nil
}
