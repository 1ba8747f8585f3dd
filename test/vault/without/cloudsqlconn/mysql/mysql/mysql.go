// Package mysql stands in for a cloud's client: no database is reached by it.
package mysql

import (
	"errors"

	"cloud.google.com/go/cloudsqlconn"
)

// RegisterDriver returns an error.
func RegisterDriver(string, ...cloudsqlconn.Option) (func() error, error) {
	return nil, errors.New("cloudsqlconn isn't built in")
}
