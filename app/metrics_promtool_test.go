package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// scrape is what a server that has worked shows on /metrics, in the format that accept asks for.
func scrape(t *testing.T, s *process.Server, accept string) string {
	t.Helper()
	a, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil, "Accept", accept)
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("scrape: %v: %+v", err, a)
	}
	return string(a.Body)
}

// worked is a server that has made a VNF, healed it, refused a push and told a subscriber.
func worked(t *testing.T) *process.Server {
	t.Helper()
	cloud := sim.NewCloud()
	s, stop := start(t, t.TempDir(), cloud, "")
	t.Cleanup(stop)
	listen(t, s)
	const id = "3a5c1f0e-0000-4000-8000-00000000000a"
	repository(t, s, map[string]string{
		"vims/cloud.yaml":            "type: sim\ndefault: true\n",
		"instances/north/vnf.yaml":   instance("id: " + id + "\n"),
		"instances/south/b/vnf.yaml": strings.Replace(instance("state: notInstantiated\n"), "namespace: a", "namespace: b", 1),
	})
	kit.Eventually(t, func() error {
		var ops []process.Operation
		if err := s.Get(t.Context(), process.Operations, &ops); err != nil {
			return err
		}
		if len(ops) != 1 || ops[0].State != string(lcm.Completed) {
			return fmt.Errorf("operations are %+v", ops)
		}
		return nil
	})
	a, err := s.Do(t.Context(), http.MethodPost, "/vnflcm/v2/vnf_instances/"+id+"/heal", map[string]any{})
	if err != nil || a.Status != http.StatusAccepted {
		t.Fatalf("heal: %v: %+v", err, a)
	}
	s.Await(t, a.ID(), string(lcm.Completed))
	if a, err := s.Do(t.Context(), http.MethodPost, "/vnflcm/v2/vnf_instances/"+id+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "none"}); err != nil || a.Status < 400 {
		t.Fatalf("scale by an aspect that isn't there: %v: %+v", err, a)
	}
	kit.Eventually(t, func() error { // it is told at leisure
		if !counts(scrape(t, s, "text/plain"), `jibe_notification_delivery_duration_seconds_count{outcome="ok"}`) {
			return errors.New("no subscriber was told")
		}
		return nil
	})
	return s
}

// counts reports whether a line of the scrape begins so, and doesn't say 0.
func counts(text, line string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(l, line) && !strings.HasSuffix(l, "} 0") })
}

// ourFamilies are the types of the families jibe_… of a scrape, by name.
func ourFamilies(text string) map[string]string {
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (jibe_\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		found[m[1]] = m[2]
	}
	return found
}

func TestPromtoolFindsNothingWrongWithTheMetrics(t *testing.T) {
	t.Parallel()
	promtool := testenv.Program(t, "promtool", "prometheus")
	text := scrape(t, worked(t), "text/plain")
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	if len(ourFamilies(text)) < 30 {
		t.Errorf("the scrape has the families %v alone", ourFamilies(text))
	}
}

// rareFamilies are those that a run without a failure of their kind doesn't show. They are held
// to be in the guide, too: another test shows each.
var rareFamilies = map[string]string{
	"jibe_audit_omitted_total":                                          "counter",
	"jibe_certificate_expiry_timestamp_seconds":                         "gauge",
	"jibe_desired_problem_since_timestamp_seconds":                      "gauge",
	"jibe_drift_repairs_total":                                          "counter",
	"jibe_drift_since_timestamp_seconds":                                "gauge",
	"jibe_forge_report_outstanding_since_timestamp_seconds":             "gauge",
	"jibe_forge_reports_outstanding":                                    "gauge",
	"jibe_forge_reports_total":                                          "counter",
	"jibe_grant_duration_seconds":                                       "histogram",
	"jibe_hook_duration_seconds":                                        "histogram",
	"jibe_instance_held_since_timestamp_seconds":                        "gauge",
	"jibe_instances_waiting_for_window":                                 "gauge",
	"jibe_lcm_operation_failures_total":                                 "counter",
	"jibe_lcm_operations_open":                                          "gauge",
	"jibe_lcm_operations_waiting_for_instances":                         "gauge",
	"jibe_lcm_operations_waiting_for_instances_since_timestamp_seconds": "gauge",
	"jibe_lcm_operations_waiting_for_merge":                             "gauge",
	"jibe_lcm_operations_waiting_for_merge_since_timestamp_seconds":     "gauge",
	"jibe_vim_unlisted_instances":                                       "gauge",
	"jibe_login_failures_total":                                         "counter",
	"jibe_notification_failures_total":                                  "counter",
	"jibe_notification_last_failure_timestamp_seconds":                  "gauge",
	"jibe_notification_last_delivery_timestamp_seconds":                 "gauge",
	"jibe_orphaned_objects":                                             "gauge", // once a survey was made
	"jibe_git_served":                                                   "gauge",
	"jibe_git_served_waiting":                                           "gauge",
	"jibe_git_served_refused_total":                                     "counter",
	"jibe_package_repository_up":                                        "gauge",
	"jibe_project_instances":                                            "gauge",
	"jibe_project_vnfcs":                                                "gauge",
	"jibe_redis_epoch_timestamp_seconds":                                "gauge",
	"jibe_redis_memory_bytes":                                           "gauge",
	"jibe_redis_memory_limit_bytes":                                     "gauge",
	"jibe_redis_records":                                                "gauge",
	"jibe_redis_replicas":                                               "gauge",
	"jibe_redis_up":                                                     "gauge",
	"jibe_rollout_instances":                                            "gauge",
	"jibe_rollout_phase":                                                "gauge",
	"jibe_rollout_waiting_for_merge_since_timestamp_seconds":            "gauge",
	"jibe_vim_errors_total":                                             "counter",
	"jibe_vim_request_duration_seconds":                                 "histogram",
	"jibe_vim_watch_restarts_total":                                     "counter",
}

func TestTheGuideListsEveryMetricAndNoOther(t *testing.T) {
	t.Parallel()
	text := scrape(t, worked(t), "text/plain")
	shown := ourFamilies(text)
	guide, err := os.ReadFile(filepath.Join(process.Root(), "docs", "guide", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(jibe_\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(guide), -1) {
		listed[m[1]] = m[2]
	}
	for name, kind := range shown {
		if listed[name] != kind {
			t.Errorf("the server shows %s, a %s, and the guide lists it as %q", name, kind, listed[name])
		}
	}
	for name, kind := range listed {
		if shown[name] == "" && rareFamilies[name] != kind {
			t.Errorf("the guide lists %s, a %s, which no server shows", name, kind)
		}
	}
	for name := range rareFamilies {
		if listed[name] == "" {
			t.Errorf("the guide lacks %s", name)
		}
	}
	for _, line := range []string{
		`jibe_desired_instances{package_version="`, `jibe_desired_folder_instances{folder="."} 1`, `jibe_desired_folder_instances{folder="south"} 1`,
		`jibe_lcm_operation_phase_duration_seconds_count{phase="apply",type="INSTANTIATE"}`, `jibe_plan_steps_count{type="INSTANTIATE"} 1`,
		`jibe_steps_total{kind="apply",outcome="ok"}`, `jibe_git_duration_seconds_count{command="commit",outcome="ok"}`,
		`jibe_queue_wait_seconds_count{priority="commit"}`, `jibe_store_duration_seconds_count{operation="view"}`, `jibe_store_size_bytes `,
		`jibe_notification_delivery_duration_seconds_count{outcome="ok"}`, `jibe_vim_up{vim="cloud"} 1`, "jibe_build_info{",
	} {
		if !counts(text, line) {
			t.Errorf("after a run there is no %s", line)
		}
	}
}
