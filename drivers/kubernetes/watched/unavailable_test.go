package watched

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers"
)

func TestAClusterThatRefusesTheCredentialsHasAnswered(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		err      error
		answered bool
	}{
		"401":           {apierrors.NewUnauthorized("no"), true},
		"403":           {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no")), true},
		"429":           {apierrors.NewTooManyRequests("later", 1), false},
		"no connection": {errors.New("connection refused"), false},
	} {
		if err := Unavailable(c.err); !errors.Is(err, drivers.ErrUnavailable) || drivers.Answered(err) != c.answered {
			t.Errorf("%s: %v, answered: %v", name, err, drivers.Answered(err))
		}
	}
}
