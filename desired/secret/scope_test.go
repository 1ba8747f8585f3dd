package secret_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
)

func TestAValueIsOpenedOnlyForWhatItWasEncryptedFor(t *testing.T) {
	t.Parallel()

	k := open(t, t.TempDir())
	all := []secret.Scope{secret.ForParams("a"), secret.ForConnection("a", "https://one:6443"), secret.ForConnection("a", "https://two:6443"), secret.ForVIMs(), secret.ForSettings(),
		secret.ForSubscriptions(), secret.ForUploads()}
	for _, is := range all {
		ref, err := k.For(is).Encrypt("hunter2")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.ScopeOf(ref); err != nil || got != is {
			t.Errorf("%s is for %s: %v", is, got, err)
		}
		for _, wanted := range all {
			clear, err := k.For(wanted).Resolve(ref)
			var no *secret.ForbiddenError
			switch {
			case is == wanted && (clear != "hunter2" || err != nil):
				t.Errorf("for %s: %q, %v", is, clear, err)
			case is != wanted && (clear != "" || !errors.As(err, &no) || !strings.Contains(err.Error(), is.String()) || !strings.Contains(err.Error(), wanted.String())):
				t.Errorf("for %s where %s is wanted: %q, %v", is, wanted, clear, err)
			}
			if same := k.For(wanted).Same(ref, "hunter2"); same != (is == wanted) {
				t.Errorf("for %s where %s is wanted: the same is %t", is, wanted, same)
			}
		}
	}
	old, err := secret.EncryptFor(k.Recipient(), "hunter2", secret.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range all {
		if clear, err := k.For(wanted).Resolve(old); err != nil || clear != "hunter2" {
			t.Errorf("of before, for %s: %q, %v", wanted, clear, err)
		}
	}
}

func TestAScopeCanNotBeTakenFromAValueOrPutInAnother(t *testing.T) {
	t.Parallel()

	k := open(t, t.TempDir())
	parts := func(scope secret.Scope) (header, payload []byte) {
		t.Helper()
		ref, err := k.For(scope).Encrypt("hunter2")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(ref, desired.RefAge))
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(raw, []byte("\n---"))
		return raw[:at], raw[at:]
	}
	stanza := func(header []byte) []byte {
		at := bytes.Index(header, []byte("\n-> jibe-scope "))
		if at < 0 {
			t.Fatalf("no scope in %s", header)
		}
		end := bytes.Index(header[at+1:], []byte("\n->"))
		if end < 0 {
			return header[at:]
		}
		return header[at : at+1+end]
	}
	header, payload := parts(secret.ForVIMs())
	other, _ := parts(secret.ForParams("mine"))
	for name, forged := range map[string][]byte{
		"no scope":   bytes.Replace(header, stanza(header), nil, 1),
		"another":    bytes.Replace(header, stanza(header), stanza(other), 1),
		"two":        append(bytes.Clone(header), stanza(other)...),
		"a version":  bytes.Replace(header, []byte("jibe-scope 1"), []byte("jibe-scope 2"), 1),
		"no version": bytes.Replace(header, []byte("jibe-scope 1"), []byte("jibe-scope"), 1),
	} {
		ref := desired.RefAge + base64.RawURLEncoding.EncodeToString(append(bytes.Clone(forged), payload...))
		for _, wanted := range []secret.Scope{secret.ForVIMs(), secret.ForParams("mine"), {}} {
			if clear, err := k.For(wanted).Resolve(ref); err == nil {
				t.Errorf("%s, for %s: %q", name, wanted, clear)
			}
		}
		if _, err := k.ScopeOf(ref); err == nil {
			t.Errorf("%s has a scope", name)
		}
	}
}

func TestARotationHasOldValuesBeForWhereTheyStand(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	k := open(t, dir)
	old := func(clear string) string {
		t.Helper()
		ref, err := secret.EncryptFor(k.Recipient(), clear, secret.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	elsewhere, err := k.For(secret.ForParams("west")).Encrypt("moved")
	if err != nil {
		t.Fatal(err)
	}
	settings := &desired.Settings{}
	settings.AddProject(&desired.Project{Name: "east", Instances: []string{"east"}})
	vnf := "vnfdId: x\nparams: {password: '" + old("param") + "'}\nmetadata: {note: '" + old("note") + "'}\nvimConnectionInfo: {v: {vimType: kubernetes, interfaceInfo: {endpoint: 'https://k:6443/'}, accessInfo: {bearer_token: '" + old("token") + "'}}}\n"
	files := map[string]string{
		"instances/east/a/vnf.yaml": vnf,
		"vims/edge.yaml":            "type: kubernetes\nendpoint: https://k\ncredentials: {token: '" + old("vim") + "'}\n",
		"peers.yaml":                "- {name: em, type: em, endpoint: 'https://em', credentials: {username: u, password: '" + old("peer") + "'}}\n",
	}
	r, err := secret.BeginRotation(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	places := secret.NewPlaces(settings)
	for name, text := range files {
		if err := places.Add(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]secret.Scope{
		"instances/east/a/vnf.yaml": {secret.ForParams("east"), {}, secret.ForConnection("east", "https://k:6443")},
		"vims/edge.yaml":            {secret.ForVIMs()},
		"peers.yaml":                {secret.ForSettings()},
	} {
		n, err := r.Outdated([]byte(files[name]), places)
		if err != nil || n != min(len(want), 2) {
			t.Errorf("%s has %d outdated values: %v", name, n, err)
		}
		next, _, err := r.Encrypt([]byte(files[name]), places)
		if err != nil {
			t.Fatal(err)
		}
		after := secret.NewPlaces(settings)
		if err := after.Add(name, next); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Outdated(next, after); n != 0 || err != nil {
			t.Errorf("%s has %d outdated values afterwards: %v", name, n, err)
		}
		var got []secret.Scope
		for _, field := range strings.FieldsFunc(string(next), func(c rune) bool { return c == '\'' }) {
			if strings.HasPrefix(field, desired.RefAge) {
				scope, err := k.ScopeOf(field)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, scope)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %v", name, got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: value %d is for %s, want %s", name, i, got[i], want[i])
			}
		}
	}
	// A copied value isn't made one for where the copy stands.
	copied := secret.NewPlaces(settings)
	if err := copied.Add("vims/edge.yaml", []byte(files["vims/edge.yaml"])); err != nil {
		t.Fatal(err)
	}
	_, ref, _ := strings.Cut(files["vims/edge.yaml"], "token: ")
	if err := copied.Add("instances/evil/vnf.yaml", []byte("vnfdId: x\nparams: {p: "+strings.TrimSuffix(ref, "\n")+"\n")); err == nil || !strings.Contains(err.Error(), "instances/evil/vnf.yaml") || !strings.Contains(err.Error(), "vims/edge.yaml") {
		t.Errorf("a copied value: %v", err)
	}
	// Nor is one for another project, unless that is asked for.
	moved := []byte("vnfdId: x\nparams: {password: '" + elsewhere + "'}\n")
	all := secret.NewPlaces(settings)
	if err := all.Add("instances/east/b/vnf.yaml", moved); err != nil {
		t.Fatal(err)
	}
	var misplaced *secret.MisplacedError
	if _, err := r.Outdated(moved, all); !errors.As(err, &misplaced) || misplaced.Line != 2 {
		t.Errorf("a value for another project: %v", err)
	}
	all.Adopt = true
	next, n, err := r.Encrypt(moved, all)
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	ref = strings.Split(string(next), "'")[1]
	if is, err := k.ScopeOf(ref); err != nil || is != secret.ForParams("east") {
		t.Errorf("it is for %s: %v", is, err)
	}
}
