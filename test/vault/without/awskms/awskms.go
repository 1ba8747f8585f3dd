// Package awskms stands in for a cloud's client: a server that is told to unseal by it doesn't start.
package awskms

import (
	"context"
	"errors"

	"github.com/hashicorp/go-hclog"
	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
)

// Names of settings.
const (
	EnvAwsKmsWrapperKeyId   = "EnvAwsKmsWrapperKeyId"
	EnvVaultAwsKmsSealKeyId = "EnvVaultAwsKmsSealKeyId"
)

// Wrapper refuses its configuration.
type Wrapper struct{ wrapping.Wrapper }

// NewWrapper returns one.
func NewWrapper() *Wrapper { return &Wrapper{} }

// SetConfig returns an error.
func (*Wrapper) SetConfig(context.Context, ...wrapping.Option) (*wrapping.WrapperConfig, error) {
	return nil, errors.New("awskms isn't built in")
}

// WithDisallowEnvVars does nothing.
func WithDisallowEnvVars(bool) wrapping.Option { return nil }

// WithLogger does nothing.
func WithLogger(hclog.Logger) wrapping.Option { return nil }
