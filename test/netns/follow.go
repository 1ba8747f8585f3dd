package netns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cloud tells which servers there are.
type Cloud interface {
	// Servers are those of the project, in any order. An error says nothing about them.
	Servers(context.Context) ([]Server, error)
}

// Server is a virtual machine as a cloud reports it.
type Server struct {
	// ID and LaunchedAt tell one from its successors: a server that is rebuilt keeps its
	// id, and gets another time.
	ID         string
	LaunchedAt string
	Name       string
	// Up is true where it is ACTIVE.
	Up bool
	// Addrs are the fixed addresses of its ports.
	Addrs []netip.Addr
	// Image and Flavor are names, or ids where the cloud tells no names; Image is "" for
	// a server that was started from a volume.
	Image, Flavor string
	// Metadata is the server's, which its labels hold too.
	Metadata map[string]string
}

// Followed says how a lab follows a cloud.
type Followed struct {
	// Every is the time between two looks at the cloud; 0 is a second.
	Every time.Duration
	// Only chooses servers; nil takes all that have an address in the lab's subnet.
	Only func(Server) bool
	// Spec may change what is made for a server: its users, files, labels; nil leaves it.
	// It is called with a host name made of the server's name, its addresses in the subnet, and its labels:
	// server (the id), name, image, flavor, launchedAt, and its metadata.
	Spec func(Server, *Spec)
	// Log gets what comes and goes; nil is no log.
	Log *slog.Logger
}

// Follow has a host for each server of the cloud that is up and has an address in the
// lab's subnet, as long as it is there: a server that is rebuilt loses what was changed on
// its host, one that is stopped loses its host. It returns when ctx ends, and leaves the
// hosts as they are then.
//
// It takes away only hosts that it made.
func (l *Lab) Follow(ctx context.Context, cloud Cloud, how Followed) {
	f := &follower{lab: l, cloud: cloud, how: how, log: how.Log, hosts: map[string]*followed{}}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if how.Every <= 0 {
		f.how.Every = time.Second
	}
	for ctx.Err() == nil {
		f.look(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(f.how.Every):
		}
	}
}

type follower struct {
	lab   *Lab
	cloud Cloud
	how   Followed
	log   *slog.Logger
	hosts map[string]*followed // by incarnation
	said  string               // the last trouble, logged once
}

type followed struct {
	host   *Host
	labels map[string]string
}

// look makes the hosts what the servers are now.
func (f *follower) look(ctx context.Context) {
	servers, err := f.cloud.Servers(ctx)
	if err != nil {
		f.trouble(ctx, "the cloud's servers can't be listed", err)
		return
	}
	wanted := map[string]Server{}
	for _, s := range servers {
		s.Addrs = slices.DeleteFunc(slices.Clone(s.Addrs), func(a netip.Addr) bool { return !f.lab.Subnet.Contains(a) })
		if s.Up && len(s.Addrs) > 0 && (f.how.Only == nil || f.how.Only(s)) {
			wanted[s.incarnation()] = s
		}
	}
	// First those that go: a successor may have the address.
	for key, h := range f.hosts {
		if s, stays := wanted[key]; !stays || !slices.Equal(s.Addrs, h.host.Spec.Addrs) {
			h.host.Remove()
			delete(f.hosts, key)
			f.log.Info("removed host", "host", h.host.Spec.Name, "address", h.host.Addr().String())
		}
	}
	f.add(ctx, wanted)
}

// add makes the hosts that are missing, some at once, and tells the others what is new
// of their servers.
func (f *follower) add(ctx context.Context, wanted map[string]Server) {
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed []error
	turns := make(chan struct{}, 4)
	for key, s := range wanted {
		if h := f.hosts[key]; h != nil {
			labels := f.spec(s).Labels
			if !maps.Equal(h.labels, labels) && h.host.SetLabels(labels) == nil {
				h.labels = labels
			}
			delete(wanted, key)
		}
	}
	for key, s := range wanted {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			spec := f.spec(s)
			h, err := f.lab.Add(ctx, spec)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
				return
			}
			f.hosts[key] = &followed{host: h, labels: spec.Labels}
			f.log.Info("added host", "host", spec.Name, "address", h.Addr().String(), "server", s.ID)
		})
	}
	all.Wait()
	f.trouble(ctx, "hosts can't be made", errors.Join(failed...))
}

func (f *follower) spec(s Server) Spec {
	spec := Spec{Name: hostName(s.Name), Addrs: s.Addrs, Labels: map[string]string{
		"server": s.ID, "name": s.Name, "image": s.Image, "flavor": s.Flavor, "launchedAt": s.LaunchedAt,
	}}
	maps.Copy(spec.Labels, s.Metadata)
	if f.how.Spec != nil {
		f.how.Spec(s, &spec)
	}
	return spec
}

// hostName is the server's name as a host may have it.
func hostName(server string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, server)
	if name = strings.Trim(name[:min(len(name), 63)], "-"); name == "" {
		return "server"
	}
	return name
}

// trouble tells what doesn't work, once while it is the same; it is tried again.
func (f *follower) trouble(ctx context.Context, what string, err error) {
	said := ""
	if err != nil && ctx.Err() == nil {
		said = fmt.Sprint(what, err)
	}
	if said != "" && said != f.said {
		f.log.Error("hosts don't follow", "what", what, "error", err)
	}
	f.said = said
}

func (s Server) incarnation() string { return s.ID + "@" + s.LaunchedAt }
