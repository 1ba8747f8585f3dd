package drivers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// AnsweredError is an error with which the VIM itself answered: it is there, and refuses the credentials.
type AnsweredError struct{ Err error }

func (e *AnsweredError) Error() string { return e.Err.Error() }
func (e *AnsweredError) Unwrap() error { return e.Err }

// Answered reports whether something answered at the VIM's address: it refused the credentials, or showed a certificate
// that isn't trusted or valid. Such a VIM can't be used, and isn't gone.
func Answered(err error) bool {
	if _, ok := errors.AsType[*AnsweredError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*UntrustedError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.CertificateInvalidError](err)
	return ok
}
