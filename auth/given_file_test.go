package auth_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jibe-vnfm/jibe/auth"
)

// Kubernetes shows a Secret as a file of root that the pod's group may read.
func TestATokenFileOfSomebodyElseMayBeReadByThisProcessesGroupAndByNobodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file that is somebody else's")
	}
	for _, test := range []struct {
		uid, gid int
		mode     os.FileMode
		good     bool
	}{
		{os.Geteuid(), 65532, 0o400, true},
		{os.Geteuid(), 65532, 0o440, false}, // it is this user's to say
		{65531, 65532, 0o440, true},
		{65531, 65532, 0o460, false},
		{65531, 65532, 0o444, false},
		{65531, 0, 0o440, false}, // of root's group is whoever administers the machine
	} {
		file := filepath.Join(t.TempDir(), "tokens.yaml")
		if err := os.WriteFile(file, []byte("tokens: [{name: a, role: admin, token: 0123456789abcdef0123}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(file, test.uid, test.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, test.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := auth.OpenIdentities(file, nil); (err == nil) != test.good {
			t.Errorf("of %d:%d with mode %o: %v", test.uid, test.gid, test.mode, err)
		}
	}
}
