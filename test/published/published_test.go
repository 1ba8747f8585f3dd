package published

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
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

func TestANotificationThatBreaksARuleIsTold(t *testing.T) {
	Need(t)
	if err := Notification(notification(t, nil)); err != nil {
		t.Fatal(err)
	}
	problem := map[string]any{"status": 500, "detail": "d"}
	if err := Notification(notification(t, map[string]any{"operationState": "FAILED_TEMP", "error": problem})); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]map[string]any{
		`property "vnfLcmOpOccId" is missing`:    {"vnfLcmOpOccId": nil},
		`property "_links" is missing`:           {"_links": nil},
		"value is not one of the allowed":        {"operationState": "DONE"},
		`property "computeResource" is missing`:  {"affectedVnfcs": []any{map[string]any{"id": "a", "vduId": "V", "changeType": "ADDED"}}},
		`/timeStamp: string doesn't match`:       {"timeStamp": "yesterday"},
		"SOL003 v3.7.1 knows /vnfState":          {"vnfState": "STARTED"},
		`no notification of SOL002 is a "Other"`: {"notificationType": "Other"},
		"affectedVnfcs shall be absent":          {"verbosity": "SHORT"},
		"error shall be there in":                {"error": problem},
		"of a SCALE there shall not be":          {"modificationsTriggeredByVnfPkgChange": map[string]any{"vnfdId": "d"}},
		"the link vnfInstance is":                {"vnfInstanceId": "j"},
	} {
		if err := Notification(notification(t, change)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, which doesn't say %q", slices.Collect(maps.Keys(change)), err, says)
		}
	}
}
