package kubernetes

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jibe-vnfm/jibe/drivers"
)

// What the API server answers in these words is what it was seen to answer.
func TestWhatAnAPIServerRefusesOnlyForNowIsAskedForAgain(t *testing.T) {
	const key = "Service/amf/web"
	invalid := func(detail string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), []string{""}, detail)})
	}
	for name, c := range map[string]struct {
		err   error
		later bool
	}{
		"just started: no addresses yet": {invalid("failed to allocate IP: allocator not ready"), true},
		"a new namespace":                {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "probe", errors.New(`error looking up service account amf/default: serviceaccount "default" not found`)), true},
		"an address that can't be":       {invalid("failed to allocate IP 10.0.0.1: the provided IP is not in the valid range"), false},
	} {
		err := classify(key, c.err)
		var refused *drivers.RefusedError
		if later := errors.Is(err, drivers.ErrUnavailable); later != c.later || errors.As(err, &refused) == c.later {
			t.Errorf("%s: asked for again: %t, want %t: %v", name, later, c.later, err)
		}
	}
}
