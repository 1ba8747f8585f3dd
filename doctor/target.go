package doctor

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/redis"
)

// Target is the installation that is examined: the parts of a running server, or what can be had
// of a data directory on which none runs.
type Target struct {
	// Data is the data directory, Branch and Remote are those of the desired repository.
	Data, Branch, Remote string
	// Certificates are files that flags name; those without a file are left out.
	Certificates []Certificate
	// Token asks the forge's API whether its token may do what Jibe does with it; nil where it has none.
	Token func(ctx context.Context) error
	// Settings are those at head.
	Settings func(ctx context.Context) (*desired.Settings, error)
	// Store looks at the store's file, Redis at the Redis that has the records instead; one of
	// them is nil.
	Store func(ctx context.Context) (bolt.Facts, error)
	Redis func(ctx context.Context) (redis.Facts, error)
	// Unproven returns why subscriptions aren't served, for each whose record in Redis isn't this
	// installation's own; nil where the records aren't in Redis.
	Unproven func(ctx context.Context) ([]string, error)
	// Keeper opens the key of the secrets, and never makes one.
	Keeper func() (*secret.Keeper, error)
	// VIM looks at a VIM; nil leaves VIMs out.
	VIM func(ctx context.Context, v *desired.VIM) (drivers.Sight, error)
	// Audit checks the end of the audit log, and says what it found.
	Audit func(ctx context.Context) (string, error)
	// Hooks says how hooks are confined here. HooksAllowed says whether any may run.
	Hooks        func(ctx context.Context) (string, error)
	HooksAllowed bool
	// Health is what the server that runs says of itself; nil where none does.
	Health func() error
	Now    func() time.Time
}

// Checks are those of the target, in the order in which they are told.
func (t *Target) Checks(ctx context.Context) []Check {
	if t.Now == nil {
		t.Now = time.Now
	}
	list := []Check{
		{Name: "data directory", Run: t.dataDirectory},
		{Name: "disk", Run: t.disk},
		{Name: "installation id", Run: t.installation},
		{Name: "store", Timeout: time.Minute, Run: t.store},
		{Name: "git", Run: t.git},
		{Name: "desired repository", Timeout: time.Minute, Run: t.desired},
	}
	if t.Unproven != nil {
		list = append(list, Check{Name: "subscriptions", Run: t.subscriptions})
	}
	if t.Remote == "" {
		list = append(list, Check{Name: "push hook", Run: func(context.Context) Finding { return t.hook(t.path("desired.git")) }})
	} else {
		list = append(list, Check{Name: "forge", Run: func(ctx context.Context) Finding { return t.remote(ctx, t.Remote) }})
	}
	if t.Token != nil {
		list = append(list, Check{Name: "forge token", Timeout: 30 * time.Second, Run: t.token})
	}
	settings, err := t.Settings(ctx)
	list = append(list, Check{Name: "settings", Run: func(context.Context) Finding {
		if err != nil {
			return found(Failed, "Look at jibe get problems, and put the files right by a commit.", "repositories.yaml, vims/ and what stands beside them can't be read: %v", err)
		}
		return ok("VIMs: %d, package repositories: %d", len(settings.VIMs), len(settings.Repositories))
	}})
	locals, _ := filepath.Glob(t.path("packages/*.git")) // the pattern is a constant one
	for _, dir := range locals {
		list = append(list, Check{Name: "packages " + filepath.Base(dir), Timeout: time.Minute, Run: func(ctx context.Context) Finding {
			if f := t.connected(ctx, dir); f.State != OK {
				return f
			}
			return t.hook(dir)
		}})
	}
	list = append(list, Check{Name: "names of refs", Run: func(ctx context.Context) Finding { return t.refNames(ctx, locals) }})
	if err == nil {
		list = append(list, t.ofSettings(settings)...)
	}
	list = append(list,
		Check{Name: "certificate", Run: t.certificates},
		Check{Name: "tokens", Run: t.tokens},
		Check{Name: "key", Run: t.key},
		Check{Name: "references to secrets", Timeout: time.Minute, Run: func(ctx context.Context) Finding {
			if err != nil {
				return skipped("the settings can't be read")
			}
			return t.references(ctx, settings)
		}},
		Check{Name: "audit log", Run: t.audit},
		Check{Name: "hooks", Timeout: 40 * time.Second, Run: t.hooks},
		Check{Name: "memory", Run: t.memory},
		Check{Name: "open files", Run: t.openFiles},
		Check{Name: "backup", Run: t.backup},
		Check{Name: "server", Run: t.server},
	)
	return list
}

// ofSettings are the checks of what the settings name.
func (t *Target) ofSettings(s *desired.Settings) (list []Check) {
	for _, r := range s.Repositories {
		if !remote(r.URL) {
			continue
		}
		list = append(list, Check{Name: "package source " + r.Name, Run: func(ctx context.Context) Finding { return t.remote(ctx, r.URL) }})
	}
	for _, name := range slices.Sorted(maps.Keys(s.VIMs)) {
		list = append(list, Check{Name: "VIM " + name, Timeout: 30 * time.Second, Run: func(ctx context.Context) Finding { return t.vim(ctx, s.VIMs[name], s) }})
	}
	if projects := proposing(s); len(projects) > 0 && t.Token == nil {
		list = append(list, Check{Name: "proposals", Run: func(context.Context) Finding {
			return found(Failed, "Give --forge-token, or write "+desired.WriteDirect+" in these files. Until then such requests are refused with 409.",
				"%s: requests are to be proposed as pull requests, and no forge is told", strings.Join(projects, ", "))
		}})
	}
	return list
}

// proposing are the files of the projects whose requests, or some of them, are proposed as pull requests.
func proposing(s *desired.Settings) (files []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Projects)) {
		if !s.Projects[name].Write.IsZero() {
			files = append(files, desired.ProjectFile(name))
		}
	}
	return files
}

// accountAt is the first account, by the projects' names, as which a project writes to the VIM, "" for none.
func accountAt(s *desired.Settings, vim string) string {
	for _, name := range slices.Sorted(maps.Keys(s.Projects)) {
		if p := s.Projects[name]; !p.Impersonate.IsZero() && p.MayUseVIM(vim) {
			return p.Impersonate.Namespace + "/" + p.Impersonate.Name
		}
	}
	return ""
}

// exposedTo returns the projects whose packages may make pods in the namespace of the account as which
// Jibe logs in to the VIM, and so run them as it. Where there are no projects, none is kept from
// another; Jibe's own namespace in the cluster is no project's already.
func exposedTo(s *desired.Settings, v *desired.VIM, account string) (projects []string) {
	namespace, _, is := strings.Cut(account, "/")
	if !is || v.InCluster || len(s.Projects) == 0 {
		return nil
	}
	for _, name := range s.ProjectNames() {
		if p := s.Project(name); p.MayUseVIM(v.Name) && p.MayUseNamespace(namespace) {
			projects = append(projects, name)
		}
	}
	return projects
}

// remote says whether git reaches the URL over a network.
func remote(url string) bool {
	at := strings.Index(url, ":")
	return strings.Contains(url, "://") && !strings.HasPrefix(url, "file://") || at > 0 && !strings.Contains(url[:at], "/")
}

func (t *Target) path(name string) string { return filepath.Join(t.Data, filepath.FromSlash(name)) }
