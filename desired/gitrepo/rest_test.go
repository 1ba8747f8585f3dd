package gitrepo

import "testing"

func TestARefThatAnotherReplicaMovesAtThatMomentIsNoReasonToPushApart(t *testing.T) {
	t.Parallel()

	for said, overtaken := range map[string]bool{
		"[remote rejected] (reference already exists)":     true,
		"[remote rejected] (failed to update ref)":         true,
		"[remote rejected] (incorrect old value provided)": true,
		"[remote rejected] (pre-receive hook declined)":    false,
		"[remote rejected] (hook declined)":                false,
		"[rejected] (fetch first)":                         false,
	} {
		var refused refReport
		for _, r := range refReports("!\trefs/jibe/packages/a:refs/jibe/packages/a\t" + said + "\n") {
			refused = r
		}
		if refused.overtaken() != overtaken {
			t.Errorf("%s is taken for overtaken: %v", said, !overtaken)
		}
	}
}
