package secret_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// vaultScript builds the server, and says where it is.
const vaultScript = "../../test/vault/vault"

// vaultPolicy is what the guide has a token do, and no more.
const vaultPolicy = `
path "transit/encrypt/jibe" { capabilities = ["update"] }
path "transit/decrypt/jibe" { capabilities = ["update"] }`

// vault is a real server of HashiCorp Vault, with its transit engine at transit/, whose data
// outlive it.
type vault struct {
	program, dir, address, unseal, token string
	server                               *exec.Cmd
	said                                 bytes.Buffer
	// admin is a client with the root token.
	admin *api.Client
}

// vaultProgram returns the path of the server's program, as this project builds it. Where it isn't
// built yet, the test is skipped, or builds it if [testenv.EnvRequire] is "1".
func vaultProgram(t *testing.T) string {
	t.Helper()
	args := []string{"cached"}
	if os.Getenv(testenv.EnvRequire) == "1" {
		args = nil
	}
	cmd := exec.CommandContext(t.Context(), vaultScript, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	switch {
	case err == nil:
		return strings.TrimSpace(string(out))
	case args != nil:
		t.Skipf("no server of Vault is built: run test/vault/vault, or set %s=1", testenv.EnvRequire)
	}
	t.Fatalf("build the server of Vault: %v: %s", err, &said)
	return ""
}

// startVault starts a server that is initialized and unsealed, has the key transit/jibe, and a
// token that may do with it what docs/guide/secrets.md says, and no more.
func startVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{program: vaultProgram(t), dir: t.TempDir()}
	// No other process of this machine takes a port of such an address between two starts.
	b := make([]byte, 3)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	ip := net.IPv4(127, b[0]|1, b[1], b[2]|1)
	v.address = net.JoinHostPort(ip.String(), "8200")
	v.certify(t, ip)
	config := api.DefaultConfig()
	config.Address = "https://" + v.address
	if err := config.ConfigureTLS(&api.TLSConfig{CACert: v.file("ca.pem")}); err != nil {
		t.Fatal(err)
	}
	var err error
	if v.admin, err = api.NewClient(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.kill)
	v.start(t)
	made, err := v.admin.Sys().InitWithContext(t.Context(), &api.InitRequest{SecretShares: 1, SecretThreshold: 1})
	if err != nil {
		t.Fatal(err)
	}
	v.unseal = made.KeysB64[0]
	v.admin.SetToken(made.RootToken)
	v.open(t)
	if err := v.admin.Sys().MountWithContext(t.Context(), "transit", &api.MountInput{Type: "transit"}); err != nil {
		t.Fatal(err)
	}
	v.write(t, "transit/keys/jibe", nil)
	v.write(t, "transit/keys/other", nil)
	v.write(t, "sys/policy/jibe", map[string]any{"policy": vaultPolicy})
	token, err := v.admin.Auth().Token().CreateWithContext(t.Context(), &api.TokenCreateRequest{Policies: []string{"jibe"}})
	if err != nil {
		t.Fatal(err)
	}
	v.token = token.Auth.ClientToken
	v.giveToken(t, v.token)
	return v
}

func (v *vault) file(name string) string { return filepath.Join(v.dir, name) }

// options are those of the key transit/NAME.
func (v *vault) options(name string) secret.LockOptions {
	return secret.LockOptions{KMS: "https://" + v.address + "/transit/" + name, TokenFile: v.file("token"), CA: v.file("ca.pem")}
}

func (v *vault) giveToken(t *testing.T, token string) {
	t.Helper()
	if err := os.WriteFile(v.file("token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// write has root write at path.
func (v *vault) write(t *testing.T, path string, data map[string]any) {
	t.Helper()
	if _, err := v.admin.Logical().WriteWithContext(t.Context(), path, data); err != nil {
		t.Fatal(err)
	}
}

// start has the process answer; it is sealed.
func (v *vault) start(t *testing.T) {
	t.Helper()
	v.said.Reset()
	//nolint:gosec // the program that the test has built
	v.server = exec.Command(v.program, v.dir, v.address, v.file("cert.pem"), v.file("key.pem"))
	v.server.Stdout, v.server.Stderr = &v.said, &v.said
	if err := v.server.Start(); err != nil {
		t.Fatal(err)
	}
	kit.EventuallyWithin(t, 2*time.Minute, func() error {
		_, err := v.admin.Sys().SealStatusWithContext(t.Context())
		return err
	})
}

// kill ends the process at once.
func (v *vault) kill() {
	if v.server != nil {
		_ = v.server.Process.Kill()
		_ = v.server.Wait()
	}
	v.server = nil
}

// open unseals it, and returns when it serves.
func (v *vault) open(t *testing.T) {
	t.Helper()
	if _, err := v.admin.Sys().UnsealWithContext(t.Context(), v.unseal); err != nil {
		t.Fatal(err)
	}
	kit.EventuallyWithin(t, 2*time.Minute, func() error {
		health, err := v.admin.Sys().HealthWithContext(t.Context())
		if err == nil && (health.Sealed || health.Standby) {
			return fmt.Errorf("it is %+v", health)
		}
		return err
	})
}

// certify makes the server's certificate, of an authority of its own.
func (v *vault) certify(t *testing.T, ip net.IP) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vault"}, IPAddresses: []net.IP{ip},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: cert}, "cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(v.file(name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// seal is what an operator of Vault does who suspects a break-in.
func (v *vault) seal(t *testing.T) {
	t.Helper()
	if err := v.admin.Sys().SealWithContext(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}
