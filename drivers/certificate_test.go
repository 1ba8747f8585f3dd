package drivers_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers"
)

func TestACertificateThatIsNotValidNowRefusesNoOperation(t *testing.T) {
	seen := func(err error) error {
		return fmt.Errorf("Get: %w", &tls.CertificateVerificationError{Err: err})
	}
	var refused *drivers.RefusedError
	early := drivers.Untrusted(seen(x509.CertificateInvalidError{Reason: x509.Expired}))
	if !errors.Is(early, drivers.ErrUnavailable) || errors.As(early, &refused) || !strings.Contains(early.Error(), "clock") {
		t.Errorf("a certificate that isn't valid now: %v", early)
	}
	if again := drivers.Untrusted(early); again.Error() != early.Error() {
		t.Errorf("told twice: %v", again)
	}
	unknown := drivers.Untrusted(seen(x509.UnknownAuthorityError{}))
	if !errors.Is(unknown, drivers.ErrUnavailable) || !errors.As(unknown, &refused) {
		t.Errorf("a certificate of an unknown authority: %v", unknown)
	}
}
