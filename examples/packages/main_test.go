package packages

import (
	"os"
	"testing"

	"github.com/jibe-vnfm/jibe/hooks/confine"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == confine.Command { // hooks are run by it, as by jibe
		os.Exit(confine.Main())
	}
	os.Exit(m.Run())
}
