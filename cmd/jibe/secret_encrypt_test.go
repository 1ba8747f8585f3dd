package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
)

// The refusal of a secret in clear names `jibe secret encrypt`, and what that prints is taken in
// its place.
func TestASecretInClearIsTakenOnceItIsEncrypted(t *testing.T) {
	t.Parallel()

	keeper, err := secret.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exposed := func(text string) []*desired.Problem {
		t.Helper()
		in, err := desired.ParseInstance("instances/a/vnf.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		added, _ := desired.Exposed("instances/a/vnf.yaml", []byte(text), nil, in, desired.SecretNames{})
		return added
	}
	const text = "vnfdId: x\nparams: {password: SECRET}\n"
	refused := exposed(strings.Replace(text, "SECRET", "pa55", 1))
	if len(refused) != 1 || !strings.Contains(refused[0].Error(), "jibe secret encrypt") {
		t.Fatal(refused)
	}

	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetIn(strings.NewReader("pa55\n"))
	root.SetArgs([]string{"secret", "encrypt", "--recipient", keeper.Recipient(), "--project", "default"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}

	sealed := strings.TrimSpace(out.String())
	if left := exposed(strings.Replace(text, "SECRET", `"`+sealed+`"`, 1)); len(left) > 0 {
		t.Error(left)
	}
	if clear, err := keeper.For(secret.ForParams("default")).Resolve(sealed); err != nil || clear != "pa55" {
		t.Errorf("%q, %v", clear, err)
	}
}

func TestAValueThatIsMisplacedIsTakenAsItsRemedySays(t *testing.T) {
	t.Parallel()
	keeper, err := secret.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []secret.Scope{secret.ForParams("lisbon"), secret.ForConnection("lisbon", "https://K8S.example:443/"), secret.ForVIMs(), secret.ForSettings()} {
		_, command, _ := strings.Cut(keeper.Misplaced(secret.Scope{}, wanted).Remedy, ": jibe ")
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetIn(strings.NewReader("pa55\n"))
		root.SetArgs(strings.Fields(command))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%q: %v", command, err)
			continue
		}
		sealed := strings.TrimSpace(out.String())
		if is, err := keeper.ScopeOf(sealed); err != nil || is != wanted {
			t.Errorf("%q: it is for %s: %v", command, is, err)
		}
		if clear, err := keeper.For(wanted).Resolve(sealed); err != nil || clear != "pa55" {
			t.Errorf("%q: %q, %v", command, clear, err)
		}
	}
	for _, args := range []string{"--for params", "--for connection --project p", "--for vim --project p", "--endpoint https://x", "--for nothing"} {
		root := newRoot()
		root.SetOut(&bytes.Buffer{})
		root.SetErr(&bytes.Buffer{})
		root.SetIn(strings.NewReader("pa55\n"))
		root.SetArgs(append([]string{"secret", "encrypt", "--recipient", keeper.Recipient()}, strings.Fields(args)...))
		if err := root.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
