package hooks_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == confine.Command { // this program is the launcher, too, as jibe is
		os.Exit(confine.Main())
	}
	if filepath.Base(os.Args[0]) == hostileName { // and a program of a package
		hostile()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// confined has hooks confined by this test program.
func confined() hooks.Confinement {
	return hooks.Confinement{Launcher: []string{os.Args[0], confine.Command}}
}
