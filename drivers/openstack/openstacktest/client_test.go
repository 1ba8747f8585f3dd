package openstacktest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/test/kit"
)

type object = map[string]any

// client speaks to a cloud, real or not, with nothing between.
type client struct {
	t         *testing.T
	token     string
	endpoints map[string]string // by type
	slow      bool              // it is a real cloud
}

func connect(t *testing.T, vim drivers.VIM) *client {
	t.Helper()
	c := &client{t: t, endpoints: map[string]string{}}
	domain := object{"name": vim.UserDomain}
	identity := object{"methods": []any{"password"}, "password": object{"user": object{"name": vim.Username, "domain": domain, "password": vim.Password}}}
	auth := object{"identity": identity, "scope": object{"project": object{"name": vim.Project, "domain": object{"name": vim.ProjectDomain}}}}
	if vim.ApplicationCredential != "" {
		auth = object{"identity": object{"methods": []any{"application_credential"}, "application_credential": object{"id": vim.ApplicationCredential, "secret": vim.ApplicationCredentialSecret}}}
	}
	r := c.send("POST", vim.Endpoint+"/auth/tokens", object{"auth": auth})
	if r.status != http.StatusCreated {
		t.Fatalf("Keystone answers %d: %s", r.status, r.text)
	}
	c.token = r.header.Get("X-Subject-Token")
	for _, s := range r.body["token"].(object)["catalog"].([]any) {
		for _, e := range s.(object)["endpoints"].([]any) {
			if e := e.(object); e["interface"] == "public" && e["region"] == vim.Region {
				c.endpoints[s.(object)["type"].(string)] = e["url"].(string)
			}
		}
	}
	return c
}

type reply struct {
	status int
	header http.Header
	text   string
	body   object
}

func (c *client) send(method, url string, body any, header ...string) reply {
	c.t.Helper()
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		in = bytes.NewReader(data)
	}
	q, err := http.NewRequest(method, url, in)
	if err != nil {
		c.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	if c.token != "" {
		q.Header.Set("X-Auth-Token", c.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := (&http.Client{Timeout: time.Minute}).Do(q)
	if err != nil {
		return reply{text: err.Error()}
	}
	defer func() { _ = a.Body.Close() }()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	r := reply{status: a.StatusCode, header: a.Header, text: string(data)}
	_ = json.Unmarshal(data, &r.body) // some answers are no objects
	return r
}

// ask sends a request to the service of the type, and wants the status.
func (c *client) ask(want int, method, service, path string, body any, header ...string) reply {
	c.t.Helper()
	r := c.send(method, strings.TrimSuffix(c.endpoints[service], "/")+path, body, header...)
	if r.status != want {
		c.t.Fatalf("%s %s %s answers %d, want %d: %s", method, service, path, r.status, want, r.text)
	}
	return r
}

// await waits until nothing is in progress with the stack; it is the status then.
func (c *client) await(stack string) string {
	c.t.Helper()
	patience := kit.Patience
	if c.slow {
		patience = 15 * time.Minute
	}
	status := ""
	kit.EventuallyWithin(c.t, patience, func() error {
		r := c.send("GET", c.endpoints["orchestration"]+"/stacks/"+stack, nil)
		if r.status == http.StatusNotFound {
			status = "DELETE_COMPLETE"
			return nil
		}
		shown, _ := r.body["stack"].(object)
		status, _ = shown["stack_status"].(string)
		if status != "" && !strings.HasSuffix(status, "_IN_PROGRESS") {
			return nil
		}
		if c.slow {
			kit.Pause(c.t.Context(), time.Second) // a real cloud is spared
		}
		return fmt.Errorf("stack %s is still in progress", stack)
	})
	return status
}

const groupTemplate = `
heat_template_version: 2013-05-23
description: a group and a single server
parameters:
  nfv: {type: json}
resources:
  VDU1_group:
    type: OS::Heat::AutoScalingGroup
    depends_on: subnet
    properties:
      min_size: 0
      max_size: 10
      desired_capacity: {get_param: [nfv, VDU, VDU1, desired_capacity]}
      resource:
        type: VDU1.yaml
        properties:
          image: {get_param: [nfv, VDU, VDU1, vcImageId]}
          net: {get_resource: internal}
  internal: {type: OS::Neutron::Net}
  subnet:
    type: OS::Neutron::Subnet
    properties: {network: {get_resource: internal}, cidr: 192.168.7.0/24, ip_version: 4}
  CP2:
    type: OS::Neutron::Port
    properties: {network: net0}
  VDU2:
    type: OS::Nova::Server
    depends_on: subnet
    properties: {flavor: m1.tiny, image: img1, networks: [{port: {get_resource: CP2}}], metadata: {a: b}}
  volume:
    type: OS::Cinder::Volume
    properties: {size: 1}
  attachment:
    type: OS::Cinder::VolumeAttachment
    properties: {instance_uuid: {get_resource: VDU2}, volume_id: {get_resource: volume}}
outputs:
  ip: {value: {get_attr: [VDU2, first_address]}}
`

const memberTemplate = `
heat_template_version: 2013-05-23
parameters:
  image: {type: string}
  net: {type: string}
resources:
  VDU1:
    type: OS::Nova::Server
    properties: {flavor: m1.tiny, image: {get_param: image}, networks: [{port: {get_resource: CP1}}]}
  CP1:
    type: OS::Neutron::Port
    properties: {network: {get_param: net}}
`

func nfv(n int, image string) object {
	return object{"nfv": object{"VDU": object{"VDU1": object{"desired_capacity": n, "vcImageId": image}}}}
}

func body(name string, n int, image string) object {
	return object{
		"stack_name": name, "template": groupTemplate, "files": object{"VDU1.yaml": memberTemplate}, "parameters": nfv(n, image),
		"tags": "jibe,jibe-instance:x", "timeout_mins": 20, "disable_rollback": true,
	}
}

func fake(t *testing.T, delay time.Duration) (*openstacktest.Cloud, *client) {
	t.Helper()
	cloud := openstacktest.New(t, openstacktest.Options{Delay: delay})
	return cloud, connect(t, cloud.VIM())
}

// resources are those of the stack and of all that are nested in it.
func (c *client) resources(stack string) []object {
	c.t.Helper()
	var list []object
	for _, r := range c.ask(http.StatusOK, "GET", "orchestration", "/stacks/"+stack+"/resources?nested_depth=5", nil).body["resources"].([]any) {
		list = append(list, r.(object))
	}
	return list
}

func ofType(list []object, kind string) []object {
	var out []object
	for _, r := range list {
		if r["resource_type"] == kind {
			out = append(out, r)
		}
	}
	return out
}
