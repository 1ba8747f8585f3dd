package management

import (
	"context"
	"errors"
)

// Runner runs programs.
type Runner struct {
	// Dir is where working copies of packages are made while a program runs.
	Dir string
	// User is whom programs run as where Jibe runs as root; "" is "nobody".
	User string
}

// Run runs the program to its end, and returns what it wrote. Where it can't be
// started, or fails, the error is a [*FailedError]. When ctx ends, the whole process
// group is killed and the context's error returned.
func (r *Runner) Run(ctx context.Context, c Call) (Output, error) {
	return Output{}, errors.New("not written yet")
}
