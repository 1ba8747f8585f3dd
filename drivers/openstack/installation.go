package openstack

import (
	"fmt"

	"github.com/jibe-vnfm/jibe/drivers"
)

// foreign says whether another installation of Jibe has the stack. One on which none is named
// was made by an earlier version: by the name, which a project has once, it is the instance's,
// and the next update of it names this installation.
func (d *Driver) foreign(s *stackRecord) bool {
	named := s.tag(tagInstallation)
	return d.opts.Installation != "" && named != "" && named != d.opts.Installation
}

// own refuses a stack that another installation has; nil is no stack.
func (d *Driver) own(s *stackRecord) error {
	if s == nil || !d.foreign(s) {
		return nil
	}
	return &drivers.RefusedError{Object: stackKey(s.Name), Reason: fmt.Sprintf(
		"exists already and belongs to another installation of Jibe, %s (this one is %s): use another project of OpenStack, or give the instance another id. "+
			"If this is that installation, set up again, write its id into the file \"installation\" of the data directory and start Jibe anew",
		s.tag(tagInstallation), d.opts.Installation)}
}

// named is the stack of the name, nil if there is none. One of another installation is refused.
func (d *Driver) named(s *stackRecord, err error) (*stackRecord, error) {
	if err == nil {
		err = d.own(s)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}
