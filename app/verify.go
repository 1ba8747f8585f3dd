package app

import (
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/packages"
)

// VerifyOptions are the signatures that the host demands.
type VerifyOptions struct {
	// Packages are files of trusted keys by name of the package repository, or "*" for those that
	// have none: see [packages.LoadHostVerification].
	Packages map[string]string
	// Desired is a file of the keys by which commits of the desired repository must be signed, ""
	// to obey all.
	Desired string
	// Pusher demands that whoever pushes to the desired branch has signed each commit of the push:
	// the file's name of the key is the pusher's. It needs Desired, and a local repository: who
	// pushes to a forge isn't known here.
	Pusher bool
}

// verifyDesired returns whose commits are obeyed.
func (s *host) verifyDesired() (*check.Verification, error) {
	switch {
	case s.Verify.Pusher && s.Verify.Desired == "":
		return nil, errors.New("--require-signed-push says whose signature is needed, and --verify-desired which keys are whose: give both")
	case s.Verify.Pusher && s.Remote != "":
		return nil, errors.New("--require-signed-push can't be kept with --remote: the forge alone knows who pushes there, so have it refuse what its pusher hasn't signed")
	}
	if s.Verify.Desired == "" {
		if desired.PlainTransport(s.Remote) {
			return nil, errors.New("the desired repository can't be followed by git:// or http://, as anybody on the way could change it: use https:// or ssh://, or --verify-desired")
		}
		return nil, nil
	}
	v, err := check.NewVerification(s.Verify.Desired, s.keeper.Derive("sign commits of the desired repository"))
	if err != nil {
		return nil, fmt.Errorf("signatures of the desired repository (--verify-desired): %w", err)
	}
	s.Log.Info("commits of the desired repository must be signed; Jibe's own are by this key", "key", v.Own())
	return v, nil
}

// verifyPackages makes the host's demands on package repositories count.
func (s *state) verifyPackages() error {
	host, err := packages.LoadHostVerification(s.Verify.Packages)
	if err != nil {
		return fmt.Errorf("signatures of package repositories (--verify-packages): %w", err)
	}
	s.packages.SetHostVerification(host)
	return nil
}
