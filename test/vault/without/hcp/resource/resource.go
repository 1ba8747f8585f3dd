// Package resource stands in for a cloud's client: a server that is told to connect to it doesn't
// start.
package resource

import "errors"

// Resource is none.
type Resource struct{}

// FromString returns an error.
func FromString(string) (Resource, error) {
	return Resource{}, errors.New("hcp-sdk-go isn't built in")
}
