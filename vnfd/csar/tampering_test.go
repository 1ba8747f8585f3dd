package csar_test

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// tampered returns 1,000 copies of data, each with another byte, and where that is.
func tampered(data []byte) func(yield func(int, []byte) bool) {
	random := rand.New(rand.NewPCG(17, 5))
	return func(yield func(int, []byte) bool) {
		for i := range 1000 {
			at := random.IntN(len(data))
			bad := bytes.Clone(data)
			bad[at] ^= 1 << random.IntN(8)
			if i%2 == 0 {
				for bad[at] == data[at] {
					bad[at] = byte(random.IntN(256))
				}
			}
			if !bytes.Equal(bad, data) && !yield(at, bad) {
				return
			}
		}
	}
}

// der is the signature that PEM holds.
func (c *ca) der(signature string) string {
	c.Helper()
	c.write("pem", signature)
	return string(c.run("cms", "-cmsout", "-in", "pem", "-inform", "PEM", "-outform", "DER"))
}

// signEd25519 signs as RFC 8419 says: Debian's openssl can't.
func (c *ca) signEd25519(content, by string) string {
	c.Helper()
	keyPEM, _ := pem.Decode([]byte(c.read(by + ".key")))
	certPEM, _ := pem.Decode([]byte(c.read(by + ".pem")))
	key, err := x509.ParsePKCS8PrivateKey(keyPEM.Bytes)
	if err != nil {
		c.Fatal(err)
	}
	cert, err := x509.ParseCertificate(certPEM.Bytes)
	if err != nil {
		c.Fatal(err)
	}
	must := func(v any, parameters string) []byte {
		data, err := asn1.MarshalWithParams(v, parameters)
		if err != nil {
			c.Fatal(err)
		}
		return data
	}
	type attribute struct {
		Type   asn1.ObjectIdentifier
		Values []any `asn1:"set"`
	}
	data, sum := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}, sha512.Sum512([]byte(content))
	attributes := []attribute{{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}, []any{data}}, {asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}, []any{sum[:]}}}
	set := must(attributes, "set")
	tagged := bytes.Clone(set)
	tagged[0] = 0xa0
	digest := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 3}}
	type signer struct {
		Version int
		ID      struct {
			Issuer asn1.RawValue
			Serial *big.Int
		}
		Digest     pkix.AlgorithmIdentifier
		Attributes asn1.RawValue
		Algorithm  pkix.AlgorithmIdentifier
		Signature  []byte
	}
	s := signer{Version: 1, Digest: digest, Attributes: asn1.RawValue{FullBytes: tagged}, Algorithm: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 101, 112}}}
	s.ID.Issuer, s.ID.Serial = asn1.RawValue{FullBytes: cert.RawIssuer}, cert.SerialNumber
	s.Signature = ed25519.Sign(key.(ed25519.PrivateKey), set)
	certs := must(asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: cert.Raw}, "")
	sd := must(struct {
		Version int
		Digests []pkix.AlgorithmIdentifier `asn1:"set"`
		Content struct{ Type asn1.ObjectIdentifier }
		Certs   asn1.RawValue
		Signers []signer `asn1:"set"`
	}{1, []pkix.AlgorithmIdentifier{digest}, struct{ Type asn1.ObjectIdentifier }{data}, asn1.RawValue{FullBytes: certs}, []signer{s}}, "")
	return string(must(struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue
	}{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}, asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: sd}}, ""))
}

func TestOfASealedPackageNoByteCanBeChanged(t *testing.T) {
	kit.Long(t)
	c := newCA(t)
	c.issue("ed", "root", "ed25519")
	archive := strings.Repeat("the bytes of an archive. ", 20)
	for name, signature := range map[string]string{
		"RSA":           c.sign(archive, "vendor"),
		"RSA in DER":    c.der(c.sign(archive, "vendor")),
		"RSA-PSS":       c.der(c.sign(archive, "vendor", "-keyopt", "rsa_padding_mode:pss", "-keyopt", "rsa_pss_saltlen:32")),
		"ECDSA":         c.sign(archive, "curve", "-keyid"),
		"Ed25519":       c.signEd25519(archive, "ed"),
		"no attributes": c.der(c.sign(archive, "curve", "-noattr")),
		"beside":        c.sign(archive, "vendor", "-nocerts"),
	} {
		files := fstest.MapFS{"a.csar": {Data: []byte(archive)}, "a.cms": {Data: []byte(signature)}}
		if name == "beside" {
			files["a.cert"] = &fstest.MapFile{Data: []byte(c.read("vendor.pem"))}
		}
		seal := &csar.Seal{Archive: "a.csar", Signature: "a.cms"}
		if files["a.cert"] != nil {
			seal.Certificates = []string{"a.cert"}
		}
		trust := c.trust()
		if _, err := trust.VerifySeal(files, seal); err != nil {
			t.Errorf("%s, untouched: %v", name, err)
			continue
		}
		for file, good := range files {
			for at, bad := range tampered(good.Data) {
				if len(bytes.TrimSpace(good.Data[at:])) == 0 {
					continue // the line end after everything
				}
				changed := maps.Clone(files)
				changed[file] = &fstest.MapFile{Data: bad}
				if signer, err := trust.VerifySeal(changed, seal); !errors.Is(err, csar.ErrSignature) {
					t.Errorf("%s: byte %d of %s from %q to %q: %q, %v", name, at, file, good.Data[at], bad[at], signer, err)
				}
			}
		}
	}
}

// signedPackage is a package whose manifest is signed.
func (c *ca) signedPackage() fstest.MapFS {
	c.Helper()
	files := map[string]string{
		"TOSCA-Metadata/TOSCA.meta": "TOSCA-Meta-File-Version: 1.0\nEntry-Definitions: d.yaml\nETSI-Entry-Manifest: p.mf\nETSI-Entry-Certificate: p.cert\n",
		"d.yaml":                    "x: y\n", "Files/a": "a file of the package", "p.cert": c.read("vendor.pem"),
	}
	manifest := "metadata:\n  vnf_product_name: x\n\n"
	for _, name := range []string{"TOSCA-Metadata/TOSCA.meta", "d.yaml", "Files/a"} {
		manifest += fmt.Sprintf("Source: %s\nAlgorithm: SHA-256\nHash: %x\n\n", name, sha256.Sum256([]byte(files[name])))
	}
	files["p.mf"] = manifest + c.sign(manifest, "vendor", "-nocerts")
	return mapped(files)
}

// accepts is nil where the package is signed and has the files that it lists.
func accepts(trust csar.Trust, files fs.FS) error {
	signer, err := trust.VerifyManifest(files)
	if err == nil && signer == "" {
		err = errors.New("it isn't signed")
	}
	if err == nil {
		err = vnfd.VerifyArtifacts(&vnfd.Package{Files: files})
	}
	return err
}

func TestOfAnExpandedPackageWithASignedManifestNoByteCanBeChanged(t *testing.T) {
	c := newCA(t)
	files, trust := c.signedPackage(), c.trust()
	if err := accepts(trust, files); err != nil {
		t.Fatal(err)
	}
	var all []byte
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all, names = append(all, files[name].Data...), append(names, name)
	}
	for at, bad := range tampered(all) {
		changed, from := fstest.MapFS{}, 0
		for _, name := range names {
			size := len(files[name].Data)
			changed[name] = &fstest.MapFile{Data: bad[from : from+size]}
			from += size
		}
		if accepts(trust, changed) == nil && !onlyLastLineEnds(files, changed) {
			t.Errorf("byte %d of %v from %q to %q is accepted", at, names, all[at], bad[at])
		}
	}
}

// onlyLastLineEnds says whether the packages differ in white space behind everything at most.
func onlyLastLineEnds(a, b fstest.MapFS) bool {
	for name, f := range a {
		if !bytes.Equal(f.Data, b[name].Data) && (name != "p.cert" || !bytes.Equal(bytes.TrimSpace(f.Data), bytes.TrimSpace(b[name].Data))) {
			return false
		}
	}
	return true
}

// A zip file says many things that nobody reads (times, padding, what program made it). What
// counts is what is read of it.
func TestAZipFileOfASignedPackageThatWasChangedIsRefusedOrReadAsItWas(t *testing.T) {
	c := newCA(t)
	files, trust := c.signedPackage(), c.trust()
	var z bytes.Buffer
	if err := csar.Build(files, &z); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for at, bad := range tampered(z.Bytes()) {
		got, err := csar.Open(bytes.NewReader(bad), int64(len(bad)), csar.DefaultLimits())
		if err == nil {
			err = accepts(trust, got)
		}
		if err != nil {
			refused++
			continue
		}
		n := 0
		err = fs.WalkDir(got, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(got, name)
			if n++; err == nil && (files[name] == nil || !bytes.Equal(data, files[name].Data)) {
				err = fmt.Errorf("%s is another", name)
			}
			return err
		})
		if err != nil || n != len(files) {
			t.Errorf("byte %d: %d files, %v", at, n, err)
		}
	}
	if refused < 500 {
		t.Errorf("only %d of 1,000 are refused", refused)
	}
	var again bytes.Buffer
	w := zip.NewWriter(&again)
	for name, text := range map[string]string{"p.mf": "x"} {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// Readers that begin at another end of a file would see another package.
	for what, both := range map[string][]byte{"in front": slices.Concat(again.Bytes(), z.Bytes()), "behind": slices.Concat(z.Bytes(), again.Bytes())} {
		got, err := csar.Open(bytes.NewReader(both), int64(len(both)), csar.DefaultLimits())
		if err == nil {
			err = accepts(trust, got)
		}
		if err == nil && what == "behind" {
			t.Errorf("with another archive %s it is accepted", what)
		}
	}
}

func TestSignaturesByWeakOrMisusedKeysAreRefused(t *testing.T) {
	c := newCA(t)
	const archive = "the archive"
	c.issue("weak", "root", "rsa:1024")
	c.issue("small", "root", "ec", "-pkeyopt", "ec_paramgen_curve:P-224")
	c.write("ext", "extendedKeyUsage=serverAuth\n")
	c.issue("server", "root", "rsa:2048")
	c.write("ext", "extendedKeyUsage=codeSigning\nkeyUsage=digitalSignature\n")
	c.issue("coder", "root", "rsa:2048")
	c.write("ext", "keyUsage=keyEncipherment\n")
	c.issue("cipher", "root", "rsa:2048")
	for name, p := range map[string]struct {
		signature, more, want string
	}{
		"for code":                  {c.sign(archive, "coder"), "", ""},
		"the root beside":           {c.sign(archive, "coder"), c.read("root.pem"), ""},
		"a chain in the file":       {c.sign(archive, "vendor", "-nocerts"), c.read("vendor.pem") + c.read("root.pem"), ""},
		"lines end as on Windows":   {strings.ReplaceAll(c.sign(archive, "vendor"), "\n", "\r\n"), "", ""},
		"RSA of 1024 bits":          {c.sign(archive, "weak"), "", "1024 bits"},
		"a curve of 224 bits":       {c.sign(archive, "small"), "", "224 bits"},
		"for a web server":          {c.sign(archive, "server"), "", "isn't trusted"},
		"for encryption":            {c.sign(archive, "cipher"), "", "isn't for signatures"},
		"a certificate too many":    {c.sign(archive, "vendor", "-certfile", "other.pem"), "", "isn't needed"},
		"one too many beside":       {c.sign(archive, "vendor"), c.read("other.pem"), "isn't needed"},
		"text with the certificate": {c.sign(archive, "vendor", "-nocerts"), "run me\n" + c.read("vendor.pem"), "in PEM alone"},
		"behind its end":            {c.sign(archive, "vendor") + "more\n", "", "something follows"},
		"another word":              {strings.ReplaceAll(c.sign(archive, "vendor"), "CMS", "PKCS8"), "", "beginning of a signature"},
	} {
		files := fstest.MapFS{"a.csar": {Data: []byte(archive)}, "a.cms": {Data: []byte(p.signature)}}
		seal := &csar.Seal{Archive: "a.csar", Signature: "a.cms"}
		if p.more != "" {
			files["a.cert"], seal.Certificates = &fstest.MapFile{Data: []byte(p.more)}, []string{"a.cert"}
		}
		signer, err := c.trust().VerifySeal(files, seal)
		switch {
		case p.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case p.want != "" && (!errors.Is(err, csar.ErrSignature) || !strings.Contains(err.Error(), p.want)):
			t.Errorf("%s: %q, %v; want %q", name, signer, err, p.want)
		}
	}
}

func TestArtifactsAreHeldToSignaturesOfTheirOwn(t *testing.T) {
	c := newCA(t)
	build := func(signature, certificate, more string) fstest.MapFS {
		files := map[string]string{
			"TOSCA-Metadata/TOSCA.meta": "TOSCA-Meta-File-Version: 1.0\nEntry-Definitions: d.yaml\nETSI-Entry-Manifest: p.mf\n",
			"d.yaml":                    "x: y\n", "Files/a": "a file", "Files/a.cms": signature,
		}
		own := "Signature: Files/a.cms\n"
		if certificate != "" {
			files["Files/a.cert"], own = certificate, own+"Certificate: Files/a.cert\n"
		}
		manifest := "metadata:\n\n"
		for _, name := range []string{"TOSCA-Metadata/TOSCA.meta", "d.yaml", "Files/a"} {
			manifest += fmt.Sprintf("Source: %s\nAlgorithm: SHA-256\nHash: %x\n", name, sha256.Sum256([]byte(files[name])))
			if name == "Files/a" {
				manifest += own
			}
			manifest += "\n"
		}
		files["p.mf"] = manifest + more + c.sign(manifest+more, "vendor")
		return mapped(files)
	}
	for name, p := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"good":                     {build(c.sign("a file", "curve"), "", ""), ""},
		"a certificate of its own": {build(c.sign("a file", "curve", "-nocerts"), c.read("curve.pem"), ""), ""},
		"of another file":          {build(c.sign("another", "curve"), "", ""), "signature of Files/a"},
		"by a stranger":            {build(c.sign("a file", "other"), "", ""), "isn't trusted"},
		"another's certificate":    {build(c.sign("a file", "curve"), c.read("vendor.pem"), ""), "isn't needed"},
		// What readers of lines take for content must be what was signed.
		"no line end before the signature": {build(c.sign("a file", "curve"), "", "metadata2: x"), "doesn't begin its line"},
	} {
		err := accepts(c.trust(), p.files)
		if p.want == "" && err != nil || p.want != "" && (!errors.Is(err, csar.ErrSignature) || !strings.Contains(err.Error(), p.want)) {
			t.Errorf("%s: %v; want %q", name, err, p.want)
		}
	}
}
