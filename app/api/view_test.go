package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

func TestARefusalBecomesTheStatusThatAClientCanActOn(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		err    error
		status int
	}{
		"a level out of range":     {&drivers.RefusedError{Field: "levels", Reason: "r"}, http.StatusBadRequest},
		"an autoscaler rules":      {&drivers.RefusedError{Field: "levels.web", Reason: "r", Conflict: true}, http.StatusConflict},
		"a VIM that doesn't exist": {&drivers.RefusedError{Field: "vim", Reason: "r"}, http.StatusUnprocessableEntity},
		"hooks that may not run":   {&drivers.RefusedError{Field: "hooks", Reason: "r"}, http.StatusUnprocessableEntity},
	} {
		var invalid *rest.InvalidError
		if err := inAPIWords(c.err); !errors.As(err, &invalid) || invalid.Status != c.status || invalid.Detail != "r" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := inAPIWords(&drivers.RefusedError{Object: "DaemonSet/amf/agent", Reason: "runs on every node"}); err.Error() != "DaemonSet/amf/agent: runs on every node" {
		t.Errorf("the object isn't named: %v", err)
	}
	if err := inAPIWords(packages.ErrUnknown); !errors.Is(err, sol.ErrUnknownPackage) {
		t.Errorf("an unknown package: %v", err)
	}
	var invalid *rest.InvalidError
	if err := inAPIWords(errors.Join(fmt.Errorf("%w: a was changed", packages.ErrUnsound), &drivers.RefusedError{Field: "vnfdId", Reason: "r"})); !errors.As(err, &invalid) ||
		invalid.Status != http.StatusUnprocessableEntity || !strings.Contains(invalid.Detail, "a was changed") {
		t.Errorf("a package with a wrong checksum: %v", err)
	}
	if err := inAPIWords(desired.ErrUnavailable); !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("a repository that is away: %v", err)
	}
	if err := inAPIWords(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

var _ sol.View = apiView{}
