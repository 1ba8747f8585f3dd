package app

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/ui"
)

// Server is a running process, for those who have started it.
type Server struct{ *state }

// Address is where the API listens.
func (s *Server) Address() string { return s.listener.Address() }

// Welcome writes for a person where everything is, and how to go on.
func (s *Server) Welcome(w io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "jibe %s serves %s\n", s.Version, s.BaseURL)
	fmt.Fprintf(&b, "  data directory      %s\n", s.data.Path)
	if s.Remote != "" {
		fmt.Fprintf(&b, "  desired repository  %s (branch %s)\n", s.Remote, s.Branch)
	} else {
		fmt.Fprintf(&b, "  desired repository  %s\n", s.data.Desired())
		fmt.Fprintf(&b, "                      %s/git/desired.git\n", s.BaseURL)
	}
	locals, _ := filepath.Glob(filepath.Join(s.data.Packages(), "*.git"))
	for _, dir := range locals {
		fmt.Fprintf(&b, "  package repository  %s\n", dir)
		fmt.Fprintf(&b, "                      %s/git/packages/%s\n", s.BaseURL, filepath.Base(dir))
	}
	if !s.Page.Off {
		fmt.Fprintf(&b, "  web page            %s%s/\n", s.BaseURL, ui.Root)
	}
	if s.InsecureDev {
		b.WriteString("  API                 open to everyone (--insecure-dev)\n")
	} else {
		fmt.Fprintf(&b, "  API tokens          %s\n", s.tokensFile())
	}
	fmt.Fprintf(&b, "  secrets             encrypt for %s\n", s.keeper.Recipient())
	fmt.Fprintf(&b, "                      or keep them below %s\n", strings.Join(s.keeper.Dirs(), ", "))
	if s.first && s.Remote == "" {
		fmt.Fprintf(&b, "\nFirst steps:\n  git clone %s\n  add vims/<name>.yaml and instances/<place>/<name>/vnf.yaml, commit, git push\n", s.data.Desired())
	}
	_, _ = io.WriteString(w, b.String()) // where it can't be written, nobody reads it
}
