// Package option stands in for the options of a cloud's client.
package option

// ClientOption is ignored.
type ClientOption struct{}

// WithUserAgent does nothing.
func WithUserAgent(string) ClientOption { return ClientOption{} }
