// Package cloudsqlconn stands in for a cloud's client: no database is reached by it.
package cloudsqlconn

type (
	// Option is ignored.
	Option struct{}
	// DialOption is ignored.
	DialOption struct{}
)

// WithIAMAuthN does nothing.
func WithIAMAuthN() Option { return Option{} }

// WithCredentialsJSON does nothing.
func WithCredentialsJSON([]byte) Option { return Option{} }

// WithDefaultDialOptions does nothing.
func WithDefaultDialOptions(...DialOption) Option { return Option{} }

// WithPrivateIP does nothing.
func WithPrivateIP() DialOption { return DialOption{} }

// WithPSC does nothing.
func WithPSC() DialOption { return DialOption{} }
