package drivers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
)

// AnsweredError is an error with which the VIM itself answered: it is there, and refuses the credentials.
type AnsweredError struct{ Err error }

func (e *AnsweredError) Error() string { return e.Err.Error() }
func (e *AnsweredError) Unwrap() error { return e.Err }

// Answered reports whether something answered at the VIM's address: it refused the credentials, showed a certificate
// that isn't trusted or valid, ended the TLS handshake with an alert, or doesn't speak TLS. Such a VIM can't be used, and
// isn't gone.
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
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}

	return alerted(err) || err != nil && strings.Contains(err.Error(), inClear)
}

// inClear is the text of http.ErrSchemeMismatch: what is rendered imports no net/http.
const inClear = "server gave HTTP response to HTTPS client"

// alerted reports whether a TLS alert ended the connection: the server's, such as for a client certificate that it
// doesn't take, or this side's, for what the server said. Package crypto/tls has no type of its own for them.
func alerted(err error) bool {
	ended, ok := errors.AsType[*net.OpError](err)
	return ok && (ended.Op == "remote error" || ended.Op == "local error")
}
