package app

import (
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/admission/packagecheck"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
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

// newPackageAPI makes the VNF package management interface.
func (s *Server) newPackageAPI(common rest.Config) *vnfpkgm.Service {
	config := vnfpkgm.Config{
		Config: common, Catalogue: s.packages.Catalogue, Validate: packagecheck.Validate, Settings: s.repo.Settings, Dir: s.data.Uploads(), Secrets: s.keeper.For(secret.ForUploads()), Used: s.usedPackages,
		Trust: s.trust, Egress: s.packageSources(),
		Subscriptions: s.notify.Subscriptions, Outbox: s.oplog, Store: s.replica.Records, Audit: s.audit,
		Announces: s.replica.Announces,
	}
	if s.shared() {
		s.uploads = replicas.NewUploads(s.replica.Records, s.replica.Member(), s.Log)
		config.Claims = s.uploads
	}
	s.freshness.Of(s.repo, s.packages, s.uploads)
	return vnfpkgm.New(config)
}

// usedPackages says of which vnfdIds and trees there are instances now.
func (s *Server) usedPackages() func(vnfdID string) bool {
	used := map[string]bool{}
	for h := range s.repo.Heads("") {
		used[h.VnfdID] = true
		if e, err := s.packages.FindTree(h.Package); h.Package != "" && err == nil {
			used[e.VnfdID] = true
		}
	}
	return func(vnfdID string) bool { return used[vnfdID] }
}

// packageRow is a package as `jibe get packages` shows it.
type packageRow struct {
	VnfdID     string `json:"vnfdId"`
	Version    string `json:"version"`
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
	Path       string `json:"path"`
	Tree       string `json:"tree"`
	Problem    string `json:"problem,omitempty"`
	// ID is the id in the package management API, and State what that says: its onboarding
	// state, or its operational state once it is onboarded. They are "" for a former version.
	ID    string `json:"id,omitempty"`
	State string `json:"state,omitempty"`
	InUse bool   `json:"inUse,omitempty"`
}

// listPackages is what the repositories hold, those packages that can't be used included, and
// those that wait for content.
func (s *Server) listPackages() []packageRow {
	list := []packageRow{}
	for _, e := range s.packages.List() {
		row := packageRow{VnfdID: e.VnfdID, Version: e.Version, Repository: e.Repository, Ref: e.Ref, Path: e.Path, Tree: e.Tree}
		if e.Flaw != nil {
			row.Problem = e.Flaw.Error()
		}
		list = append(list, row)
	}
	for _, p := range s.packages.Problems() {
		list = append(list, packageRow{VnfdID: p.VnfdID, Version: p.Version, Repository: p.Repository, Ref: p.Ref, Path: p.Path, Tree: p.Tree, Problem: p.Err.Error()})
	}
	for _, o := range s.pkgm.Overview() {
		state := o.OnboardingState
		if state == "ONBOARDED" {
			state = o.OperationalState
		}
		i := slices.IndexFunc(list, func(r packageRow) bool { return o.Tree != "" && r.Tree == o.Tree && r.ID == "" })
		if i < 0 {
			list = append(list, packageRow{VnfdID: o.VnfdID, ID: o.ID, State: state, Problem: o.Failure})
			continue
		}
		list[i].ID, list[i].State, list[i].InUse = o.ID, state, o.UsageState == "IN_USE"
	}
	return list
}
