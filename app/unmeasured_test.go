package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestAServerThatMeasuresNothingDoesTheSameAndCountsNone(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	const id = "3a5c1f0e-0000-4000-8000-00000000000b"
	// Each is counted where an instance is instantiated from a commit, and shown to a client.
	counted := []string{
		"jibe_reconcile_duration_seconds_count", "jibe_lcm_operation_transitions_total", "jibe_http_request_duration_seconds_count",
		`jibe_git_duration_seconds_count{command="commit",outcome="ok"} `, `jibe_store_duration_seconds_count{operation="update"} `,
	}
	for unmeasured, want := range map[bool]bool{false: true, true: false} {
		s, stop := startWith(t, app.Options{Data: t.TempDir(), Cloud: sim.NewCloud(), Unmeasured: unmeasured})
		t.Cleanup(stop)
		repository(t, s, map[string]string{
			"vims/cloud.yaml":      "type: sim\ndefault: true\n",
			"instances/a/vnf.yaml": instance("id: " + id + "\n"),
		})
		kit.Eventually(t, func() error {
			var shown struct{ InstantiationState string }
			err := s.Get(t.Context(), process.Instances+"/"+id, &shown)
			if err == nil && shown.InstantiationState != "INSTANTIATED" {
				err = fmt.Errorf("the instance is %q", shown.InstantiationState)
			}
			return err
		})
		kit.Eventually(t, func() error { // what is measured is counted a moment after it was shown
			text := scrape(t, s, "text/plain")
			for _, name := range counted {
				got := false
				for line := range strings.Lines(text) {
					got = got || strings.HasPrefix(line, name) && !strings.HasSuffix(line, " 0\n")
				}
				if got != want {
					err := fmt.Errorf("unmeasured %t: %s is counted: %t", unmeasured, name, got)
					if unmeasured {
						err = kit.Final(err)
					}
					return err
				}
			}
			if !strings.Contains(text, "\njibe_instances 1\n") {
				return fmt.Errorf("unmeasured %t: what is read at a scrape isn't there", unmeasured)
			}
			return nil
		})
	}
}
