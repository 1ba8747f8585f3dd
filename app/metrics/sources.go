package metrics

import (
	"context"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/trace/otlp"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/report"
	"github.com/jibe-vnfm/jibe/sol/notify"
)

// Sources are what is asked at each scrape.
type Sources struct {
	Repo          Repo
	Operations    Operations
	View          View
	Packages      Packages
	Subscriptions Subscriptions
	Rollouts      Rollouts
	Audit         AuditLog
	Member        Member
	// Problems are why files at head aren't obeyed, and Writable why the data directory can't be written.
	Problems func() []reconciler.Problem
	Writable func() error
	// Owned is how many instances' leases this process holds.
	Owned func() int
	// Reporter and Exporter are nil where no forge is told, and where nothing is traced.
	Reporter *report.Reporter
	Exporter *otlp.Exporter
	Redis    Redis // nil where the store is a file
	// Certificates are files that flags name, Store is the store's file, and Backup the one that says when the last
	// backup ended well: a time as RFC 3339 has it in its first line, else the time of the file.
	Certificates  []string
	Store, Backup string
}

// Repo is what is asked of the desired repository.
type Repo interface {
	headRepo
	Health() error
	Settings() (*desired.Settings, error)
}

// Operations is what is asked of the operation log.
type Operations interface {
	Counts() oplog.Counts
	Operation(ctx context.Context, id string) (*lcm.Operation, error)
}

// View is what is asked of the reconciler.
type View interface {
	Drift() []reconciler.Drift
	Waiting() []reconciler.Waiting
	WaitingForInstances() []reconciler.InstanceWait
	WaitingForPullRequests() []reconciler.ProposalWait
	Unlisted() []reconciler.Unlisted
	AtFormerVIMs() map[string]int
	InstancesAtVIMs() map[string]int
	KnownOrphans() reconciler.Orphans
	Projects(ctx context.Context) ([]reconciler.ProjectUse, error)
}

// Packages is what is asked of the catalogue of packages.
type Packages interface {
	packageReader
	packageSources
}

// Subscriptions is what is asked of the notifications.
type Subscriptions interface {
	States() []notify.State
	Unproven() int
}

// Rollouts is what is asked of the rollouts.
type Rollouts interface {
	List(ctx context.Context) ([]automation.RolloutStatus, error)
}

// AuditLog is what is asked of the audit log.
type AuditLog interface {
	End() audit.Head
	Ready() error
}

// Member is what is asked of this process as one of the replicas.
type Member interface {
	Living() []string
	Session() *members.Session
	Lost() uint64
}

// Scrape registers what asks the sources at each scrape.
func (m *Meters) Scrape(s Sources) {
	inventory := newInventory(s)
	m.registry.MustRegister(inventory, newPopulation(s.Packages, inventory.exempt), newProjectUse(s.Repo, s.View), newRolloutMetrics(s.Rollouts),
		newOrphanMetrics(s.View), newRepositoryMetrics(s.Packages), newDeliveries(s.Subscriptions), newFiles(s), newSpanCounts(s.Exporter),
		newReportMetrics(s.Reporter), newProposalMetrics(s.View))
	m.registry.MustRegister(auditCollectors(s.Audit)...)
	m.registry.MustRegister(memberCollectors(s.Member, s.Owned)...)
	if s.Redis != nil {
		m.registry.MustRegister(newRedisMetrics(s.Redis))
	}
}
