package drivers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// UntrustedError is returned where a VIM shows a certificate that its connection doesn't
// trust. No request was sent to it. It is a [*RefusedError] to an operation that hasn't
// begun, as waiting rarely helps, and [ErrUnavailable] to what runs, as certificates are
// renewed.
type UntrustedError struct{ err error }

// Untrusted makes an [*UntrustedError] of the error of a request whose server's certificate
// wasn't trusted. A certificate that isn't valid now is only [ErrUnavailable], also to an operation that
// hasn't begun: it may be this machine's clock that is wrong, and else the certificate will be renewed. It
// returns any other error as it is.
func Untrusted(err error) error {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		if errors.Is(err, ErrUnavailable) {
			return err
		}
		return fmt.Errorf("%w: the VIM's certificate isn't valid at what is now by the clock of this machine: renew it, or set the clock: %w", ErrUnavailable, err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		return err
	}
	if _, known := errors.AsType[*UntrustedError](err); known {
		return err
	}
	return &UntrustedError{err}
}

func (e *UntrustedError) Error() string {
	return "the VIM's certificate isn't trusted: " + e.err.Error() +
		": give the certificate of its CA, as caCert in its file under vims/ or as interfaceInfo.ssl_ca_cert of vimConnectionInfo"
}

// Unwrap makes it both.
func (e *UntrustedError) Unwrap() []error {
	return []error{ErrUnavailable, &RefusedError{Field: "vim", Reason: e.Error()}, e.err}
}
