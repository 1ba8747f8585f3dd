package openstacktest

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

type image struct {
	id, name string
	created  time.Time
}

type volume struct {
	id, name, server string
	size             int
	bootable         bool
	kind             string
	metadata         object
	attached         time.Time
	created, updated time.Time
}

func (c *Cloud) findImage(ref string) (*image, bool) {
	if i, ok := c.images.get(ref); ok {
		return i, true
	}
	return c.images.find(func(i *image) bool { return i.name == ref })
}

// image answers for Glance.
func (c *Cloud) image(in *call) answer {
	switch {
	case in.is(http.MethodGet, "v2", "images"):
		list := []any{}
		c.images.all(func(i *image) bool {
			if name := in.query.Get("name"); name == "" || name == i.name {
				list = append(list, c.imageJSON(i))
			}
			return true
		})
		slices.Reverse(list)
		return ok(object{"images": list, "first": "/v2/images", "schema": "/v2/schemas/images"})
	case in.is(http.MethodGet, "v2", "images", "*"):
		if i, found := c.images.get(in.path[2]); found {
			return ok(c.imageJSON(i))
		}
		return fail(Glance, http.StatusNotFound, "", "No image found with ID "+in.path[2])
	}
	return fail(Glance, http.StatusNotFound, "", "The resource could not be found.")
}

func (c *Cloud) imageJSON(i *image) object {
	return object{
		"name": i.name, "disk_format": "raw", "container_format": "bare", "visibility": "public", "size": 65536, "virtual_size": 65536,
		"status": "active", "checksum": "fcd6bcb56c1689fcef28b57c22475bad", "protected": false, "min_ram": 0, "min_disk": 0, "owner": c.project,
		"os_hidden": false, "os_hash_algo": "sha512", "os_hash_value": strings.Repeat("0", 128), "id": i.id, "created_at": zulu(i.created),
		"updated_at": zulu(i.created), "tags": []any{}, "self": "/v2/images/" + i.id, "file": "/v2/images/" + i.id + "/file", "schema": "/v2/schemas/image",
		"stores": "file",
	}
}

// cinder answers for Cinder.
func (c *Cloud) cinder(in *call) answer {
	switch {
	case in.is(http.MethodGet, "volumes"), in.is(http.MethodGet, "volumes", "detail"):
		var all []*volume
		c.volumes.all(func(v *volume) bool { all = append(all, v); return true })
		slices.Reverse(all)
		shown, more := page(all, func(v *volume) string { return v.id }, in.query, 1000)
		list := []any{}
		for _, v := range shown {
			if len(in.path) == 1 {
				list = append(list, object{"id": v.id, "name": v.name, "links": c.volumeLinks(v)})
				continue
			}
			list = append(list, c.volumeJSON(v))
		}
		out := object{"volumes": list}
		if more {
			q := in.query
			q.Set("marker", shown[len(shown)-1].id)
			out["volumes_links"] = []any{object{"rel": "next", "href": c.endpoint(Cinder) + "/" + strings.Join(in.path, "/") + "?" + q.Encode()}}
		}
		return ok(out)
	case in.is(http.MethodGet, "volumes", "*"):
		if v, found := c.volumes.get(in.path[1]); found {
			return ok(object{"volume": c.volumeJSON(v)})
		}
		return fail(Cinder, http.StatusNotFound, "", "Volume "+in.path[1]+" could not be found.")
	}
	return fail(Cinder, http.StatusNotFound, "", "The resource could not be found.")
}

func (c *Cloud) volumeLinks(v *volume) []any {
	return []any{
		object{"rel": "self", "href": c.endpoint(Cinder) + "/volumes/" + v.id},
		object{"rel": "bookmark", "href": c.URL(Cinder) + "/" + c.project + "/volumes/" + v.id},
	}
}

func (c *Cloud) volumeJSON(v *volume) object {
	attachments := []any{}
	status, boots := "available", "false"
	if v.server != "" {
		status = "in-use"
		attachments = append(attachments, object{
			"id": v.id, "attachment_id": v.id, "volume_id": v.id, "server_id": v.server, "host_name": "lab-compute", "device": "/dev/sdb",
			"attached_at": micro(v.attached),
		})
	}
	if v.bootable {
		boots = "true"
	}
	return object{
		"id": v.id, "status": status, "size": v.size, "availability_zone": "nova", "created_at": micro(v.created), "updated_at": micro(v.updated),
		"name": v.name, "description": nil, "volume_type": v.kind, "snapshot_id": nil, "source_volid": nil, "metadata": v.metadata,
		"links": c.volumeLinks(v), "user_id": c.user, "bootable": boots, "encrypted": false, "replication_status": nil, "consistencygroup_id": nil,
		"multiattach": false, "attachments": attachments, "os-vol-tenant-attr:tenant_id": c.project,
	}
}

func (c *Cloud) makeVolume(name string, size int) *volume {
	v := &volume{id: uuid.NewString(), name: name, size: size, kind: "__DEFAULT__", metadata: object{}, created: time.Now(), updated: time.Now()}
	c.volumes.add(v.id, v)
	return v
}

func (c *Cloud) attach(v *volume, s *server) {
	v.server, v.attached, v.updated = s.id, time.Now(), time.Now()
	if !slices.Contains(s.volumes, v.id) {
		s.volumes = append(s.volumes, v.id)
	}
}

func (c *Cloud) detach(v *volume) {
	if s, ok := c.servers.get(v.server); ok {
		s.volumes = slices.DeleteFunc(s.volumes, func(id string) bool { return id == v.id })
	}
	v.server, v.updated = "", time.Now()
}

func volumeKind() *kind {
	return &kind{
		updatable: []string{"size", "backup_id", "name", "description", "volume_type", "metadata", "read_only"},
		others:    []string{"availability_zone", "snapshot_id", "imageRef", "image", "source_volid", "scheduler_hints", "multiattach"},
		verify: func(c *Cloud, where string, p object) error {
			if i := p["image"]; !isUnset(i) {
				if _, ok := c.findImage(asText(i)); !ok {
					return badValue(where, "image", i, fmt.Sprintf("No images matching {'name': '%v'}.", i))
				}
			}
			return nil
		},
		create: func(c *Cloud, w *work, r *resource, p object) (string, error) {
			v := c.makeVolume(physicalName(r, p, 0), whole(p["size"]))
			v.bootable = p["image"] != nil || p["imageRef"] != nil
			v.metadata = texts(p["metadata"])
			if kind := asText(p["volume_type"]); kind != "" {
				v.kind = kind
			}
			return v.id, nil
		},
		update: func(c *Cloud, w *work, r *resource, p object) error {
			v, ok := c.volumes.get(r.id)
			if !ok {
				return says("NotFound", "Volume %s could not be found. (HTTP 404)", r.id)
			}
			if size := whole(p["size"]); size < v.size {
				return says("NotSupported", "Shrinking volume is not supported.")
			} else if size > v.size {
				v.size = size
			}
			if !reflect.DeepEqual(r.properties["metadata"], p["metadata"]) {
				v.metadata = texts(p["metadata"])
			}
			if name, ok := p["name"].(string); ok {
				v.name = name
			}
			v.updated = time.Now()
			return nil
		},
		destroy: func(c *Cloud, r *resource) {
			if v, ok := c.volumes.get(r.id); ok {
				c.detach(v)
				c.volumes.remove(r.id)
			}
		},
		broken: func(c *Cloud, r *resource) bool { _, ok := c.volumes.get(r.id); return !ok },
	}
}

func attachmentKind() *kind {
	join := func(c *Cloud, p object) (string, error) {
		v, ok := c.volumes.get(asText(p["volume_id"]))
		if !ok {
			return "", says("NotFound", "Volume %v could not be found. (HTTP 404)", p["volume_id"])
		}
		s, ok := c.servers.get(asText(p["instance_uuid"]))
		if !ok {
			return "", says("NotFound", "Instance %v could not be found. (HTTP 404)", p["instance_uuid"])
		}
		c.attach(v, s)
		return v.id, nil
	}
	leave := func(c *Cloud, r *resource) {
		if v, ok := c.volumes.get(asText(r.properties["volume_id"])); ok && v.server == asText(r.properties["instance_uuid"]) {
			c.detach(v)
		}
	}
	return &kind{
		updatable: []string{"instance_uuid", "volume_id", "mountpoint"},
		required:  []string{"instance_uuid", "volume_id"},
		create:    func(c *Cloud, w *work, r *resource, p object) (string, error) { return join(c, p) },
		update: func(c *Cloud, w *work, r *resource, p object) (err error) {
			leave(c, r)
			r.id, err = join(c, p)
			return err
		},
		destroy: leave,
		broken:  func(*Cloud, *resource) bool { return false },
	}
}
