// Package azurekeyvault stands in for a cloud's client: a server that is told to unseal by it doesn't start.
package azurekeyvault

import (
	"context"
	"errors"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
)

// Names of settings.
const (
	EnvAzureKeyVaultWrapperVaultName = "EnvAzureKeyVaultWrapperVaultName"
	EnvVaultAzureKeyVaultVaultName   = "EnvVaultAzureKeyVaultVaultName"
	EnvAzureKeyVaultWrapperKeyName   = "EnvAzureKeyVaultWrapperKeyName"
	EnvVaultAzureKeyVaultKeyName     = "EnvVaultAzureKeyVaultKeyName"
)

// Wrapper refuses its configuration.
type Wrapper struct{ wrapping.Wrapper }

// NewWrapper returns one.
func NewWrapper() *Wrapper { return &Wrapper{} }

// SetConfig returns an error.
func (*Wrapper) SetConfig(context.Context, ...wrapping.Option) (*wrapping.WrapperConfig, error) {
	return nil, errors.New("azurekeyvault isn't built in")
}

// WithDisallowEnvVars does nothing.
func WithDisallowEnvVars(bool) wrapping.Option { return nil }
