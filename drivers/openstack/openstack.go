// Package openstack is the driver for OpenStack.
//
// One VNF is one Heat stack (another generation is a second one beside it), a unit is
// a server. It renders a package's templates through package hot, brings stacks to
// them through Heat, and reports from Heat, Nova, Neutron and Cinder what exists. It
// never decides, never waits, never lets Heat choose which server goes, and makes
// nothing outside its stacks.
package openstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// Type is the vimType of ETSI NFV-SOL003 for OpenStack.
const Type = "ETSINFV.OPENSTACK_KEYSTONE.V_3"

// Options tune a driver. The zero value serves.
type Options struct {
	// Log should carry the VIM's name already.
	Log *slog.Logger
	// Busy is the pause between two looks at the VIM while something is in progress
	// there, Rest that while nothing is; 0 is a second, and 30 seconds.
	Busy, Rest time.Duration
	// StackTimeout is how long Heat may work on a stack before it gives up; 0 is 20
	// minutes. Heat counts in minutes.
	StackTimeout time.Duration
	// RequestTimeout bounds one request; 0 is a minute.
	RequestTimeout time.Duration
	// DigestKey keys the digests that stand in tags and metadata, so that nobody can guess
	// secrets among the parameters from them. It must not change: all would be applied anew.
	DigestKey []byte
	// Installation is the id of this installation of Jibe. Stacks of another one are never
	// touched. "" makes no difference between installations.
	Installation string
	// Parallel bounds the requests of the driver that are under way; 0 is 16.
	Parallel int
	// Egress says which addresses the cloud's services may have; nil is the strictest guard.
	Egress *egress.Guard
	// Wrap, where it isn't nil, is put around what sends each request, to observe it: each try
	// of a request that is repeated.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Driver speaks for one project of one OpenStack.
type Driver struct {
	vim   drivers.VIM
	log   *slog.Logger
	opts  Options
	cloud *cloud

	life   context.Context // of the driver: what it does by itself ends with it
	end    context.CancelFunc
	poller *poller
	known  knownUpdates
}

var (
	_ drivers.Driver  = (*Driver)(nil)
	_ drivers.Watcher = (*Driver)(nil)
)

// New makes a driver for the VIM. It asks the VIM nothing yet: an error means
// that what it was given can't be a connection.
func New(vim drivers.VIM, o Options) (*Driver, error) {
	o = o.withDefaults()
	if err := check(vim); err != nil {
		return nil, fmt.Errorf("VIM %s: %w", vim.Name, err)
	}
	d := &Driver{vim: vim, log: o.Log, opts: o, poller: newPoller()}
	d.life, d.end = context.WithCancel(context.Background())
	var err error
	if d.cloud, err = newCloud(d.life, vim, o); err != nil {
		d.end()
		return nil, fmt.Errorf("VIM %s: %w", vim.Name, err)
	}
	return d, nil
}

// Close ends what the driver does by itself, and returns when that has ended. The driver sends
// no request afterwards: its methods return an error that wraps [drivers.ErrUnavailable].
// Closing it twice is the same as once.
func (d *Driver) Close() error {
	d.poller.mu.Lock() // no looking begins between the end and the wait
	d.end()
	d.poller.mu.Unlock()
	d.poller.looking.Wait()
	d.cloud.close()
	return nil
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, x := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&o.Busy, time.Second}, {&o.Rest, 30 * time.Second}, {&o.StackTimeout, 20 * time.Minute}, {&o.RequestTimeout, time.Minute}} {
		if *x.value <= 0 {
			*x.value = x.standard
		}
	}
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	return o
}

// check refuses a VIM that lacks what a connection needs.
func check(vim drivers.VIM) error {
	switch {
	case vim.Endpoint == "":
		return errors.New("no endpoint is given: it is Keystone's address (https://…/v3)")
	case !strings.HasPrefix(vim.Endpoint, "https://") && !strings.HasPrefix(vim.Endpoint, "http://"):
		return fmt.Errorf("endpoint %q is not an http(s) URL", vim.Endpoint)
	case vim.ApplicationCredential != "" && vim.ApplicationCredentialSecret == "":
		return errors.New("the application credential has no secret")
	case vim.ApplicationCredential == "" && (vim.Username == "" || vim.Password == ""):
		return errors.New("neither an application credential nor username and password are given")
	case vim.ApplicationCredential == "" && vim.Project == "":
		return errors.New("no project is given, which a username needs")
	}
	return nil
}
