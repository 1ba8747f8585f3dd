package reconciler

import (
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

func TestADeviationNeverShowsWhatMayBeASecret(t *testing.T) {
	for field, hidden := range map[string]bool{
		"spec.template.spec.containers[name=db].env[name=DB_PASSWORD].value": true,
		"data.api_token":  true,
		"spec.replicas":   false,
		"data.token_path": false,
	} {
		d := drivers.Deviation{Object: "ConfigMap/a/b", Field: field, Want: `"x"`}
		hide(&d, desired.SecretNames{}, nil)
		if got := d.Want == "(hidden)"; got != hidden || d.Have != "" {
			t.Errorf("%s: got %+v, hidden should be %v", field, d, hidden)
		}
	}
}
