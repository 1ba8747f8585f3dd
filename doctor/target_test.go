package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestAProjectThatProposesWithoutAForgeHasFailed(t *testing.T) {
	proposes := &desired.Settings{Projects: map[string]*desired.Project{
		"edge": {Name: "edge", Write: desired.Writes{PullRequest: []string{"SCALE"}}},
		"core": {Name: "core"},
	}}
	for _, test := range []struct {
		name     string
		settings *desired.Settings
		token    func(context.Context) error
		want     string
	}{
		{name: "no forge", settings: proposes, want: "projects/edge.yaml: requests are to be proposed"},
		{name: "a forge", settings: proposes, token: func(context.Context) error { return nil }},
		{name: "nothing is proposed", settings: &desired.Settings{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			said := ""
			for _, c := range (&Target{Token: test.token}).ofSettings(test.settings) {
				f := c.Run(t.Context())
				if f.State != Failed || !strings.Contains(f.Do, "--forge-token") {
					t.Errorf("%s: %+v", c.Name, f)
				}
				said += f.Means
			}
			if said == "" && test.want != "" || !strings.HasPrefix(said, test.want) || strings.Contains(said, "core") {
				t.Errorf("it says %q, want %q", said, test.want)
			}
		})
	}
}
