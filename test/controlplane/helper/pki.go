package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// lifetime is longer than any test cluster lives, so that one found again after a
// holiday still works.
const lifetime = 10 * 365 * 24 * time.Hour

// server is the leaf that the API server shows.
const server = "apiserver"

// leaves are the certificates of one control plane. Only the API server's is shown to
// clients; the others prove who a client is, by the names that Kubernetes' own RBAC
// bootstrap policy gives rights to.
var leaves = []struct {
	name    string
	subject pkix.Name
	ips     []net.IP
	dns     []string
}{
	{
		name: server, subject: pkix.Name{CommonName: "kube-apiserver"},
		ips: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		dns: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	},
	{name: "admin", subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}},
	{name: "kwok", subject: pkix.Name{CommonName: "kwok", Organization: []string{"system:masters"}}},
	{name: "kube-controller-manager", subject: pkix.Name{CommonName: "system:kube-controller-manager"}},
	{name: "kube-scheduler", subject: pkix.Name{CommonName: "system:kube-scheduler"}},
}

// makePKI fills dir with one certificate authority, the leaves that it signed and the
// key that signs service account tokens. The API server's certificate is good at 127.0.0.1
// and at addr, if that isn't nil. A dir that exists is whole, for it is made beside itself
// and renamed, and is left alone.
func makePKI(dir string, addr net.IP) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		if err == nil && addr != nil {
			err = goodAt(dir, addr)
		}
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".pki-")
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	defer os.RemoveAll(tmp)

	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test-control-plane-ca"},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, IsCA: true, BasicConstraintsValid: true,
	}
	caKey, err := writePair(tmp, "ca", ca, ca, nil)
	if err != nil {
		return err
	}
	for i, l := range leaves {
		if l.name == server && addr != nil {
			l.ips = append(slices.Clone(l.ips), addr)
		}
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i) + 2), Subject: l.subject, IPAddresses: l.ips, DNSNames: l.dns,
			NotBefore: now.Add(-time.Minute), NotAfter: now.Add(lifetime),
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if _, err := writePair(tmp, l.name, cert, ca, caKey); err != nil {
			return err
		}
	}
	if _, err := writeKey(tmp, "service-accounts"); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}

// goodAt refuses an API server's certificate that says nothing of addr.
func goodAt(dir string, addr net.IP) error {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, server+".crt"), filepath.Join(dir, server+".key"))
	if err != nil {
		return fmt.Errorf("certificate of the API server: %w", err)
	}
	if err := pair.Leaf.VerifyHostname(addr.String()); err != nil {
		return fmt.Errorf("certificate of the API server: %w: wipe the control plane and start it anew", err)
	}
	return nil
}

// writePair writes a fresh key and the certificate for it, signed by caKey, or by the
// key itself where caKey is nil.
func writePair(dir, name string, cert, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := writeKey(dir, name)
	if err != nil {
		return nil, err
	}
	if caKey == nil {
		caKey = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	return key, writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", der)
}

func writeKey(dir, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", name, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", name, err)
	}
	return key, writePEM(filepath.Join(dir, name+".key"), "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKubeconfig writes a kubeconfig that needs no other file, so that it may be
// copied into a VIM's accessInfo or onto another terminal. It appears whole or not at all.
func writeKubeconfig(pki, name, server, path string) error {
	var data [3]string
	for i, file := range []string{"ca.crt", name + ".crt", name + ".key"} {
		b, err := os.ReadFile(filepath.Join(pki, file))
		if err != nil {
			return fmt.Errorf("kubeconfig %s: %w", name, err)
		}
		data[i] = base64.StdEncoding.EncodeToString(b)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: test
  context: {cluster: test, user: %s}
current-context: test
`, server, data[0], name, data[1], data[2], name)
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", name, err)
	}
	return os.Rename(tmp, path)
}
