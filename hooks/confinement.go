package hooks

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/hooks/confine"
)

// DefaultUsers are the users that runs have for themselves where Jibe is root: numbers that no
// system gives to people, services or containers.
const DefaultUsers = "1900000000-1900000063"

// Confinement says how runs are kept apart from Jibe, from each other, and from the machine. One
// of Launcher and Unconfined must be set: what forgot both runs nothing.
type Confinement struct {
	// Launcher is the command that starts the launcher ([confine.Main]): jibe itself.
	Launcher []string
	// Unconfined runs hooks with all the rights of their user.
	Unconfined bool
	// Paths are directories that hooks may read and run programs of, beside the system's.
	Paths []string
	// Secret are directories that must not be below any that hooks may read.
	Secret []string
	// Ports are those that hooks may connect to, beside [UsualPorts] and those of their VIMs.
	// AnyPort allows all.
	Ports   []uint16
	AnyPort bool
	// Limits bound one run; those that are 0 are [UsualLimits].
	Limits confine.Limits
}

// UsualPorts are what hooks speak to on VNFCs and VIMs: SSH, DNS, HTTPS, NETCONF, Kubernetes.
var UsualPorts = []uint16{22, 53, 443, 830, 6443}

// openstackPorts are those of OpenStack's services, which a VIM's catalogue names: Keystone,
// Nova, Placement, Neutron, Glance, Cinder, Heat and its older API, Barbican, Octavia.
var openstackPorts = []uint16{5000, 8774, 8778, 9696, 9292, 8776, 8004, 8000, 9311, 9876}

// UsualLimits bound one run unless the host says otherwise. A run's processor time is what its
// time limit allows one process.
func UsualLimits() confine.Limits {
	return confine.Limits{Memory: 1 << 30, Scratch: 1 << 30, Processes: 512, Files: 1024, Entries: 50_000}
}

// limits are those of a run.
func (c *Confinement) limits() confine.Limits {
	l, usual := c.Limits, UsualLimits()
	for _, x := range []struct{ to, from *uint64 }{
		{&l.Memory, &usual.Memory}, {&l.Scratch, &usual.Scratch}, {&l.Processes, &usual.Processes}, {&l.Files, &usual.Files}, {&l.Entries, &usual.Entries},
	} {
		if *x.to == 0 {
			*x.to = *x.from
		}
	}
	return l
}

// Check returns an error for a confinement that would not hold: what it is to keep secret lies
// where hooks may read.
func (c *Confinement) Check() error {
	if c.Unconfined {
		return nil
	}
	for _, path := range c.Paths {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("hooks may read %s: want an absolute path", path)
		}
	}
	for _, secret := range c.Secret {
		real := resolved(secret)
		for _, place := range c.places() {
			if within(real, resolved(place)) || within(resolved(place), real) {
				return fmt.Errorf("%s must be kept from hooks, which may read %s: move it, or allow another directory", secret, place)
			}
		}
	}
	return nil
}

// resolved is the path without symbolic links, as far as it is there.
func resolved(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// within says whether the path is the directory or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// places are the directories that hooks may run programs of.
func (c *Confinement) places() []string { return slices.Concat(confine.System, c.Paths) }

// reaches says whether the program is in one of them.
func (c *Confinement) reaches(program string) bool {
	real := resolved(program)
	return slices.ContainsFunc(c.places(), func(place string) bool { return within(real, resolved(place)) })
}

// ability is what the system can do to confine runs; it is asked once.
type ability struct {
	mu         sync.Mutex
	known      bool
	namespaces bool
	abi        int
	cgroups    *confine.Cgroups // nil where runs have none, as noCgroups says
	noCgroups  error
}

// unconfinable is returned where the system can't confine hooks, so that none runs.
type unconfinable struct{ why string }

func (e *unconfinable) Error() string {
	return fmt.Sprintf("hooks of packages don't run here, as they can't be confined: %s. Use a kernel that can (Linux 6.2 or later with Landlock; 6.12 or later where Jibe isn't root and may make no namespaces), "+
		"or start jibe serve with --unconfined-hooks, which gives them all the rights of their user", e.why)
}

// mayRun returns an error where a run could not be confined as it must be.
func (r *Runner) mayRun(ctx context.Context) error {
	if r.Confinement.Unconfined {
		return nil
	}
	if len(r.Confinement.Launcher) == 0 {
		return errors.New("no launcher is known that would confine it")
	}
	r.able.mu.Lock()
	defer r.able.mu.Unlock()
	if !r.able.known {
		if err := r.probe(ctx); err != nil {
			return fmt.Errorf("find out how hooks can be confined here: %w", err)
		}
	}
	switch {
	case r.able.abi == 0:
		return &unconfinable{"this kernel has no Landlock, or it isn't enabled (lsm=landlock,… on its command line)"}
	case r.able.abi < confine.NeededABI:
		return &unconfinable{fmt.Sprintf("this kernel's Landlock has version %d, which can't keep files from being truncated", r.able.abi)}
	case r.able.abi < confine.ScopedABI && !r.able.namespaces && !isRoot():
		return &unconfinable{fmt.Sprintf("this kernel's Landlock has version %d, which can't keep signals in, there may be no namespaces, and hooks run as the user that Jibe runs as", r.able.abi)}
	}
	return nil
}

// Confined says how runs are confined here, for the log.
func (r *Runner) Confined(ctx context.Context) (how string, err error) {
	if err := r.mayRun(ctx); err != nil {
		return "", err
	}
	if r.Confinement.Unconfined {
		return "not at all", nil
	}
	r.able.mu.Lock()
	defer r.able.mu.Unlock()
	how = fmt.Sprintf("Landlock version %d, a filter of system calls, limits", r.able.abi)
	if isRoot() {
		how += ", a user apart from Jibe's"
	}
	if r.able.namespaces {
		how += ", namespaces of processes and mounts"
	}
	return how + ", " + r.able.boundBy(), nil
}

// boundBy says by what a run's use of the machine is bounded.
func (a *ability) boundBy() string {
	switch {
	case a.cgroups == nil && a.noCgroups == nil:
		return "no cgroups"
	case a.cgroups == nil:
		return fmt.Sprintf("no cgroups (%v): what runs use is looked at ten times a second", a.noCgroups)
	case len(a.cgroups.Controllers) == 0:
		return "a cgroup for each run, without limits of its own: what runs use is looked at ten times a second"
	}
	return fmt.Sprintf("a cgroup for each run (%s)", strings.Join(a.cgroups.Controllers, ", "))
}

// urls finds what files for a hook name: the addresses of VIMs, and proxies.
var urls = regexp.MustCompile(`https?://[^\s"'\\<>]+`)

// ports are those that the run may connect to.
func (c *Confinement) ports(call *Call) []uint16 {
	list := slices.Concat(UsualPorts, c.Ports)
	add := func(text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		port := map[string]uint64{"http": 80, "https": 443}[u.Scheme]
		if text := u.Port(); text != "" {
			if port, err = strconv.ParseUint(text, 10, 16); err != nil {
				return
			}
		}
		if port > 0 {
			list = append(list, uint16(port))
		}
	}
	add(call.Input.VIM.Endpoint)
	openstack := strings.Contains(strings.ToUpper(call.Input.VIM.Type), "OPENSTACK")
	for name, data := range call.Files {
		openstack = openstack || strings.HasPrefix(name, "OS_")
		for _, text := range urls.FindAllString(string(data), -1) {
			add(text)
		}
	}
	if openstack {
		list = append(list, openstackPorts...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
