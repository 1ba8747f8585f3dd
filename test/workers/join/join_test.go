package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// authority makes a CA, and the hash that kubeadm documents for it: of the public key's
// DER alone.
func authority(t *testing.T) (certPEM []byte, hash string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(public)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), "sha256:" + hex.EncodeToString(sum[:])
}

func TestOnlyTheCAThatHasTheHashIsBelieved(t *testing.T) {
	right, hash := authority(t)
	wrong, other := authority(t)
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{CertificateAuthorityData: append(append([]byte{}, wrong...), right...)}
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		if err := json.NewEncoder(w).Encode(corev1.ConfigMap{Data: map[string]string{"kubeconfig": string(kubeconfig)}}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	endpoint := server.Listener.Addr().String()
	if ca, err := discover(t.Context(), endpoint, hash); err != nil || string(ca) != string(right) {
		t.Errorf("believed are %s, %v", ca, err)
	}
	config.Clusters[""].CertificateAuthorityData = right
	if kubeconfig, err = clientcmd.Write(*config); err != nil {
		t.Fatal(err)
	}
	if ca, err := discover(t.Context(), endpoint, other); !errors.Is(err, errWrongCA) {
		t.Errorf("believed are %s, %v", ca, err)
	}
}

func TestSettingsThatCannotBeRightAreRefused(t *testing.T) {
	good := []string{"join", "-endpoint", "127.0.0.1:1", "-ca-hash", "sha256:00", "-name", "w1", "-address", "10.0.0.1", "-conf", t.TempDir() + "/kubelet.conf"}
	for _, c := range []struct{ change, to, why string }{
		{"-endpoint", "127.0.0.1", "host:port"},
		{"-ca-hash", "", "any server would be believed"},
		{"-name", "Worker_1", "RFC 1123"},
		{"-address", "worker", "IP address"},
		{"-memory", "much", "quantities"},
		{"", "", envToken},
	} {
		t.Setenv(envToken, "not-a-token")
		args := append([]string{}, good...)
		if c.change != "" {
			args = append(args, c.change, c.to)
		}
		err := run(t.Context(), args)
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s %q: %v; it should name %q", c.change, c.to, err, c.why)
		}
		if err != nil && strings.Contains(err.Error(), "not-a-token") {
			t.Errorf("the token is shown: %v", err)
		}
	}
}
