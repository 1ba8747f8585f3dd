// Package gcpckms stands in for a cloud's client: a server that is told to unseal by it doesn't start.
package gcpckms

import (
	"context"
	"errors"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
)

// Names of settings.
const (
	EnvGcpCkmsWrapperCredsPath   = "EnvGcpCkmsWrapperCredsPath"
	EnvGcpCkmsWrapperProject     = "EnvGcpCkmsWrapperProject"
	EnvGcpCkmsWrapperLocation    = "EnvGcpCkmsWrapperLocation"
	EnvGcpCkmsWrapperKeyRing     = "EnvGcpCkmsWrapperKeyRing"
	EnvVaultGcpCkmsSealKeyRing   = "EnvVaultGcpCkmsSealKeyRing"
	EnvGcpCkmsWrapperCryptoKey   = "EnvGcpCkmsWrapperCryptoKey"
	EnvVaultGcpCkmsSealCryptoKey = "EnvVaultGcpCkmsSealCryptoKey"
)

// Wrapper refuses its configuration.
type Wrapper struct{ wrapping.Wrapper }

// NewWrapper returns one.
func NewWrapper() *Wrapper { return &Wrapper{} }

// SetConfig returns an error.
func (*Wrapper) SetConfig(context.Context, ...wrapping.Option) (*wrapping.WrapperConfig, error) {
	return nil, errors.New("gcpckms isn't built in")
}
