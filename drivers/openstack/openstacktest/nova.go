package openstacktest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// maxMicroversion is Nova's of Zed, 2.93.
const maxMicroversion = 93

// mostServers is how many Nova lists at once.
const mostServers = 1000

type flavor struct {
	id, name     string
	cpus, memory int
}

type server struct {
	id, name, status string
	image, flavor    string // ids; no image where it boots from a volume
	metadata         object
	ports            []string // in their order
	own              []string // of these and of the volumes, what goes with the server
	volumes          []string
	zone, key        string
	fault            string
	created, updated time.Time
	launched         time.Time // zero until it ran
	power            *powering // what Nova does with its power, nil for nothing
}

var novaStates = map[string][2]string{"ACTIVE": {"active", "1"}, "BUILD": {"building", "0"}, "REBUILD": {"active", "1"}, "RESIZE": {"active", "1"}, "ERROR": {"error", "0"}, "SHUTOFF": {"stopped", "4"}}

func (c *Cloud) findFlavor(ref string) (*flavor, bool) {
	if f, ok := c.flavors.get(ref); ok {
		return f, true
	}
	return c.flavors.find(func(f *flavor) bool { return f.name == ref })
}

// compute answers for Nova.
func (c *Cloud) compute(in *call) answer {
	version, header, bad := microversion(in)
	if bad != nil {
		return *bad
	}
	a := c.computeAt(in, version)
	a.header = header
	return a
}

// microversion is the minor version of Nova's API that is asked for.
func microversion(in *call) (int, map[string]string, *answer) {
	asked := strings.TrimPrefix(in.header.Get("OpenStack-API-Version"), "compute ")
	if asked == "" {
		asked = in.header.Get("X-OpenStack-Nova-API-Version")
	}
	if asked == "" {
		asked = "2.1"
	}
	if asked == "latest" {
		asked = "2." + strconv.Itoa(maxMicroversion)
	}
	header := map[string]string{"Openstack-Api-Version": "compute " + asked, "X-Openstack-Nova-Api-Version": asked, "Vary": "OpenStack-API-Version"}
	minor, err := strconv.Atoi(strings.TrimPrefix(asked, "2."))
	if err != nil || minor < 1 || minor > maxMicroversion {
		a := fail(Nova, http.StatusNotAcceptable, "", fmt.Sprintf("Version %s is not supported by the API. Minimum is 2.1 and maximum is 2.%d.", asked, maxMicroversion))
		a.header = header
		return 0, nil, &a
	}
	return minor, header, nil
}

func (c *Cloud) computeAt(in *call, version int) answer {
	switch {
	case in.is(http.MethodGet, "servers"), in.is(http.MethodGet, "servers", "detail"):
		return c.listServers(in, version)
	case in.is(http.MethodGet, "flavors"), in.is(http.MethodGet, "flavors", "detail"):
		list := []any{}
		c.flavors.all(func(f *flavor) bool { list = append(list, c.flavorJSON(f)); return true })
		return ok(object{"flavors": list})
	case in.is(http.MethodGet, "flavors", "*"):
		f, found := c.flavors.get(in.path[1])
		if !found {
			return fail(Nova, http.StatusNotFound, "", "Flavor "+in.path[1]+" could not be found.")
		}
		return ok(object{"flavor": c.flavorJSON(f)})
	case in.is(http.MethodGet, "limits"):
		n := len(c.servers.byID)
		return ok(object{"limits": object{"rate": []any{}, "absolute": object{"maxTotalInstances": c.quota, "totalInstancesUsed": n}}})
	case in.is(http.MethodGet, "servers", "*"):
		s, found := c.servers.get(in.path[1])
		if !found {
			return fail(Nova, http.StatusNotFound, "", "Instance "+in.path[1]+" could not be found.")
		}
		return ok(object{"server": c.serverJSON(s, version, true)})
	case in.is(http.MethodPost, "servers", "*", "action"):
		return c.actOnServer(in)
	case in.is(http.MethodDelete, "servers", "*"):
		if _, found := c.servers.get(in.path[1]); !found {
			return fail(Nova, http.StatusNotFound, "", "Instance "+in.path[1]+" could not be found.")
		}
		c.dropServer(in.path[1])
		return answer{status: http.StatusNoContent}
	}
	return fail(Nova, http.StatusNotFound, "", "The resource could not be found.")
}

func (c *Cloud) listServers(in *call, version int) answer {
	var all []*server
	c.servers.all(func(s *server) bool {
		if want := in.query.Get("status"); want != "" && !strings.EqualFold(want, s.status) {
			return true
		}
		if want := in.query.Get("name"); want != "" {
			if re, err := regexp.Compile(want); err != nil || !re.MatchString(s.name) {
				return true
			}
		}
		all = append(all, s)
		return true
	})
	slices.Reverse(all) // the newest first
	if m := in.query.Get("marker"); m != "" && !slices.ContainsFunc(all, func(s *server) bool { return s.id == m }) {
		return fail(Nova, http.StatusBadRequest, "", "marker ["+m+"] not found")
	}
	shown, more := page(all, func(s *server) string { return s.id }, in.query, mostServers)
	list := []any{}
	for _, s := range shown {
		if len(in.path) == 1 {
			list = append(list, object{"id": s.id, "name": s.name, "links": c.links("servers", s.id)})
			continue
		}
		list = append(list, c.serverJSON(s, version, false))
	}
	out := object{"servers": list}
	if more {
		q := in.query
		q.Set("marker", shown[len(shown)-1].id)
		out["servers_links"] = []any{object{"rel": "next", "href": c.endpoint(Nova) + "/" + strings.Join(in.path, "/") + "?" + q.Encode()}}
	}
	return ok(out)
}

func (c *Cloud) links(what, id string) []any {
	return []any{
		object{"rel": "self", "href": c.endpoint(Nova) + "/" + what + "/" + id},
		object{"rel": "bookmark", "href": c.URL(Nova) + "/" + what + "/" + id},
	}
}

func (c *Cloud) flavorJSON(f *flavor) object {
	return object{
		"id": f.id, "name": f.name, "ram": f.memory, "disk": 1, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false,
		"vcpus": f.cpus, "os-flavor-access:is_public": true, "rxtx_factor": 1.0, "links": c.links("flavors", f.id),
	}
}

// serverJSON is the server as Nova of this minor version shows it, alone or in a list.
func (c *Cloud) serverJSON(s *server, version int, alone bool) object {
	state := novaStates[s.status]
	power, _ := strconv.Atoi(state[1]) // it is a number
	var task, launched, key any
	switch s.status {
	case "BUILD":
		task = "spawning"
	case "REBUILD":
		task = "rebuild_spawning"
	case "RESIZE":
		task = "resize_finish"
	}
	if s.power != nil {
		task = s.power.task
	}
	if !s.launched.IsZero() {
		launched = micro(s.launched)
	}
	if s.key != "" {
		key = s.key
	}
	volumes := []any{}
	for _, id := range s.volumes {
		v := object{"id": id}
		if version >= 3 {
			v["delete_on_termination"] = slices.Contains(s.own, id)
		}
		volumes = append(volumes, v)
	}
	// What only administrators see isn't there.
	out := object{
		"id": s.id, "name": s.name, "status": s.status, "tenant_id": c.project, "user_id": c.user, "metadata": s.metadata,
		"hostId": strings.Repeat("a", 56), "image": "", "created": zulu(s.created), "updated": zulu(s.updated),
		"addresses": c.addressesOf(s), "accessIPv4": "", "accessIPv6": "", "links": c.links("servers", s.id), "OS-DCF:diskConfig": "MANUAL",
		"OS-EXT-AZ:availability_zone": s.zone, "config_drive": "", "key_name": key, "OS-SRV-USG:launched_at": launched, "OS-SRV-USG:terminated_at": nil,
		"OS-EXT-STS:task_state": task, "OS-EXT-STS:vm_state": state[0],
		"OS-EXT-STS:power_state": power, "os-extended-volumes:volumes_attached": volumes, "security_groups": []any{object{"name": "default"}},
	}
	if s.status == "ERROR" {
		out["fault"] = object{"code": 500, "created": zulu(s.updated), "message": s.fault}
	} else {
		out["progress"] = 0
	}
	if s.image != "" {
		out["image"] = object{"id": s.image, "links": []any{object{"rel": "bookmark", "href": c.URL(Nova) + "/images/" + s.image}}}
	}
	f, _ := c.flavors.get(s.flavor)
	if version < 47 {
		out["flavor"] = object{"id": s.flavor, "links": c.links("flavors", s.flavor)[1:]}
	} else if f != nil {
		out["flavor"] = object{"vcpus": f.cpus, "ram": f.memory, "disk": 1, "ephemeral": 0, "swap": 0, "original_name": f.name, "extra_specs": object{}}
	}
	for since, more := range map[int]object{
		9: {"locked": false}, 19: {"description": nil}, 26: {"tags": []any{}}, 63: {"trusted_image_certificates": nil}, 73: {"locked_reason": nil},
		90: {"OS-EXT-SRV-ATTR:hostname": strings.ToLower(s.name)},
	} {
		for k, v := range more {
			if version >= since {
				out[k] = v
			}
		}
	}
	if version >= 71 && alone {
		out["server_groups"] = []any{}
	}
	return out
}

func (c *Cloud) addressesOf(s *server) object {
	out := object{}
	if s.status == "BUILD" {
		return out
	}
	for _, id := range s.ports {
		p, found := c.ports.get(id)
		if !found {
			continue
		}
		n, found := c.networks.get(p.network)
		if !found {
			continue
		}
		list, _ := out[n.name].([]any)
		for _, f := range p.fixed {
			addr := f.addr.String()
			list = append(list, object{"version": 4 + 2*strings.Count(addr, "::"), "addr": addr, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": p.mac})
		}
		out[n.name] = list
	}
	return out
}

// boot makes a server; it runs when the work is done.
func (c *Cloud) boot(w *work, s *server) error {
	if n := len(c.servers.byID); c.quota >= 0 && n >= c.quota {
		return says("Forbidden", "Quota exceeded for instances: Requested 1, but already used %d of %d instances (HTTP 403) (Request-ID: %s)", n, c.quota, requestID())
	}
	s.id, s.status = uuid.NewString(), "BUILD"
	s.created, s.updated = time.Now(), time.Now()
	c.servers.add(s.id, s)
	w.ready = append(w.ready, func() { c.launch(s, "BUILD") })
	return nil
}

// launch ends what the server was doing.
func (c *Cloud) launch(s *server, was string) {
	if _, there := c.servers.get(s.id); !there || s.status != was {
		return
	}
	s.status = "ACTIVE"
	s.launched = later(s.launched)
	s.updated = time.Now()
}

func (c *Cloud) dropServer(id string) {
	s, found := c.servers.get(id)
	if !found {
		return
	}
	c.servers.remove(id)
	for _, p := range s.ports {
		if x, ok := c.ports.get(p); ok && x.device == id {
			x.device, x.owner = "", ""
		}
	}
	for _, v := range s.volumes {
		if x, ok := c.volumes.get(v); ok && x.server == id {
			x.server = ""
		}
	}
	for _, x := range s.own {
		c.dropPort(x)
		c.volumes.remove(x)
	}
}
