package app_test

import (
	"os"
	"testing"

	"github.com/jibe-vnfm/jibe/hooks/confine"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == confine.Command { // the servers of these tests run hooks by it, as jibe does by itself
		os.Exit(confine.Main())
	}

	code := m.Run()
	if laidAt != "" {
		_ = os.RemoveAll(laidAt)
	}
	os.Exit(code)
}
