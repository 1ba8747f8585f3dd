package app

import "testing"

func TestLocalTokenRefusesAFileWithoutOneInClear(t *testing.T) {
	if _, err := LocalToken(t.TempDir()); err == nil {
		t.Error("no file, no error")
	}
}
