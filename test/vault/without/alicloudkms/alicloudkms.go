// Package alicloudkms stands in for a cloud's client: a server that is told to unseal by it doesn't start.
package alicloudkms

import (
	"context"
	"errors"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
)

// Names of settings.
const (
	EnvAliCloudKmsWrapperKeyId   = "EnvAliCloudKmsWrapperKeyId"
	EnvVaultAliCloudKmsSealKeyId = "EnvVaultAliCloudKmsSealKeyId"
)

// Wrapper refuses its configuration.
type Wrapper struct{ wrapping.Wrapper }

// NewWrapper returns one.
func NewWrapper() *Wrapper { return &Wrapper{} }

// SetConfig returns an error.
func (*Wrapper) SetConfig(context.Context, ...wrapping.Option) (*wrapping.WrapperConfig, error) {
	return nil, errors.New("alicloudkms isn't built in")
}
