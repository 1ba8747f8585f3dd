package secret_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
)

func TestAVIMMayUseThePodsServiceAccountOnlyWhereTheHostSaysSo(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "tok-1\n")
	write(t, filepath.Join(dir, "ca.crt"), "-----BEGIN CERTIFICATE-----\n")
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	k := open(t, t.TempDir())
	vim := &desired.VIM{Name: "here", Type: desired.VIMKubernetes, InCluster: true}

	_, err := k.ResolveVIM(vim)
	no, ok := errors.AsType[*secret.ForbiddenError](err)
	if !ok || no.Field != "inCluster" || !strings.Contains(no.Remedy, "--in-cluster") {
		t.Errorf("without leave: %v", err)
	}
	k, err = k.With(secret.Reach{Dirs: []string{t.TempDir()}, ServiceAccount: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"tok-1", "tok-2"} {
		write(t, filepath.Join(dir, "token"), token+"\n")
		v, err := k.ResolveVIM(vim)
		if err != nil || v.Endpoint != "https://[fd00::1]:443" || string(v.Token) != token || !strings.HasPrefix(string(v.CACert), "-----BEGIN") || v.Insecure || !v.InCluster {
			t.Errorf("%v at %s with %q: %v", v, v.Endpoint, v.Token, err)
		}
	}
	// The token isn't a file that a reference may name: it would go to any endpoint.
	if _, err := k.For(secret.ForVIMs()).Resolve("file:" + filepath.Join(dir, "token")); !errors.As(err, &no) {
		t.Errorf("a reference to the token: %v", err)
	}
	write(t, filepath.Join(dir, "token"), "")
	if _, err := k.ResolveVIM(vim); !errors.Is(err, secret.ErrMissing) {
		t.Errorf("an empty token: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := k.ResolveVIM(vim); !errors.Is(err, secret.ErrMissing) || !strings.Contains(err.Error(), "KUBERNETES_SERVICE_HOST") {
		t.Errorf("outside of a cluster: %v", err)
	}
}

func TestThePodsServiceAccountHasItsNamespaces(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "tok-1\n")
	write(t, filepath.Join(dir, "ca.crt"), "-----BEGIN CERTIFICATE-----\n")
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	k, err := open(t, t.TempDir()).With(secret.Reach{Dirs: []string{t.TempDir()}, ServiceAccount: dir, Namespaces: []string{"edge", "vnfs"}})
	if err != nil {
		t.Fatal(err)
	}

	for file, want := range map[string]string{"": "edge vnfs", "vnfs": "vnfs"} {
		v, err := k.ResolveVIM(&desired.VIM{Name: "here", Type: desired.VIMKubernetes, InCluster: true, Namespaces: strings.Fields(file)})
		if err != nil || strings.Join(v.Namespaces, " ") != want {
			t.Errorf("%q: %v, %v, want %s", file, v.Namespaces, err, want)
		}
	}
	_, err = k.ResolveVIM(&desired.VIM{Name: "here", Type: desired.VIMKubernetes, InCluster: true, Namespaces: []string{"vnfs", "x"}})
	no, ok := errors.AsType[*secret.ForbiddenError](err)
	if !ok || no.Field != "namespaces" || !strings.Contains(no.Reason, "not in x") || !strings.Contains(no.Remedy, "--in-cluster-namespaces") {
		t.Errorf("a namespace in which it has no rights: %v", err)
	}
}
