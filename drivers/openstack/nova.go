package openstack

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

// server is what a snapshot keeps of a server: Nova's answer is many times as long.
type server struct {
	ID       string
	Status   string
	Task     string // what Nova is doing with it, "" for nothing
	Created  time.Time
	Updated  time.Time
	Launched time.Time // zero until it ran, and where its cell is down
	Zone     string
	Flavor   string // its name
	Image    string // its id, "" where the server boots from a volume
	Volumes  []string
	Fault    string // why it is in ERROR
	Metadata map[string]string
}

func newServer(s *servers.Server) *server {
	v := &server{
		ID: s.ID, Status: s.Status, Task: s.TaskState, Created: s.Created, Updated: s.Updated, Launched: s.LaunchedAt,
		Zone: s.AvailabilityZone, Fault: s.Fault.Message, Metadata: s.Metadata,
	}
	v.Flavor, _ = s.Flavor["original_name"].(string)
	v.Image, _ = s.Image["id"].(string)
	for _, x := range s.AttachedVolumes {
		v.Volumes = append(v.Volumes, x.ID)
	}
	return v
}

// incarnation is the server's id and when it was launched: Nova keeps the id of one that is
// rebuilt.
func (s *server) incarnation() string {
	if s.Launched.IsZero() {
		return s.ID + "@"
	}
	return s.ID + "@" + s.Launched.Format("2006-01-02T15:04:05")
}

// settled says whether Nova has nothing to do with the server.
func (s *server) settled() bool {
	switch s.Status {
	case "BUILD", "REBUILD", "REBOOT", "HARD_REBOOT", "RESIZE", "MIGRATING", "UNKNOWN":
		return false
	}
	return s.Task == ""
}

// fingerprint changes when the server does.
func (s *server) fingerprint() string {
	return strings.Join([]string{s.ID, s.Status, s.Updated.String(), s.Launched.String(), s.Task}, " ")
}

// listServers are the servers of the project, by id: all of them, or those in the state.
func (c *cloud) listServers(ctx context.Context, status string) (map[string]*server, error) {
	query := url.Values{}
	if status != "" {
		query.Set("status", status)
	}
	found, err := readList(ctx, c, nova, "servers", func(s *servers.Server) string { return s.ID }, query, "servers", "detail")
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", c.asUnavailable(err)) // the marker's server may be gone
	}
	all := map[string]*server{}
	for i := range found {
		all[found[i].ID] = newServer(&found[i])
	}
	return all, nil
}

// deleteServer deletes the server, unless it is gone or going already.
func (c *cloud) deleteServer(ctx context.Context, id string) error {
	err := c.call(ctx, nova, func(client *gophercloud.ServiceClient) error {
		return servers.Delete(ctx, client, id).ExtractErr()
	})
	if err != nil && !is(err, http.StatusNotFound) && !is(err, http.StatusConflict) {
		return fmt.Errorf("delete server %s: %w", id, c.asUnavailable(err))
	}
	return nil
}

// findServer is the server with the id, nil if there is none.
func (c *cloud) findServer(ctx context.Context, id string) (*server, error) {
	var found *servers.Server
	err := c.call(ctx, nova, func(client *gophercloud.ServiceClient) (err error) {
		found, err = servers.Get(ctx, client, id).Extract()
		return err
	})
	if is(err, http.StatusNotFound) {
		return nil, nil // there is none, which is no error
	}
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", id, c.asUnavailable(err))
	}
	return newServer(found), nil
}
