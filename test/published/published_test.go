package published

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// notification is one that breaks no rule, but for what change does.
func notification(t *testing.T, change map[string]any) []byte {
	t.Helper()
	n := map[string]any{}
	if err := json.Unmarshal([]byte(`{
		"id": "n", "notificationType": "VnfLcmOperationOccurrenceNotification", "subscriptionId": "s", "timeStamp": "2030-01-02T03:04:05Z",
		"notificationStatus": "RESULT", "operationState": "COMPLETED", "vnfInstanceId": "i", "operation": "SCALE", "isAutomaticInvocation": false,
		"verbosity": "FULL", "vnfLcmOpOccId": "o",
		"affectedVnfcs": [{"id": "a", "vduId": "V", "changeType": "ADDED", "computeResource": {"resourceId": "r"}, "metadata": {"any": "thing"}}],
		"_links": {"vnfInstance": {"href": "http://h/i"}, "subscription": {"href": "http://h/s"}, "vnfLcmOpOcc": {"href": "http://h/o"}}}`), &n); err != nil {
		t.Fatal(err)
	}
	maps.Copy(n, change)
	maps.DeleteFunc(n, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestANotificationThatBreaksARuleIsReported(t *testing.T) {
	Need(t)
	if err := Notification(notification(t, nil)); err != nil {
		t.Fatal(err)
	}
	problem := map[string]any{"status": 500, "detail": "d"}
	if err := Notification(notification(t, map[string]any{"operationState": "FAILED_TEMP", "error": problem})); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]map[string]any{
		`property "vnfLcmOpOccId" is missing`:              {"vnfLcmOpOccId": nil},
		`property "_links" is missing`:                     {"_links": nil},
		"value is not one of the allowed":                  {"operationState": "DONE"},
		`property "computeResource" is missing`:            {"affectedVnfcs": []any{map[string]any{"id": "a", "vduId": "V", "changeType": "ADDED"}}},
		`/timeStamp: string doesn't match`:                 {"timeStamp": "yesterday"},
		"SOL003 v3.7.1 knows /vnfState":                    {"vnfState": "STARTED"},
		`no notification of SOL002 or SOL003 is a "Other"`: {"notificationType": "Other"},
		"affectedVnfcs shall be absent":                    {"verbosity": "SHORT"},
		"error shall be there in":                          {"error": problem},
		"of a SCALE there shall not be":                    {"modificationsTriggeredByVnfPkgChange": map[string]any{"vnfdId": "d"}},
		"the link vnfInstance is":                          {"vnfInstanceId": "j"},
	} {
		if err := Notification(notification(t, change)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, which doesn't say %q", slices.Collect(maps.Keys(change)), err, says)
		}
	}
}

func TestMissingDefinitionsSkipAndSaySoUnlessTheyAreRequired(t *testing.T) {
	t.Setenv(EnvDefinitions, "") // whoever runs this test may have said
	empty, full := t.TempDir(), t.TempDir()
	for _, edition := range []string{edition331, edition371} {
		if err := os.Mkdir(filepath.Join(full, edition), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, definitions, require string
		skipped, failed            bool
	}{
		{name: "where somebody says", definitions: full},
		{name: "where somebody says, required", definitions: full, require: "1"},
		{name: "not where somebody says", definitions: empty, failed: true},
		{name: "not where somebody says, required", definitions: empty, require: "1", failed: true},
		{name: "nobody says", skipped: missing() != nil},
		{name: "nobody says, required", require: "1", failed: missing() != nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(EnvDefinitions, test.definitions)
			t.Setenv(EnvRequire, test.require)
			r := &kit.Recorder{TB: t}
			Need(r)
			if skipped, failed := r.Ended(); skipped != test.skipped || failed != test.failed {
				t.Errorf("skipped %q, failed %q; want %v, %v", r.WhySkipped, r.WhyFailed, test.skipped, test.failed)
			}
			if said := r.WhySkipped + r.WhyFailed; said != "" && !strings.Contains(said, EnvDefinitions) {
				t.Errorf("%q doesn't say what to do", said)
			}
		})
	}
}

func TestEveryCorrectionOfTheDefinitionsStillCorrectsSomething(t *testing.T) {
	kit.Long(t)
	Need(t)
	demanded := map[string]bool{}
	misplacements, singles := 0, 0
	for _, file := range []string{"SOL002/VNFLifecycleManagement/VNFLifecycleManagement.yaml", "SOL003/VNFLifecycleManagement/VNFLifecycleManagement.yaml"} {
		doc, err := loader().LoadFromFile(filepath.Join(folder(), edition371, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		eachSchema(doc, func(s *openapi3.Schema) {
			if was := s.Properties["lcmCoordinations"]; was != nil {
				if single(s); s.Properties["lcmCoordinations"] != was {
					singles++
				}
			}
			for _, attribute := range slices.Clone(s.Required) {
				undemanded(s)
				demanded[attribute] = demanded[attribute] || !slices.Contains(s.Required, attribute)
			}
			if before := len(s.OneOf); before > 0 {
				if misplaced(s); len(s.OneOf) < before {
					misplacements++
				}
			}
		})
	}
	for _, more := range beyond331 {
		if !demanded[more.attribute] {
			t.Errorf("%s isn't demanded any more: take it out of the table", more.attribute)
		}
	}
	if singles == 0 {
		t.Error("no list is described as one structure any more")
	}
	if misplacements == 0 {
		t.Error("nothing is misplaced any more")
	}
}

func TestEveryInterfaceHasDescriptionsThatTellGoodFromBad(t *testing.T) {
	kit.Long(t)
	Need(t)
	get := &http.Request{Method: http.MethodGet, URL: &url.URL{}}
	answer := func(status int, body string) Answer {
		return Answer{status, http.Header{"Content-Type": {"application/json"}, "Location": {"https://h/x"}}, []byte(body)}
	}
	for _, tt := range []struct {
		i               Interface
		path, good, bad string
	}{
		{Lifecycle, "/vnf_instances", `[]`, `[{"id": 1}]`},
		{Packages, "/onboarded_vnf_packages", `[]`, `[{"id": 1}]`},
		{Packages, "/subscriptions/s", `{"id": "s", "callbackUri": "https://h", "_links": {"self": {"href": "https://h/s"}}}`, `{"id": "s"}`},
		{Grants, "/grants/g", `{"id": "g", "vnfInstanceId": "i", "vnfLcmOpOccId": "o", "_links": {"vnfLcmOpOcc": {"href": "https://h/o"},
			"vnfInstance": {"href": "https://h/i"}, "self": {"href": "https://h/g"}}}`, `{"id": "g", "zones": 1}`},
		{Coordination, "/coordinations/c", `{"id": "c", "coordinationResult": "CONTINUE", "vnfInstanceId": "i", "vnfLcmOpOccId": "o", "lcmOperationType": "HEAL",
			"coordinationActionName": "a", "_links": {"self": {"href": "https://h/c"}, "vnfLcmOpOcc": {"href": "https://h/o"}, "vnfInstance": {"href": "https://h/i"}}}`, `{"id": "c"}`},
	} {
		if held, err := tt.i.Answer(tt.path, get, answer(200, tt.good), nil); !held || err != nil {
			t.Errorf("%s: %s: held %v, %v", tt.i, tt.good, held, err)
		}
		if _, err := tt.i.Answer(tt.path, get, answer(200, tt.bad), nil); err == nil {
			t.Errorf("%s: %s passed", tt.i, tt.bad)
		}
	}
	for _, tt := range []struct {
		i          Interface
		path, body string
		good       bool
	}{
		{Lifecycle, "/vnf_instances/i/heal", `{"cause": "it hangs"}`, true},
		{Lifecycle, "/vnf_instances/i/heal", `{"cause": 1}`, false},
		{Lifecycle, "/vnf_instances/i/heal", `{"kause": "it hangs"}`, false},
		{Packages, "/subscriptions", `{"callbackUri": "https://h"}`, true},
		{Packages, "/subscriptions", `{}`, false},
		{Grants, "/grants", `{"vnfInstanceId": "i", "vnfLcmOpOccId": "o", "vnfdId": "d", "operation": "HEAL", "isAutomaticInvocation": false,
			"_links": {"vnfLcmOpOcc": {"href": "https://h/o"}, "vnfInstance": {"href": "https://h/i"}}}`, true},
		{Grants, "/grants", `{"vnfInstanceId": "i"}`, false},
		{Coordination, "/coordinations", `{"vnfInstanceId": "i", "vnfLcmOpOccId": "o", "lcmOperationType": "HEAL", "coordinationActionName": "a",
			"_links": {"vnfLcmOpOcc": {"href": "https://h/o"}, "vnfInstance": {"href": "https://h/i"}}}`, true},
		{Coordination, "/coordinations", `{"lcmOperationType": "REST"}`, false},
	} {
		held, err := tt.i.Request(http.MethodPost, tt.path, []byte(tt.body))
		if tt.good && (!held || err != nil) || !tt.good && err == nil {
			t.Errorf("%s %s: %s: held %v, %v", tt.i, tt.path, tt.body, held, err)
		}
	}
	onboarded := `{"id": "n", "notificationType": "VnfPackageOnboardingNotification", "subscriptionId": "s", "timeStamp": "2030-01-02T03:04:05Z", "vnfPkgId": "p", "vnfdId": "d",
		"vnfmInfo": ["jibe"], "_links": {"vnfPackage": {"href": "http://h/p"}, "vnfPackageByVnfdId": {"href": "http://h/d"}, "subscription": {"href": "http://h/s"}}}`
	if err := Notification([]byte(onboarded)); err != nil {
		t.Error(err)
	}
	if err := Notification([]byte(strings.Replace(onboarded, "vnfPkgId", "pkgId", 1))); err == nil {
		t.Error("a notification of no package passed")
	}
}
