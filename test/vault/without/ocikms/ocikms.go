// Package ocikms stands in for a cloud's client: a server that is told to unseal by it doesn't start.
package ocikms

import (
	"context"
	"errors"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
)

// Names of settings.
const (
	EnvOciKmsWrapperKeyId                = "EnvOciKmsWrapperKeyId"
	EnvVaultOciKmsSealKeyId              = "EnvVaultOciKmsSealKeyId"
	EnvOciKmsWrapperCryptoEndpoint       = "EnvOciKmsWrapperCryptoEndpoint"
	EnvVaultOciKmsSealCryptoEndpoint     = "EnvVaultOciKmsSealCryptoEndpoint"
	EnvOciKmsWrapperManagementEndpoint   = "EnvOciKmsWrapperManagementEndpoint"
	EnvVaultOciKmsSealManagementEndpoint = "EnvVaultOciKmsSealManagementEndpoint"
	KmsConfigKeyId                       = "KmsConfigKeyId"
	KmsConfigCryptoEndpoint              = "KmsConfigCryptoEndpoint"
	KmsConfigManagementEndpoint          = "KmsConfigManagementEndpoint"
)

// Wrapper refuses its configuration.
type Wrapper struct{ wrapping.Wrapper }

// NewWrapper returns one.
func NewWrapper() *Wrapper { return &Wrapper{} }

// SetConfig returns an error.
func (*Wrapper) SetConfig(context.Context, ...wrapping.Option) (*wrapping.WrapperConfig, error) {
	return nil, errors.New("ocikms isn't built in")
}
