package browser_test

import (
	"os"
	"testing"

	"github.com/jibe-vnfm/jibe/test/browser"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }
