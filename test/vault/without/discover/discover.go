// Package discover stands in for the clients of clouds by which a server finds its peers: it finds
// none.
package discover

import (
	"errors"
	"log"
)

var errNot = errors.New("go-discover isn't built in")

// Provider finds peers.
type Provider interface{}

// Providers are none.
var Providers map[string]Provider

// Discover finds no peers.
type Discover struct{}

// Option is ignored.
type Option struct{}

// New returns one.
func New(...Option) (*Discover, error) { return &Discover{}, nil }

// WithProviders does nothing.
func WithProviders(map[string]Provider) Option { return Option{} }

// Addrs returns an error.
func (*Discover) Addrs(string, *log.Logger) ([]string, error) { return nil, errNot }

// Config says where to look.
type Config map[string]string

// String returns nothing.
func (Config) String() string { return "" }

// Parse returns an error.
func Parse(string) (Config, error) { return nil, errNot }
