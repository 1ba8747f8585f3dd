package app

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
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

// settleTime lets the files of one push arrive before it is looked at.
const settleTime = 5 * time.Millisecond

// watchPackages notices pushes to local package repositories at once, and has all looked at
// then, and every Poll.
func (s *host) watchPackages(ctx context.Context, look func(context.Context)) error {
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
		look(ctx)
		timer.Reset(poll)
	}
}
