package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// local runs a command of jibe that needs no server and returns all that it prints.
func local(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestARotationBesideARunningServerEncryptsAllInOneCommitAndMayBeRepeated(t *testing.T) {
	kit.Long(t)
	data := filepath.Join(t.TempDir(), "data")
	s := process.Start(t, data)
	keeper, err := secret.Open(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	ref := func() string {
		t.Helper()
		ref, err := keeper.For(secret.ForVIMs()).Encrypt("pa55-of-the-vim")
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	first := ref()
	c := process.NewClone(t, s.Desired())
	commit := func(files map[string]string) error {
		t.Helper()
		for name, text := range files {
			if err := c.Write(name, text); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Commit(t.Context(), "Change"); err != nil {
			t.Fatal(err)
		}
		return c.Push(t.Context())
	}
	const vim = "type: ETSINFV.OPENSTACK_KEYSTONE.V_3\nendpoint: https://192.0.2.1/v3\nproject: nfv # kept\ncredentials:\n  username: u\n  password: "
	if err := commit(map[string]string{"vims/edge.yaml": vim + first + "\n", "vims/core.yaml": vim + ref() + "\n"}); err != nil {
		t.Fatal(err)
	}
	at := func() string {
		t.Helper()
		head, err := process.Git(t.Context(), s.Desired(), "rev-parse", "main")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(head)
	}
	base := at()
	out, err := local(t, "secret", "rotate", "--data", data)
	if err != nil || !strings.Contains(out, "values encrypted anew: 2") || strings.Contains(out, "AGE-SECRET") {
		t.Fatalf("%v: %s", err, out)
	}
	if parent, err := process.Git(t.Context(), s.Desired(), "rev-parse", "main~1"); err != nil || strings.TrimSpace(parent) != base {
		t.Errorf("it wasn't one commit: %v %s", err, parent)
	}
	text, err := process.Git(t.Context(), s.Desired(), "show", "main:vims/edge.yaml")
	if err != nil || strings.Contains(text, first) || !strings.HasPrefix(text, strings.TrimSuffix(vim, "  password: ")) {
		t.Errorf("%v: the file is\n%s", err, text)
	}
	// What the running server encrypts now is for the new key alone: a start with that one reads it.
	body := map[string]any{"vim": map[string]any{"name": "new", "type": "openstack", "auth_url": "https://192.0.2.1/v3", "is_default": false, "vim_project": map[string]any{"name": "nfv", "project_domain_name": "Default"},
		"auth_cred": map[string]any{"username": "u", "password": "pa55-of-the-vim", "user_domain_name": "Default", "cert_verify": "True"}}}
	s.Want(t, 201, "POST", "/v1.0/vims", body, nil)
	text, err = process.Git(t.Context(), s.Desired(), "show", "main:vims/new.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rotation, err := secret.BeginRotation(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := rotation.Outdated([]byte(text), nil); n != 0 || err != nil {
		t.Errorf("the server encrypts for a former key: %d, %v:\n%s", n, err, text)
	}
	// An interruption between the new key and the commit: the next run finishes that.
	if err := rotation.NewKey(); err != nil {
		t.Fatal(err)
	}
	recipient := rotation.Recipient()
	if err := rotation.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := local(t, "secret", "rotate", "--data", data); err != nil || !strings.Contains(out, "finishing a rotation") || !strings.Contains(out, "recipients: 3") || !strings.Contains(out, recipient) {
		t.Errorf("%v: %s", err, out)
	}
	// A value that nobody here can read stops it before anything changes.
	key, err := os.ReadFile(filepath.Join(data, secret.IdentityFile))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := secret.EncryptFor("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p", "x", secret.ForVIMs())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := commit(map[string]string{"notes.txt": "\n" + foreign + "\n"}); err != nil {
		t.Fatal(err)
	}
	head := at()
	if out, err := local(t, "secret", "rotate", "--data", data); err == nil || !strings.Contains(err.Error(), "notes.txt: line 2") {
		t.Errorf("%v: %s", err, out)
	}
	if now, err := os.ReadFile(filepath.Join(data, secret.IdentityFile)); err != nil || string(now) != string(key) || at() != head {
		t.Error("the key or the repository has changed")
	}
	if out, err := local(t, "secret", "scan", "--history", s.Desired()); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
