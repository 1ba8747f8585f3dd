package desired_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestAVIMThatAnInstanceProvidesKeepsWhatPeopleSayOfIt(t *testing.T) {
	vim := &desired.VIM{Name: "edge", Instance: "a", Endpoint: "https://10.0.0.1:6443", CACert: "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
		Credentials: desired.Credentials{ClientCert: "age:abc", ClientKey: "age:def"}}
	text, err := desired.ProvideVIM(vim, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := desired.ParseVIM("vims/edge.yaml", text)
	if err != nil || got.Type != desired.VIMKubernetes || got.Instance != "a" || got.CACert != vim.CACert || got.Credentials != vim.Credentials {
		t.Fatalf("%s is %+v (%v)", text, got, err)
	}
	named := strings.Replace(string(text), "instance:", "default: true\nid: x\ninstance:", 1)
	vim.Endpoint = "https://10.0.0.2:6443"
	if text, err = desired.ProvideVIM(vim, []byte(named)); err != nil {
		t.Fatal(err)
	}
	if got, err = desired.ParseVIM("vims/edge.yaml", text); err != nil || !got.Default || got.ID != "x" || got.Endpoint != vim.Endpoint {
		t.Errorf("then it is %+v (%v)", got, err)
	}
	if again, err := desired.ProvideVIM(vim, text); err != nil || string(again) != string(text) {
		t.Errorf("once more it is another: %s (%v)", again, err)
	}
}

func TestAVIMThatCantBeProvidedIsRefused(t *testing.T) {
	good := desired.VIM{Name: "edge", Instance: "a", Endpoint: "https://10.0.0.1:6443", Credentials: desired.Credentials{Token: "age:abc"}}
	for _, foreign := range []string{"type: sim\n", "type: kubernetes\nkubeconfig: file:/x\n", "type: kubernetes\ninstance: b\nkubeconfig: file:/x\n", ": no yaml"} {
		if _, err := desired.ProvideVIM(&good, []byte(foreign)); !errors.Is(err, desired.ErrVIMTaken) {
			t.Errorf("over %q: %v", foreign, err)
		}
	}
	clear, nameless, nowhere := good, good, good
	clear.Credentials.Token, nameless.Name, nowhere.Endpoint = "hush", "../edge", "10.0.0.1"
	for _, v := range []*desired.VIM{&clear, &nameless, &nowhere} {
		text, err := desired.ProvideVIM(v, nil)
		if _, ok := errors.AsType[*desired.InvalidError](err); !ok || strings.Contains(err.Error(), "hush") {
			t.Errorf("%+v: %s, %v", v, text, err)
		}
	}
}
