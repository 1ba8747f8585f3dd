package csar

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// ErrSignature is returned for a package whose signature doesn't hold, isn't trusted, or is
// missing where one is required.
var ErrSignature = errors.New("the package's signature is refused")

// Trust says which signatures of packages are believed (SOL004 clause 5). The zero value checks
// none.
type Trust struct {
	// Roots are the trust anchors; nil checks no signature.
	Roots *x509.CertPool
	// Required refuses packages without a signature.
	Required bool
	// Now is the machine's clock where it is nil.
	Now func() time.Time
}

// LoadTrust reads trust anchors from a file of certificates in PEM, "" for none.
func LoadTrust(file string, required bool) (Trust, error) {
	if file == "" {
		if required {
			return Trust{}, errors.New("signatures are required, and no trust anchors are given to check them by")
		}
		return Trust{}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return Trust{}, fmt.Errorf("trust anchors: %w", err)
	}
	t := Trust{Roots: x509.NewCertPool(), Required: required}
	if !t.Roots.AppendCertsFromPEM(data) {
		return Trust{}, fmt.Errorf("trust anchors: %s holds no certificate in PEM", file)
	}
	return t, nil
}

func (t Trust) now() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

// Seal is an archive of a package in another one, beside its signature (SOL004 clause 5.1,
// option 2).
type Seal struct {
	Archive string
	// Signature is its file, "" where there is none; Certificates those of certificates.
	Signature    string
	Certificates []string
}

// FindSeal returns what is in an archive that holds a package as an archive, nil for one that
// is a package itself.
func FindSeal(files fs.FS) (*Seal, error) {
	items, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("read VNF package: %w", err)
	}
	var names []string
	for _, i := range items {
		names = append(names, i.Name())
	}
	if len(vnfd.RootEntries(names)) > 0 {
		return nil, nil // a package without TOSCA-Metadata
	}

	var s Seal
	for _, i := range items {
		ext := strings.ToLower(path.Ext(i.Name()))
		switch {
		case i.IsDir() && i.Name() == path.Dir(vnfd.MetaFile):
			return nil, nil
		case i.IsDir():
		case ext == ".csar", ext == ".zip":
			if s.Archive != "" {
				return nil, fmt.Errorf("%w: it holds several archives, %s and %s: upload one package at a time", ErrUnsafe, s.Archive, i.Name())
			}
			s.Archive = i.Name()
		case slices.Contains([]string{".cms", ".p7s", ".p7m", ".sig"}, ext):
			s.Signature = i.Name()
		case slices.Contains([]string{".cert", ".crt", ".cer", ".pem"}, ext):
			s.Certificates = append(s.Certificates, i.Name())
		}
	}
	if s.Archive == "" {
		return nil, nil
	}
	return &s, nil
}

// VerifySeal checks the signature beside an archive and returns the subject of the signer, ""
// where there is no signature, or none is checked.
func (t Trust) VerifySeal(files fs.FS, s *Seal) (signer string, err error) {
	if t.Roots == nil || s.Signature == "" {
		return "", nil
	}
	signature, err := small(files, s.Signature)
	if err != nil {
		return "", err
	}
	by, err := t.verifyFile(files, s.Archive, signature, s.Certificates, nil)
	if err != nil {
		return "", err
	}
	return by.signer.Subject.String(), nil
}

// verifyFile checks the signature of a file. bare are files of certificates that nothing else
// vouches for: each of theirs must be needed. listed are files of more.
func (t Trust) verifyFile(files fs.FS, name string, signature []byte, bare, listed []string) (*trusted, error) {
	content, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return t.verify(files, content, signature, bare, listed)
}

func (t Trust) verify(files fs.FS, content io.Reader, signature []byte, bare, listed []string) (*trusted, error) {
	certs, err := certificates(files, bare)
	if err != nil {
		return nil, err
	}
	more, err := certificates(files, listed)
	if err != nil {
		return nil, err
	}
	by, err := verifyCMS(content, signature, slices.Concat(certs, more), t.Roots, t.now())
	if err != nil {
		return nil, err
	}
	for _, c := range certs {
		if !by.needs(c) {
			return nil, refuse("the certificate of %s stands beside the signature, isn't needed, and nobody vouches for it: remove it", c.Subject)
		}
	}
	return by, nil
}

// VerifyManifest checks the signature at the end of the package's manifest (SOL004 clause 5.1,
// option 1), and those that the manifest names of single artifacts (clause 5.2). It returns the
// subject of the manifest's signer, "" where it has no signature, or none is checked. A signed
// manifest must have the checksum of every file of the package: what it doesn't list, nobody
// vouches for. Whether the checksums hold is [vnfd.VerifyArtifacts]'s to say.
func (t Trust) VerifyManifest(files fs.FS) (signer string, err error) {
	if t.Roots == nil {
		return "", nil
	}
	meta, err := vnfd.ReadMeta(files)
	if err != nil || meta.Manifest == "" {
		return "", err
	}
	vouched, err := t.verifyArtifacts(files, meta)
	if err != nil {
		return "", err
	}
	text, err := small(files, meta.Manifest)
	if err != nil {
		return "", err
	}
	at := bytes.Index(text, []byte("-----BEGIN "))
	if at < 0 {
		return "", nil
	}
	if at > 0 && text[at-1] != '\n' {
		return "", refuse("the signature in %s doesn't begin its line: readers would see another manifest than was signed", meta.Manifest)
	}
	var bare, listed []string
	items, err := fs.ReadDir(files, ".")
	if err != nil {
		return "", err
	}
	hashed := hashedBy(meta)
	for _, i := range items {
		ext := path.Ext(i.Name())
		switch is := !i.IsDir() && (ext == ".cert" || ext == ".crt" || ext == ".pem"); {
		case is && hashed[i.Name()]:
			listed = append(listed, i.Name())
		case is || i.Name() == meta.Certificate:
			bare = append(bare, i.Name())
		}
	}
	if c := meta.Certificate; c != "" {
		if _, err := fs.Stat(files, c); err != nil {
			return "", refuse("ETSI-Entry-Certificate names %s, which can't be read: %v", c, err)
		}
		if path.Dir(c) != "." {
			bare = append(bare, c)
		}
	}
	by, err := t.verify(files, bytes.NewReader(text[:at]), text[at:], bare, listed)
	if err != nil {
		return "", err
	}
	return by.signer.Subject.String(), covered(files, meta, append(vouched, bare...))
}

// verifyArtifacts checks the signatures of single artifacts. It returns the files of signatures
// and certificates, which vouch for themselves.
func (t Trust) verifyArtifacts(files fs.FS, meta *vnfd.Meta) (vouched []string, err error) {
	for _, a := range meta.Artifacts {
		if a.Signature == "" {
			if a.Certificate != "" {
				return nil, refuse("%s has a certificate without a signature", a.Path)
			}
			continue
		}
		var bare []string
		if a.Certificate != "" {
			bare = append(bare, a.Certificate)
		}
		signature, err := small(files, a.Signature)
		if err == nil {
			_, err = t.verifyFile(files, a.Path, signature, bare, nil)
		}
		if err != nil {
			return nil, fmt.Errorf("signature of %s: %w", a.Path, err)
		}
		vouched = append(vouched, append(bare, a.Signature)...)
	}
	return vouched, nil
}

// hashedBy are the files that the manifest has a checksum of.
func hashedBy(meta *vnfd.Meta) map[string]bool {
	hashed := map[string]bool{}
	for _, a := range meta.Artifacts {
		if a.File == meta.Manifest && a.Hash != "" {
			hashed[a.Path] = true
		}
	}
	return hashed
}

// covered refuses files that the manifest has no checksum of, but those that vouch for
// themselves.
func covered(files fs.FS, meta *vnfd.Meta, vouched []string) error {
	listed := hashedBy(meta)
	listed[meta.Manifest] = true
	for _, name := range vouched {
		listed[name] = true
	}
	return walk(files, func(name string, d fs.DirEntry) error {
		if !d.IsDir() && !listed[name] {
			return refuse("the manifest is signed, but has no checksum of %s", name)
		}
		return nil
	})
}

// small reads a file that is small by its nature.
func small(files fs.FS, name string) ([]byte, error) {
	st, err := fs.Stat(files, name)
	if err == nil && st.Size() > vnfd.MaxFile {
		err = fmt.Errorf("%w: %s has more than %d bytes", ErrTooLarge, name, vnfd.MaxFile)
	}
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(files, name)
}

// certificates reads files of certificates in PEM or DER, and of nothing else.
func certificates(files fs.FS, names []string) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for _, name := range names {
		data, err := small(files, name)
		if err != nil {
			return nil, err
		}
		const end = "-----END CERTIFICATE-----"
		for data = bytes.TrimSpace(data); len(data) > 0; data = bytes.TrimLeft(data, "\r\n") {
			one := data
			if at := bytes.Index(data, []byte(end)); at >= 0 {
				one = data[:at+len(end)]
			}
			data = data[len(one):]
			der, err := unarmor(one, "CERTIFICATE")
			var c *x509.Certificate
			if err == nil {
				c, err = x509.ParseCertificate(der)
			}
			if err != nil {
				return nil, refuse("%s isn't certificates in PEM alone, or one in DER", name)
			}
			list = append(list, c)
		}
	}
	return list, nil
}
