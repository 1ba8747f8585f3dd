package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// PackageOptions are what a person may set of how packages are uploaded.
type PackageOptions struct {
	// Trust is a file of certificates in PEM by which signatures of packages are checked, ""
	// to check none.
	Trust string
	// RequireSignatures refuses packages without a signature.
	RequireSignatures bool
	// LocalSources allows packages to be fetched from this machine and link-local addresses, as far
	// as Egress.Deny lets them.
	LocalSources bool
}

// loadTrust reads the trust anchors, so that a start fails where they can't be.
func (s *Server) loadTrust() error {
	var err error
	if s.trust, err = csar.LoadTrust(s.Packages.Trust, s.Packages.RequireSignatures); err != nil {
		return fmt.Errorf("signatures of packages (--package-trust, --require-signatures): %w", err)
	}
	return nil
}

// settleTime lets the files of one push arrive before it is looked at.
const settleTime = 5 * time.Millisecond

// watchPackages notices pushes to local package repositories at once, and fetches the
// others every Poll.
func (s *Server) watchPackages(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	dirs, err := filepath.Glob(filepath.Join(s.data.Packages(), "*.git"))
	if err != nil {
		return err
	}
	for _, d := range dirs {
		for _, sub := range []string{"", "refs/heads", "refs/tags"} {
			if err := w.Add(filepath.Join(d, sub)); err != nil {
				return err
			}
		}
	}
	poll := s.Poll
	if poll <= 0 {
		poll = 30 * time.Second
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events:
			if !ok {
				return errors.New("the watch of the package repositories ended")
			}
			if !strings.HasSuffix(e.Name, ".lock") && (strings.Contains(e.Name, "/refs/") || filepath.Base(e.Name) == "packed-refs") {
				timer.Reset(settleTime)
			}
			continue
		case err := <-w.Errors:
			s.Log.WarnContext(ctx, "watch of the package repositories", "error", err)
			continue
		case <-timer.C:
		}
		if err := s.syncPackages(ctx); err != nil {
			s.Log.WarnContext(ctx, "package repositories were not all fetched", "error", err)
		}
		s.recon.EnqueueUnobeyed() // the packages that they name may be there now
		s.follower.PackagesChanged()
		timer.Reset(poll)
	}
}
