package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
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
func (s *Server) verifyDesired() (*gitrepo.Verification, error) {
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
	v, err := gitrepo.NewVerification(s.Verify.Desired, s.keeper.Derive("sign commits of the desired repository"))
	if err != nil {
		return nil, fmt.Errorf("signatures of the desired repository (--verify-desired): %w", err)
	}
	s.Log.Info("commits of the desired repository must be signed; Jibe's own are by this key", "key", v.Own())
	return v, nil
}

// notTheirs are the signatures of a push that aren't its pusher's, where only those count.
func (s *Server) notTheirs(by pusher, p *admission.Push) (lacking []*desired.Problem) {
	if !s.Verify.Pusher || len(p.Problems) > 0 {
		return nil
	}
	pushed := slices.IndexFunc(p.Updates, func(u gitrepo.RefUpdate) bool { return u.Ref == s.branchRef() })
	if pushed >= 0 && len(p.Signers) == 0 {
		return []*desired.Problem{{File: s.branchRef(), Message: "the push hook doesn't say who has signed the commits (--require-signed-push)", Remedy: "start the server again, which writes the hook anew"}}
	}
	for _, signer := range p.Signers {
		if !slices.Contains(signer.Names, by.who.String()) {
			lacking = append(lacking, &desired.Problem{
				File:    s.branchRef(),
				Message: fmt.Sprintf("commit %s is signed by %s (%s), and pushed by %s: each commit must be signed by who pushes it (--require-signed-push)", signer.Commit, strings.Join(signer.Names, ", "), signer.Key, by.who),
				Remedy:  "let its signer push it, or sign it yourself (git rebase --exec 'git commit --amend --no-edit -S')",
			})
		}
	}
	return lacking
}

// verifyPackages makes the host's demands on package repositories count.
func (s *Server) verifyPackages() error {
	host, err := packages.LoadHostVerification(s.Verify.Packages)
	if err != nil {
		return fmt.Errorf("signatures of package repositories (--verify-packages): %w", err)
	}
	s.packages.SetHostVerification(host)
	return nil
}
