package api

import (
	"slices"

	"github.com/jibe-vnfm/jibe/admission/packagecheck"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
)

// newPackageAPI makes the VNF package management interface.
func (s *API) newPackageAPI() *vnfpkgm.Service {
	config := vnfpkgm.Config{
		Config: s.common(), Catalogue: s.Packages, Validate: packagecheck.Validate, Settings: s.Repo.Settings, Dir: s.UploadsDir, Secrets: s.Keeper.For(secret.ForUploads()), Used: s.usedPackages,
		Trust: s.Trust, Egress: s.Sources,
		Subscriptions: s.Notify.Subscriptions, Outbox: s.Oplog, Store: s.Store, Audit: s.Audit,
		Announces: s.Announces,
	}
	if s.Claims != nil {
		config.Claims = s.Claims
	}
	return vnfpkgm.New(config)
}

// usedPackages says of which vnfdIds and trees there are instances now.
func (s *API) usedPackages() func(vnfdID string) bool {
	used := map[string]bool{}
	for h := range s.Repo.Heads("") {
		used[h.VnfdID] = true
		if e, err := s.Packages.FindTree(h.Package); h.Package != "" && err == nil {
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
func (s *API) listPackages() []packageRow {
	list := []packageRow{}
	for _, e := range s.Packages.List() {
		row := packageRow{VnfdID: e.VnfdID, Version: e.Version, Repository: e.Repository, Ref: e.Ref, Path: e.Path, Tree: e.Tree}
		if e.Flaw != nil {
			row.Problem = e.Flaw.Error()
		}
		list = append(list, row)
	}
	for _, p := range s.Packages.Problems() {
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
