package app

import (
	"errors"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/app/metrics"
	"github.com/jibe-vnfm/jibe/backup"
)

// health returns why the process can't do all of its work.
func (s *Server) health() error {
	return errors.Join(s.repo.Health(), s.disk.Health(), s.replica.Health(), s.audit.Health())
}

// sources are what is asked at each scrape.
func (s *Server) sources() metrics.Sources {
	out := metrics.Sources{
		Repo: s.repo, Operations: s.oplog, View: s.recon.View(), Packages: s.packages, Subscriptions: s.notify, Rollouts: s.rollouts, Audit: s.audit.File(), Member: s.replica.Member(),
		Problems: s.problems.List, Writable: s.disk.Health, Owned: s.recon.Owned, Reporter: s.reporter, Exporter: s.tracing.Exporter,
		Store: s.data.Store(), Backup: filepath.Join(s.data.Path, backup.LastFile),
	}
	if r := s.replica.Redis(); r != nil {
		out.Redis = r
	}
	for _, c := range certificates(s.Options) {
		if c.File != "" {
			out.Certificates = append(out.Certificates, c.File)
		}
	}
	return out
}
