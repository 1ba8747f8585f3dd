package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// errWrongCA is returned where a cluster answers that isn't the one to join.
var errWrongCA = errors.New("the cluster's CA has another hash than was given: " +
	"another cluster answers there, or the hash is of another one (join hash -conf /etc/kubernetes/admin.conf tells a master's)")

// hashOf is what kubeadm calls the --discovery-token-ca-cert-hash of a certificate.
func hashOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// discover asks the API server for the cluster's CA, which nothing vouches for but the
// hash, and returns it as PEM. A server that doesn't answer is asked again until ctx ends.
func discover(ctx context.Context, endpoint, hash string) ([]byte, error) {
	client := &http.Client{
		// An answer is only believed where the hash is right.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		Timeout:   10 * time.Second,
	}
	for {
		bundle, err := clusterInfo(ctx, client, "https://"+endpoint)
		if err == nil {
			return pinned(bundle, hash)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("ask for the cluster's CA: %w", err)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// clusterInfo is the CA bundle in the kubeconfig that every cluster of kubeadm's shows to
// everybody.
func clusterInfo(ctx context.Context, client *http.Client, server string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/api/v1/namespaces/kube-public/configmaps/cluster-info", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the config map cluster-info in kube-public: the API server answers %s", resp.Status)
	}
	var info corev1.ConfigMap
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, fmt.Errorf("the config map cluster-info in kube-public: %w", err)
	}
	config, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	if err != nil {
		return nil, fmt.Errorf("the config map cluster-info in kube-public: %w", err)
	}
	for _, c := range config.Clusters {
		return c.CertificateAuthorityData, nil
	}
	return nil, errors.New("the config map cluster-info in kube-public tells no cluster")
}

// pinned leaves those certificates of a bundle that have the hash: one that merely stands
// beside the right one is nobody's.
func pinned(bundle []byte, hash string) ([]byte, error) {
	all, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA: %w", err)
	}
	var good []byte
	for _, c := range all {
		if strings.EqualFold(hashOf(c), hash) {
			good = append(good, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw})...)
		}
	}
	if good == nil {
		return nil, errWrongCA
	}
	return good, nil
}

func printHash(conf string) error {
	config, err := clientcmd.LoadFromFile(conf)
	if err != nil {
		return err
	}
	for _, c := range config.Clusters {
		all, err := cert.ParseCertsPEM(c.CertificateAuthorityData)
		if err != nil {
			return fmt.Errorf("%s: %w", conf, err)
		}
		fmt.Println(hashOf(all[0]))
		return nil
	}
	return fmt.Errorf("%s names no cluster", conf)
}
