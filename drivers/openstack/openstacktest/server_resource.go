package openstacktest

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// serverKind is OS::Nova::Server. Another image rebuilds the server in place, another
// flavour resizes it; another boot volume needs another server.
func serverKind() *kind {
	return &kind{
		server: true,
		updatable: []string{"name", "image", "flavor", "flavor_update_policy", "image_update_policy", "networks", "metadata",
			"software_config_transport", "user_data_update_policy", "user_data", "admin_pass", "tags", "deployment_swift_data"},
		others: []string{"block_device_mapping", "block_device_mapping_v2", "key_name", "admin_user", "availability_zone", "security_groups",
			"scheduler_hints", "user_data_format", "reservation_id", "config_drive", "diskConfig", "personality"},
		required: []string{"flavor"},
		forced:   forcesServer,
		verify:   verifyServer,
		create:   createServer,
		update:   updateServer,
		destroy:  func(c *Cloud, r *resource) { c.dropServer(r.id) },
		broken: func(c *Cloud, r *resource) bool {
			s, ok := c.servers.get(r.id)
			return !ok || s.status == "ERROR"
		},
	}
}

func forcesServer(old, next object) bool {
	for property, policy := range map[string]string{"image": "image_update_policy", "flavor": "flavor_update_policy"} {
		if next[policy] == "REPLACE" && !reflect.DeepEqual(old[property], next[property]) {
			return true
		}
	}
	return next["user_data_update_policy"] != "IGNORE" && !reflect.DeepEqual(old["user_data"], next["user_data"])
}

func verifyServer(c *Cloud, where string, p object) error {
	if f := p["flavor"]; !isUnset(f) {
		if _, ok := c.findFlavor(asText(f)); !ok {
			return badValue(where, "flavor", f, fmt.Sprintf("No Flavor matching {'name': '%v'}. (HTTP 404)", f))
		}
	}
	if i := p["image"]; !isUnset(i) {
		if _, ok := c.findImage(asText(i)); !ok {
			return badValue(where, "image", i, fmt.Sprintf("No images matching {'name': '%v'}.", i))
		}
	}
	if isUnset(p["image"]) && !hasUnknown(p["image"]) && p["block_device_mapping"] == nil && p["block_device_mapping_v2"] == nil {
		return invalid("Either volume_id or snapshot_id or image_id or swap_size must be specified for device mapping")
	}
	for i, n := range list(p["networks"]) {
		if err := verifyNetwork(c, fmt.Sprintf("%s.properties.networks[%d]", where, i), "network", n["network"]); err != nil {
			return err
		}
	}
	return nil
}

func createServer(c *Cloud, w *work, r *resource, p object) (string, error) {
	f, found := c.findFlavor(asText(p["flavor"]))
	if !found {
		return "", says("NotFound", "No Flavor matching {'name': '%v'}. (HTTP 404)", p["flavor"])
	}
	s := &server{name: physicalName(r, p, 53), flavor: f.id, metadata: texts(p["metadata"]), zone: "nova", key: asText(p["key_name"])}
	if z := asText(p["availability_zone"]); z != "" {
		s.zone = z
	}
	if ref := asText(p["image"]); ref != "" {
		i, found := c.findImage(ref)
		if !found {
			return "", says("NotFound", "No images matching {'name': '%s'}.", ref)
		}
		s.image = i.id
	}
	if err := c.boot(w, s); err != nil {
		return "", err
	}
	if err := c.plug(r, s, list(p["networks"])); err != nil {
		c.dropServer(s.id)
		return "", err
	}
	return s.id, c.disks(s, p)
}

// plug gives the server the ports that its networks name, making those that it lacks.
func (c *Cloud) plug(r *resource, s *server, networks []object) error {
	var ports, made []string
	for i, n := range networks {
		id := asText(n["port"])
		if id == "" {
			net, found := c.findNetwork(asText(n["network"]))
			if !found {
				return says("NotFound", "Unable to find network with name or id '%v'", n["network"])
			}
			var wanted []object
			if ip := asText(n["fixed_ip"]); ip != "" {
				wanted = []object{{"ip_address": ip}}
			}
			p, err := c.makePort(fmt.Sprintf("%s-port-%d", r.name, i), net, wanted)
			if err != nil {
				return err
			}
			id = p.id
			made = append(made, id)
		}
		p, found := c.ports.get(id)
		if !found {
			return says("BadRequest", "Port id %s could not be found. (HTTP 400) (Request-ID: %s)", id, requestID())
		}
		if len(p.fixed) == 0 {
			return says("BadRequest", "Port %s requires a FixedIP in order to be used. (HTTP 400) (Request-ID: %s)", id, requestID())
		}
		p.device, p.owner, p.updated = s.id, "compute:"+s.zone, time.Now()
		ports = append(ports, id)
	}
	for _, old := range s.ports {
		if slices.Contains(ports, old) {
			continue
		}
		if slices.Contains(s.own, old) {
			c.dropPort(old)
		} else if p, ok := c.ports.get(old); ok && p.device == s.id {
			p.device, p.owner = "", ""
		}
	}
	s.ports = ports
	s.own = append(s.own, made...)
	return nil
}

// disks attaches the volumes that the server boots from or has from the beginning.
func (c *Cloud) disks(s *server, p object) error {
	for _, d := range append(list(p["block_device_mapping_v2"]), list(p["block_device_mapping"])...) {
		id := asText(d["volume_id"])
		goes := d["delete_on_termination"] == true
		if id == "" {
			if asText(d["image"]) == "" && asText(d["image_id"]) == "" {
				continue // a local disk
			}
			v := c.makeVolume("", whole(d["volume_size"]))
			v.bootable, id = true, v.id
		}
		v, found := c.volumes.get(id)
		if !found {
			return says("BadRequest", "Block Device Mapping is Invalid: failed to get volume %s. (HTTP 400) (Request-ID: %s)", id, requestID())
		}
		c.attach(v, s)
		if goes {
			s.own = append(s.own, id)
		}
	}
	return nil
}

func updateServer(c *Cloud, w *work, r *resource, p object) error {
	s, found := c.servers.get(r.id)
	if !found {
		return says("NotFound", "Instance %s could not be found. (HTTP 404) (Request-ID: %s)", r.id, requestID())
	}
	differs := func(name string) bool { return !reflect.DeepEqual(r.properties[name], p[name]) }
	if differs("metadata") {
		s.metadata = texts(p["metadata"])
	}
	if name, ok := p["name"].(string); ok && name != "" {
		s.name = name
	}
	s.updated = time.Now()
	if differs("flavor") {
		f, found := c.findFlavor(asText(p["flavor"]))
		if !found {
			return says("NotFound", "No Flavor matching {'name': '%v'}. (HTTP 404)", p["flavor"])
		}
		if f.id != s.flavor {
			s.flavor, s.status = f.id, "RESIZE"
			w.ready = append(w.ready, func() { c.launch(s, "RESIZE") })
		}
	}
	if differs("image") {
		i, found := c.findImage(asText(p["image"]))
		if !found {
			return says("NotFound", "No images matching {'name': '%v'}.", p["image"])
		}
		if i.id != s.image {
			s.image, s.status = i.id, "REBUILD"
			w.ready = append(w.ready, func() { c.launch(s, "REBUILD") })
		}
	}
	if differs("networks") {
		return c.plug(r, s, list(p["networks"]))
	}
	return nil
}

// texts is metadata as Nova keeps it: each value is a string.
func texts(v any) object {
	out := object{}
	m, _ := v.(object)
	for k, x := range m {
		out[k] = asText(x)
	}
	return out
}
