package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
)

// tokenGrace is how long a token may be refused before it counts as wrong: an API server
// knows a new one a moment after it was made. fewestRefusals are how many answers that takes at least: on a
// machine that stalls, time alone says nothing.
const (
	tokenGrace     = 5 * time.Second
	fewestRefusals = 8
)

// tokenForm is Kubernetes': the token's id, a dot, its secret.
var tokenForm = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

// joining is one host on its way into one cluster.
type joining struct {
	endpoint, token, caHash, conf string
	node                          node
}

func (j *joining) check() error {
	if _, _, err := net.SplitHostPort(j.endpoint); err != nil {
		return fmt.Errorf("-endpoint %q: host:port of the API server is needed", j.endpoint)
	}
	if !strings.HasPrefix(j.caHash, "sha256:") {
		return fmt.Errorf("-ca-hash %q: sha256:… of the cluster's CA is needed; without it any server would be believed", j.caHash)
	}
	if wrong := validation.IsDNS1123Subdomain(j.node.name); len(wrong) > 0 {
		return fmt.Errorf("-name %q: %s", j.node.name, strings.Join(wrong, "; "))
	}
	if net.ParseIP(j.node.address) == nil {
		return fmt.Errorf("-address %q: the node's IP address is needed", j.node.address)
	}
	return nil
}

// do joins, or goes on where an earlier attempt ended. The kubelet.conf is written as soon
// as there is a certificate, as a kubelet does, so that a host that was interrupted
// recognizes the Node as its own.
func (j *joining) do(ctx context.Context) error {
	client, err := j.member(ctx)
	if err != nil {
		return err
	}
	if client == nil {
		if client, err = j.enter(ctx); err != nil {
			return err
		}
	}
	if err := j.node.register(ctx, client); err != nil {
		return err
	}
	return j.node.awaitReady(ctx, client)
}

// member is a client with what an earlier join left; nil where there is nothing, or
// what the cluster accepts no more.
func (j *joining) member(ctx context.Context) (*kubernetes.Clientset, error) {
	data, err := os.ReadFile(j.conf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; join reset forgets it", j.conf, err)
	}
	if _, err := pinned(config.CAData, j.caHash); err != nil {
		return nil, fmt.Errorf("%s: this host is a node of another cluster already, join reset forgets that: %w", j.conf, err)
	}
	own, err := cert.ParseCertsPEM(config.CertData)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; join reset forgets it", j.conf, err)
	}
	if name := own[0].Subject.CommonName; name != j.node.user() {
		return nil, fmt.Errorf("%s: this host is the node %s already; join reset forgets that", j.conf, strings.TrimPrefix(name, userPrefix))
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	_, err = client.CoreV1().Nodes().Get(ctx, j.node.name, metav1.GetOptions{})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return client, nil
	case apierrors.IsUnauthorized(err):
		return nil, nil // it has run out
	}
	return nil, err
}

// enter gets a certificate for the token and writes it down.
func (j *joining) enter(ctx context.Context) (*kubernetes.Clientset, error) {
	if !tokenForm.MatchString(j.token) {
		return nil, fmt.Errorf("$%s: a bootstrap token is needed, six characters, a dot, and sixteen (kubeadm token create makes one)", envToken)
	}
	ca, err := discover(ctx, j.endpoint, j.caHash)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{Host: "https://" + j.endpoint, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	bootstrap := rest.CopyConfig(config)
	bootstrap.BearerToken = j.token
	if config.CertData, config.KeyData, err = j.certificate(ctx, bootstrap); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := j.node.free(ctx, client); err != nil {
		return nil, err
	}
	return client, j.write(config)
}

// certificate asks for the certificate of a kubelet, for a fresh key.
func (j *joining) certificate(ctx context.Context, bootstrap *rest.Config) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, err
	}
	request, err := cert.MakeCSR(key, &pkix.Name{CommonName: j.node.user(), Organization: []string{"system:nodes"}}, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(bootstrap)
	if err != nil {
		return nil, nil, err
	}
	asked := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	began, refused := time.Now(), 0
	err = wait.PollUntilContextCancel(ctx, tokenGrace/fewestRefusals/2, true, func(ctx context.Context) (bool, error) {
		made, err := client.CertificatesV1().CertificateSigningRequests().Create(ctx, asked, metav1.CreateOptions{})
		if apierrors.IsUnauthorized(err) {
			if refused++; refused >= fewestRefusals && time.Since(began) >= tokenGrace {
				return false, errors.New("the API server refuses the bootstrap token: it is wrong or has expired; make a new one (kubeadm token create)")
			}
			return false, nil
		}
		if err == nil {
			asked = made
		}
		return err == nil, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("ask for a certificate: %w", err)
	}
	certPEM, err = csr.WaitForCertificate(ctx, client, asked.Name, asked.UID)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate signing request %s: %w; is it approved? (kubectl get csr)", asked.Name, err)
	}
	if block, _ := pem.Decode(certPEM); block == nil {
		return nil, nil, fmt.Errorf("certificate signing request %s: what was signed is no certificate", asked.Name)
	}
	return certPEM, keyPEM, nil
}

// write makes the kubelet.conf, whole or not at all.
func (j *joining) write(config *rest.Config) error {
	const cluster, user = "cluster", "kubelet"
	made := clientcmdapi.NewConfig()
	made.Clusters[cluster] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	made.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	made.Contexts[user] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	made.CurrentContext = user
	data, err := clientcmd.Write(*made)
	if err != nil {
		return err
	}
	part := j.conf + ".part"
	if err := os.MkdirAll(filepath.Dir(j.conf), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return err
	}
	return os.Rename(part, j.conf)
}

// printToken writes the Secret that makes a token one of the cluster's.
func printToken(token string, expires time.Time) error {
	parts := tokenForm.FindStringSubmatch(token)
	if parts == nil {
		return fmt.Errorf("$%s: a token is six characters, a dot, and sixteen, of a-z and 0-9", envToken)
	}
	_, err := fmt.Printf(`apiVersion: v1
kind: Secret
metadata: {name: bootstrap-token-%s, namespace: kube-system}
type: bootstrap.kubernetes.io/token
stringData:
  token-id: %q
  token-secret: %q
  expiration: %q
  usage-bootstrap-authentication: "true"
  usage-bootstrap-signing: "true"
`, parts[1], parts[1], parts[2], expires.UTC().Format(time.RFC3339))
	return err
}
