// Package notify is the subscriptions to lifecycle change notifications and
// their delivery (SOL003 v3.3.1 clauses 5.4.18 to 5.4.20 and 5.5.2.15 to 5.5.2.20).
//
// It reads the outbox that package lcm/oplog writes and keeps, for every
// subscription, a cursor in the store: what was delivered to it. A notification
// is delivered at least once, in order per subscription, across restarts; its id
// is the same in every delivery, so that a subscriber can recognize a repetition. A
// subscriber that doesn't answer holds up nobody but itself.
//
// It never writes operation records, and never shows a subscriber's credentials
// to anyone but the subscriber.
package notify

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Errors that callers decide on. An unknown subscription is store.ErrNotFound.
var (
	// ErrInvalid is returned for a request that can't be accepted as it is; the API
	// answers 400.
	ErrInvalid = errors.New("subscription request is not acceptable")
	// ErrCallback is returned where the test of the callback failed; the API answers 422.
	ErrCallback = errors.New("callback URI didn't pass its test")
)

// The values of verbosity (LcmOpOccNotificationVerbosityType).
const (
	Full  = "FULL"
	Short = "SHORT"
)

// Request is LccnSubscriptionRequest (SOL003 clause 5.5.2.15).
type Request struct {
	Filter         *Filter         `json:"filter,omitempty"`
	CallbackURI    string          `json:"callbackUri"`
	Authentication *Authentication `json:"authentication,omitempty"`
	Verbosity      string          `json:"verbosity,omitempty"`
}

// Subscription is LccnSubscription (SOL003 clause 5.5.2.16). It has no credentials.
type Subscription struct {
	ID          string  `json:"id"`
	Filter      *Filter `json:"filter,omitempty"`
	CallbackURI string  `json:"callbackUri"`
	Verbosity   string  `json:"verbosity"`
	Links       struct {
		Self Link `json:"self"`
	} `json:"_links"`
}

// Link is Link of SOL013 clause 5.2.4.
type Link struct {
	Href string `json:"href"`
}

// The authentication types that Jibe has towards subscribers.
const (
	Basic             = "BASIC"
	ClientCredentials = "OAUTH2_CLIENT_CREDENTIALS"
)

// Authentication is SubscriptionAuthentication (SOL013 clause 8.3.4). In a stored
// record, both passwords are encrypted.
type Authentication struct {
	AuthType          []string                 `json:"authType"`
	Basic             *BasicParams             `json:"paramsBasic,omitempty"`
	ClientCredentials *ClientCredentialsParams `json:"paramsOauth2ClientCredentials,omitempty"`
}

// BasicParams are the parameters of BASIC.
type BasicParams struct {
	UserName string `json:"userName"`
	Password string `json:"password"`
}

// ClientCredentialsParams are the parameters of OAUTH2_CLIENT_CREDENTIALS.
type ClientCredentialsParams struct {
	ClientID       string `json:"clientId"`
	ClientPassword string `json:"clientPassword"`
	TokenEndpoint  string `json:"tokenEndpoint"`
}

// String keeps credentials out of logs and errors.
func (a *Authentication) String() string { return fmt.Sprint("authentication by ", a.AuthType) }

// GoString returns the same as String.
func (a *Authentication) GoString() string { return a.String() }

// Secrets encrypts what must not be stored in clear, and gives it back.
type Secrets interface {
	// Encrypt returns a reference that holds the secret unreadably.
	Encrypt(clear string) (reference string, err error)
	// Resolve returns the secret that a reference stands for.
	Resolve(reference string) (clear string, err error)
}

// record is the store's record of a subscription.
type record struct {
	ID             string          `json:"id"`
	Filter         *Filter         `json:"filter,omitempty"`
	CallbackURI    string          `json:"callbackUri"`
	Authentication *Authentication `json:"authentication,omitempty"`
	Verbosity      string          `json:"verbosity"`
}

func (r *record) view(base string) *Subscription {
	s := &Subscription{ID: r.ID, Filter: r.Filter, CallbackURI: r.CallbackURI, Verbosity: r.Verbosity}
	s.Links.Self.Href = base + "/vnflcm/v2/subscriptions/" + r.ID
	return s
}

// validate refuses a request that isn't acceptable. Its errors name the attribute.
func (r *Request) validate() error {
	if err := checkURI("callbackUri", r.CallbackURI); err != nil {
		return err
	}
	switch r.Verbosity {
	case "", Full, Short:
	default:
		return fmt.Errorf("%w: verbosity %q is neither %s nor %s", ErrInvalid, r.Verbosity, Full, Short)
	}
	if err := r.Filter.validate(); err != nil {
		return err
	}
	return r.Authentication.validate()
}

func (a *Authentication) validate() error {
	if a == nil {
		return nil
	}
	if len(a.AuthType) == 0 {
		return fmt.Errorf("%w: authentication.authType is missing", ErrInvalid)
	}
	for _, t := range a.AuthType {
		switch t {
		case Basic:
			if a.Basic == nil || a.Basic.UserName == "" {
				return fmt.Errorf("%w: authentication.paramsBasic with userName and password must go with authType %s", ErrInvalid, t)
			}
			if strings.Contains(a.Basic.UserName, ":") {
				return fmt.Errorf("%w: authentication.paramsBasic.userName must not contain a colon (RFC 7617)", ErrInvalid)
			}
		case ClientCredentials:
			p := a.ClientCredentials
			if p == nil || p.ClientID == "" {
				return fmt.Errorf("%w: authentication.paramsOauth2ClientCredentials with clientId, clientPassword and tokenEndpoint must go with authType %s", ErrInvalid, t)
			}
			if err := checkURI("authentication.paramsOauth2ClientCredentials.tokenEndpoint", p.TokenEndpoint); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: authentication.authType %q is not supported; use %s or %s", ErrInvalid, t, Basic, ClientCredentials)
		}
	}
	return nil
}

// maxURI is the length in bytes that a URI may have, as the store keeps it.
const maxURI = 2048

// checkURI accepts only URIs that a client may have Jibe call: http or https, with a host,
// and without credentials, which would be stored and shown in clear.
func checkURI(attribute, s string) error {
	if s == "" {
		return fmt.Errorf("%w: %s is missing", ErrInvalid, attribute)
	}
	if len(s) > maxURI {
		return fmt.Errorf("%w: %s is longer than %d bytes", ErrInvalid, attribute, maxURI)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s is no URI", ErrInvalid, attribute)
	case !slices.Contains([]string{"http", "https"}, u.Scheme):
		return fmt.Errorf("%w: %s must begin with http:// or https://", ErrInvalid, attribute)
	case u.Hostname() == "":
		return fmt.Errorf("%w: %s names no host", ErrInvalid, attribute)
	case u.User != nil:
		return fmt.Errorf("%w: %s must not contain credentials; use authentication", ErrInvalid, attribute)
	case u.Fragment != "":
		return fmt.Errorf("%w: %s must not have a fragment", ErrInvalid, attribute)
	}
	return nil
}
