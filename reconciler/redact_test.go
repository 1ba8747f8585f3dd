package reconciler

import (
	"reflect"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

func TestADeviationNeverShowsWhatMayBeASecret(t *testing.T) {
	t.Parallel()

	for field, hidden := range map[string]bool{
		"spec.template.spec.containers[name=db].env[name=DB_PASSWORD].value": true,
		"data.api_token":  true,
		"spec.replicas":   false,
		"data.token_path": false,
	} {
		d := drivers.Deviation{Object: "ConfigMap/a/b", Field: field, Want: `"x"`}
		redact(&d, desired.SecretNames{}, nil)
		if got := d.Want == "(hidden)"; got != hidden || d.Have != "" {
			t.Errorf("%s: got %+v, hidden should be %v", field, d, hidden)
		}
	}
}

func TestADeviationRedactsWhatIsSecretByItsValueOrByDeclaration(t *testing.T) {
	t.Parallel()

	names := desired.SecretNames{}.With("snmp_community")
	for name, d := range map[string]struct {
		drivers.Deviation
		hidden bool
	}{
		"a declared name":               {drivers.Deviation{Field: "data.snmpCommunity", Want: `"x"`}, true},
		"a variable of a declared name": {drivers.Deviation{Field: "spec.containers[name=a].env[name=SNMP_COMMUNITY].value", Want: `"x"`}, true},
		"a key in an annotation":        {drivers.Deviation{Field: "metadata.annotations[acme.org/api-key]", Have: `"x"`}, true},
		"a private key":                 {drivers.Deviation{Field: "data.note", Have: `"-----BEGIN PRIVATE KEY-----\nMII"`}, true},
		"what a reference stands for":   {drivers.Deviation{Field: "template.resources.VDU1.properties.name", Want: `"vm-resolved-1"`}, true},
		"a container that is called so": {drivers.Deviation{Field: "spec.containers[name=auth].image", Want: `"a:1"`}, false},
		"the name of a Secret":          {drivers.Deviation{Field: "spec.secretName", Want: `"login"`}, false},
		"something else":                {drivers.Deviation{Field: "spec.replicas", Want: "3"}, false},
	} {
		redact(&d.Deviation, names, []string{"resolved"})
		if got := d.Want+d.Have == "(hidden)"; got != d.hidden {
			t.Errorf("%s: %+v, hidden should be %v", name, d.Deviation, d.hidden)
		}
	}
}

func TestAWorkloadNeverShowsWhatAReferenceStandsFor(t *testing.T) {
	t.Parallel()

	sent := map[string]any{"args": []any{"--join=resolved-1", "--verbose"}, "env": []any{map[string]any{"name": "JOIN", "value": "resolved-1"}}, "replicas": int64(2)}
	want := map[string]any{"args": []any{"(hidden)", "--verbose"}, "env": []any{map[string]any{"name": "JOIN", "value": "(hidden)"}}, "replicas": int64(2)}
	if got := hidden(sent, []string{"resolved-1"}); !reflect.DeepEqual(got, want) {
		t.Errorf("shown is %v", got)
	}
	if got := hidden(sent, nil); !reflect.DeepEqual(got, sent) {
		t.Errorf("without secrets, shown is %v", got)
	}
}
