// Package okta stands in for a client of a service of identities: a second factor by it is refused.
package okta

import (
	"context"
	"errors"
)

// ConfigSetter is ignored.
type ConfigSetter struct{}

// WithToken does nothing.
func WithToken(string) ConfigSetter { return ConfigSetter{} }

// WithOrgUrl does nothing.
func WithOrgUrl(string) ConfigSetter { return ConfigSetter{} }

// WithCache does nothing.
func WithCache(bool) ConfigSetter { return ConfigSetter{} }

// Configuration is that of a client.
type Configuration struct{ Context context.Context }

// NewConfiguration returns an error.
func NewConfiguration(...ConfigSetter) (*Configuration, error) {
	return nil, errors.New("okta isn't built in")
}

// APIClient is a client.
type APIClient struct {
	config        *Configuration
	UserAPI       UserAPI
	UserFactorAPI UserFactorAPI
}

// NewAPIClient returns one.
func NewAPIClient(c *Configuration) *APIClient { return &APIClient{config: c} }

// GetConfig returns its configuration.
func (c *APIClient) GetConfig() *Configuration { return c.config }

type (
	// UserAPI finds nobody.
	UserAPI struct{}
	// UserFactorAPI knows no factor.
	UserFactorAPI struct{}
	// User is nobody.
	User struct{}
	// UserFactorPush is none.
	UserFactorPush struct{}
	// Factor is none.
	Factor struct{ UserFactorPush *UserFactorPush }
	// Verification is none.
	Verification struct{ Links map[string]any }
	// Status is none.
	Status struct {
		UserFactorPushTransaction, UserFactorPushTransactionWaiting         *struct{}
		UserFactorPushTransactionRejected, UserFactorPushTransactionTimeout *struct{}
	}
	// Request has no answer.
	Request[T any] struct{}
)

// GetId returns nothing.
func (*User) GetId() string { return "" }

// GetId returns nothing.
func (*UserFactorPush) GetId() string { return "" }

// GetFactorResult returns nothing.
func (*Verification) GetFactorResult() string { return "" }

// Filter does nothing.
func (r Request[T]) Filter(string) Request[T] { return r }

// Execute returns an error.
func (Request[T]) Execute() (T, any, error) {
	var none T
	return none, nil, errors.New("okta isn't built in")
}

// ListUsers asks nobody.
func (UserAPI) ListUsers(context.Context) (r Request[[]User]) { return r }

// ListFactors asks nobody.
func (UserFactorAPI) ListFactors(context.Context, string) (r Request[[]Factor]) { return r }

// VerifyFactor asks nobody.
func (UserFactorAPI) VerifyFactor(context.Context, string, string) (r Request[*Verification]) {
	return r
}

// GetFactorTransactionStatus asks nobody.
func (UserFactorAPI) GetFactorTransactionStatus(context.Context, string, string, string) (r Request[*Status]) {
	return r
}
