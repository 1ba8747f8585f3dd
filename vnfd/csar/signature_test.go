package csar_test

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// ca is a certificate authority of openssl, which makes everything here.
type ca struct {
	*testing.T
	dir string
}

func newCA(t *testing.T) *ca {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Fatal("openssl makes the signatures of these tests: install it (Debian: apt-get install openssl)")
	}
	c := &ca{t, t.TempDir()}
	c.write("ext", "subjectKeyIdentifier=hash\n")
	for _, name := range []string{"root", "stranger"} {
		c.run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", name+".key", "-out", name+".pem", "-days", "2", "-subj", "/CN="+name)
	}
	c.issue("vendor", "root", "rsa:2048")
	c.issue("curve", "root", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
	c.issue("other", "stranger", "rsa:2048")
	return c
}

func (c *ca) run(args ...string) []byte {
	c.Helper()
	cmd := exec.Command("openssl", args...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.Fatalf("openssl %v: %v\n%s", args, err, out)
	}
	return out
}

func (c *ca) issue(name, by string, key ...string) {
	c.Helper()
	c.run(append([]string{"req", "-newkey", key[0], "-nodes", "-keyout", name + ".key", "-out", name + ".csr", "-subj", "/CN=" + name}, key[1:]...)...)
	c.run("x509", "-req", "-in", name+".csr", "-CA", by+".pem", "-CAkey", by+".key", "-CAcreateserial", "-days", "2", "-out", name+".pem", "-extfile", "ext")
}

// sign returns a detached signature of the content.
func (c *ca) sign(content, by string, more ...string) string {
	c.Helper()
	c.write("content", content)
	c.run(append([]string{"cms", "-sign", "-binary", "-in", "content", "-signer", by + ".pem", "-inkey", by + ".key", "-outform", "PEM", "-out", "signature"}, more...)...)
	return c.read("signature")
}

func (c *ca) write(name, content string) {
	c.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(content), 0o600); err != nil {
		c.Fatal(err)
	}
}

func (c *ca) read(name string) string {
	c.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.Fatal(err)
	}
	return string(data)
}

func (c *ca) trust() csar.Trust {
	c.Helper()
	trust, err := csar.LoadTrust(filepath.Join(c.dir, "root.pem"), true)
	if err != nil {
		c.Fatal(err)
	}
	return trust
}

// mapped makes a file system of files.
func mapped(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, content := range files {
		m[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return m
}

func TestSignaturesBesideAnArchiveAreBelievedAsFarAsTheirAnchors(t *testing.T) {
	c := newCA(t)
	const archive = "the archive"
	good := c.sign(archive, "vendor")
	for name, p := range map[string]struct {
		files map[string]string
		want  string // "" is good
	}{
		"good":                   {map[string]string{"a.csar": archive, "a.cms": good}, ""},
		"an elliptic curve":      {map[string]string{"a.csar": archive, "a.cms": c.sign(archive, "curve")}, ""},
		"RSA-PSS":                {map[string]string{"a.csar": archive, "a.cms": c.sign(archive, "vendor", "-keyopt", "rsa_padding_mode:pss")}, ""},
		"SHA-512":                {map[string]string{"a.csar": archive, "a.cms": c.sign(archive, "vendor", "-md", "sha512")}, ""},
		"no attributes":          {map[string]string{"a.csar": archive, "a.cms": c.sign(archive, "vendor", "-noattr")}, ""},
		"by key id":              {map[string]string{"a.csar": archive, "a.cms": c.sign(archive, "vendor", "-keyid")}, ""},
		"a certificate beside":   {map[string]string{"a.zip": archive, "a.cms": c.sign(archive, "vendor", "-nocerts"), "a.cert": c.read("vendor.pem")}, ""},
		"no certificate":         {map[string]string{"a.zip": archive, "a.cms": c.sign(archive, "vendor", "-nocerts")}, "neither in the signature nor beside"},
		"changed":                {map[string]string{"a.csar": archive + "!", "a.cms": good}, "was changed"},
		"changed, no attributes": {map[string]string{"a.csar": archive + "!", "a.cms": c.sign(archive, "vendor", "-noattr")}, "doesn't hold"},
		"a stranger":             {map[string]string{"a.csar": archive, "a.cms": c.sign(archive, "other")}, "isn't trusted"},
		"one of two a stranger":  {map[string]string{"a.csar": archive, "a.cms": c.sign(archive, "vendor", "-signer", "other.pem", "-inkey", "other.key")}, "isn't trusted"},
		"an old digest":          {map[string]string{"a.csar": archive, "a.cms": c.sign(archive, "vendor", "-md", "sha1")}, "isn't taken"},
		"content inside":         {map[string]string{"a.csar": archive, "a.cms": c.sign(archive, "vendor", "-nodetach")}, "detached"},
		"no signature at all":    {map[string]string{"a.csar": archive, "a.cms": "hello"}, "isn't one of CMS"},
		"a broken one":           {map[string]string{"a.csar": archive, "a.cms": strings.Replace(good, "A", "B", 40)}, "signature"},
	} {
		files := mapped(p.files)
		seal, err := csar.FindSeal(files)
		if err != nil || seal == nil {
			t.Fatalf("%s: %v, %v", name, seal, err)
		}
		signer, err := c.trust().VerifySeal(files, seal)
		switch {
		case p.want == "" && (err != nil || !strings.HasPrefix(signer, "CN=")):
			t.Errorf("%s: %q, %v", name, signer, err)
		case p.want != "" && (!errors.Is(err, csar.ErrSignature) || !strings.Contains(err.Error(), p.want)):
			t.Errorf("%s: %q, %v; want %q", name, signer, err, p.want)
		}
	}
	late := c.trust()
	late.Now = func() time.Time { return time.Now().AddDate(0, 0, 5) }
	files := mapped(map[string]string{"a.csar": archive, "a.cms": good})
	seal, err := csar.FindSeal(files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.VerifySeal(files, seal); !errors.Is(err, csar.ErrSignature) {
		t.Errorf("after the certificate ended: %v", err)
	}
}

func TestASignedManifestVouchesForEveryFile(t *testing.T) {
	c := newCA(t)
	files := map[string]string{
		"TOSCA-Metadata/TOSCA.meta": "TOSCA-Meta-File-Version: 1.0\nEntry-Definitions: d.yaml\nETSI-Entry-Manifest: p.mf\nETSI-Entry-Certificate: p.cert\n",
		"d.yaml":                    "x: y\n", "Files/a": "a", "p.cert": c.read("vendor.pem"),
	}
	manifest := "metadata:\n  vnf_product_name: x\n\n"
	for _, name := range []string{"TOSCA-Metadata/TOSCA.meta", "d.yaml", "Files/a"} {
		manifest += fmt.Sprintf("Source: %s\nAlgorithm: SHA-256\nHash: %x\n\n", name, sha256.Sum256([]byte(files[name])))
	}
	files["p.mf"] = manifest + c.sign(manifest, "vendor", "-nocerts")
	if signer, err := c.trust().VerifyManifest(mapped(files)); err != nil || signer != "CN=vendor" {
		t.Fatalf("%q, %v", signer, err)
	}
	files["Files/b"] = "nobody vouches for this"
	if _, err := c.trust().VerifyManifest(mapped(files)); !errors.Is(err, csar.ErrSignature) || !strings.Contains(err.Error(), "Files/b") {
		t.Errorf("a file more: %v", err)
	}
	delete(files, "Files/b")
	files["p.mf"] = strings.Replace(files["p.mf"], "vnf_product_name: x", "vnf_product_name: y", 1)
	if _, err := c.trust().VerifyManifest(mapped(files)); !errors.Is(err, csar.ErrSignature) {
		t.Errorf("a changed manifest: %v", err)
	}
	files["p.mf"] = manifest
	if signer, err := c.trust().VerifyManifest(mapped(files)); err != nil || signer != "" {
		t.Errorf("an unsigned manifest: %q, %v", signer, err)
	}
}

func FuzzSignature(f *testing.F) {
	f.Add([]byte("-----BEGIN CMS-----\nMAA=\n-----END CMS-----\n"))
	f.Add([]byte{0x30, 0x0b, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02})
	roots := csar.Trust{Required: true, Roots: x509.NewCertPool()}
	f.Fuzz(func(t *testing.T, signature []byte) {
		files := fstest.MapFS{"a.csar": {Data: []byte("x")}, "a.cms": {Data: signature}}
		if signer, err := roots.VerifySeal(files, &csar.Seal{Archive: "a.csar", Signature: "a.cms"}); err == nil {
			t.Errorf("%q is believed without an anchor", signer)
		}
	})
}
