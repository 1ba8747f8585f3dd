package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"testing"
)

// name is a subject in DER, of values of an encoding, in the order of the certificate.
func name(t *testing.T, tag int, pairs ...string) []byte {
	t.Helper()
	oids := map[string]asn1.ObjectIdentifier{"CN": {2, 5, 4, 3}, "O": {2, 5, 4, 10}, "OU": {2, 5, 4, 11}, "L": {2, 5, 4, 7}, "C": {2, 5, 4, 6}, "E": {1, 2, 840, 113549, 1, 9, 1}}
	var sequence []attributeSET
	for i := 0; i < len(pairs); i += 2 {
		sequence = append(sequence, attributeSET{{oids[pairs[i]], asn1.RawValue{Tag: tag, Bytes: []byte(pairs[i+1])}}})
	}
	der, err := asn1.Marshal(sequence)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestSubjectsWithTheSameTextAreToldApart(t *testing.T) {
	ours := newAuthority(t)
	tokens, err := Parse([]byte(`certificates: [{name: orchestrator, role: operator, subject: "CN=nfvo,O=Example"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		subject []byte
		known   bool
	}{
		"the one":             {name(t, asn1.TagUTF8String, "O", "Example", "CN", "nfvo"), true},
		"in PrintableString":  {name(t, asn1.TagPrintableString, "O", "Example", "CN", "nfvo"), true},
		"with another CN":     {name(t, asn1.TagUTF8String, "O", "Example", "CN", "mallory", "CN", "nfvo"), false},
		"with another O":      {name(t, asn1.TagUTF8String, "O", "Other", "O", "Example", "CN", "nfvo"), false},
		"in another order":    {name(t, asn1.TagUTF8String, "CN", "nfvo", "O", "Example"), false},
		"in TeletexString":    {name(t, asn1.TagT61String, "O", "Example", "CN", "nfvo"), false},
		"with a comma in one": {name(t, asn1.TagUTF8String, "CN", "nfvo,O=Example"), false},
	} {
		made, _ := ours.issue(t, &x509.Certificate{RawSubject: c.subject})
		if what == "with another CN" && made.Subject.String() != "CN=nfvo,O=Example" {
			t.Errorf("Go writes %s: there is no need of another text any more", made.Subject)
		}
		if _, err := tokens.certified(made); (err == nil) != c.known {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestASubjectIsReadAsToolsWriteIt(t *testing.T) {
	ours := newAuthority(t)
	plain := name(t, asn1.TagUTF8String, "C", "DE", "L", "Köln", "O", "Example, Inc.", "OU", "a+b", "CN", " #nfvo ")
	mail := name(t, asn1.TagIA5String, "E", "ann@example.com")
	for text, der := range map[string][]byte{
		`CN=\\ #nfvo\\ ,OU=a\\+b,O=Example\\, Inc.,L=Köln,C=DE`:                 plain,
		`cn = \\ #nfvo\\  , OU=a\\2bb, O=Example\\2C Inc., L=K\\C3\\B6ln, C=DE`: plain,
		`emailAddress=ann@example.com`:                                          mail,
		`1.2.840.113549.1.9.1=#160f616e6e406578616d706c652e636f6d`:              mail,
	} {
		tokens, err := Parse([]byte(`certificates: [{name: a, role: viewer, subject: "` + text + `"}]`))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		made, _ := ours.issue(t, &x509.Certificate{RawSubject: der})
		if _, err := tokens.certified(made); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if own, err := parseSubject(shownSubject(made)); err != nil || own != shownSubject(made) {
			t.Errorf("%s is read as %s (%v)", shownSubject(made), own, err)
		}
	}
	// What Go makes itself is read back.
	made, _ := ours.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "nfvo", Organization: []string{"b", "a"}}})
	if shownSubject(made) != "CN=nfvo,O=a+O=b" {
		t.Error(shownSubject(made))
	}
	for _, bad := range []string{"nfvo", "CN=a,", "CN=a,=b", "nonsense=a", `CN=a\\`, "CN=#zz", "CN=#00"} {
		if _, err := Parse([]byte(`certificates: [{name: a, role: viewer, subject: "` + bad + `"}]`)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func FuzzASubjectIsReadAsItIsWritten(f *testing.F) {
	f.Add(`CN=a\\2c,O=b`)
	f.Fuzz(func(t *testing.T, text string) {
		first, err := parseSubject(text)
		if err != nil {
			return
		}
		if again, err := parseSubject(first); err != nil || again != first {
			t.Errorf("%q is written %q, and that %q (%v)", text, first, again, err)
		}
	})
}
