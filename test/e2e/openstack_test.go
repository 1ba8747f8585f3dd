package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/osenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

// The sample packages of virtual machines, in two versions each. In grouped both VDUs are
// AutoScalingGroups, and VDU2 starts from a volume; in indexed they stand in the top
// template, and VDU2 has a disk beside.
const (
	grouped1 = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b40"
	grouped2 = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b41"
	indexed1 = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b50"
	indexed2 = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b51"
	mixed1   = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b80"
)

var samples = map[string]string{
	grouped1: "vm-asg-1.0", grouped2: "vm-asg-1.1", indexed1: "vm-indexed-1.0", indexed2: "vm-indexed-1.1", mixed1: "mixed-1.0",
}

// cloud is a test's own server, and what the test sees and does at an OpenStack. Of
// the bench it has no Kubernetes.
type cloud struct {
	*bench
	at osenv.Cloud
	// fake is the cloud where it is in this process, nil where it is a real one.
	fake *openstacktest.Cloud
	// provider and where are of a bare client.
	provider *gophercloud.ProviderClient
	where    gophercloud.EndpointOpts
	services map[string]*gophercloud.ServiceClient
	calls    *calls // of the packages' script
	mine     []string
}

// newCloud starts a server with the VIM openstack-a, a real cloud, and packages whose hooks it runs.
func newCloud(t *testing.T, packages ...string) *cloud {
	t.Helper()
	at := osenv.OpenStack(t)
	t.Parallel()
	return cloudAt(t, at, nil, packages)
}

// stackTime is how long Heat of a cloud in this process works on a stack.
const stackTime = 300 * time.Millisecond

// newFakeCloud is newCloud with a cloud in this process. It is for what a real one takes minutes for, and
// proves no more: "make test-openstack" has the driver do each such change at both.
func newFakeCloud(t *testing.T, packages ...string) *cloud {
	t.Helper()
	kit.Long(t)
	t.Parallel()
	fake := openstacktest.New(t, openstacktest.Options{Delay: stackTime})
	vim := fake.VIM()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	text := fmt.Sprintf("clouds: {fake: {region_name: %s, auth: {auth_url: %q, username: %s, password: %s, project_name: %s, user_domain_name: %s, project_domain_name: %s}}}\n",
		vim.Region, vim.Endpoint, vim.Username, vim.Password, vim.Project, vim.UserDomain, vim.ProjectDomain)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return cloudAt(t, osenv.Cloud{File: file, Name: "fake"}, fake, packages)
}

func cloudAt(t *testing.T, at osenv.Cloud, fake *openstacktest.Cloud, packages []string) *cloud {
	t.Helper()
	provider, where, err := at.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{bench: &bench{T: t}, at: at, fake: fake, provider: provider, where: where, services: map[string]*gophercloud.ServiceClient{}, calls: listen(t)}
	for name, connect := range map[string]func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error){
		"heat": openstack.NewOrchestrationV1, "nova": openstack.NewComputeV2, "neutron": openstack.NewNetworkV2, "cinder": openstack.NewBlockStorageV3,
	} {
		if c.services[name], err = connect(provider, where); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	t.Cleanup(c.sweep)
	c.start(filepath.Join(process.ShortTempDir(t), "data"))
	d := c.clone(t, "desired.git")
	d.Write("repositories.yaml", "- name: packages\n  url: packages.git\n  branch: main\n  hooks: true\n")
	d.Write("vims/openstack-a.yaml", c.process.Keep(t, at.VIM()))
	d.Push("Begin")
	d = c.clone(t, "packages/packages.git")
	for _, id := range packages {
		c.lay(filepath.Join(d.Dir(), samples[id]), id)
	}
	d.Push("Publish")
	for _, id := range packages {
		c.process.AwaitPackages(c, id)
	}
	return c
}

// cloudPatience is for operations at a cloud that others use as well, on a machine that has
// other things to do: a server that is replaced takes seconds there, or minutes.
const cloudPatience = 15 * time.Minute

// start starts a server on the data, for such a cloud.
func (c *cloud) start(data string) {
	c.Helper()
	c.server = serve(c.T, data, "--allow-hooks", "--hook-port", c.calls.port(), "--timeout", cloudPatience.String(), "--start-timeout", "4m")
}

// await is the server's, with the patience for a cloud.
func (c *cloud) await(t *testing.T, operation, state string) object {
	t.Helper()
	return c.awaitWithin(t, cloudPatience, operation, state)
}

// run is begin and await COMPLETED.
func (c *cloud) run(t *testing.T, instance, task string, body any) object {
	t.Helper()
	return c.await(t, c.begin(t, instance, task, body), "COMPLETED")
}

// lay copies a sample, with a script in place of its own that tells of its calls.
func (c *cloud) lay(dir, id string) {
	c.Helper()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(process.Root(), "examples", "packages", samples[id]))); err != nil {
		c.Fatal(err)
	}
	d := process.WorkTreeAt(c, dir)
	// Its checksums are of files that aren't here any more.
	meta := d.Read("TOSCA-Metadata/TOSCA.meta")
	head, _, _ := strings.Cut(meta, "\n\n")
	d.Write("TOSCA-Metadata/TOSCA.meta", head+"\n")
	d.Write("Scripts/tell.sh", c.calls.script())
	if err := os.Chmod(filepath.Join(dir, "Scripts", "tell.sh"), 0o755); err != nil {
		c.Fatal(err)
	}
}

// ask makes a request of a service.
func (c *cloud) ask(ctx context.Context, service, method string, body any, path ...string) (object, error) {
	client := c.services[service]
	var answer object
	opts := &gophercloud.RequestOpts{JSONBody: body, OkCodes: []int{200, 201, 202, 204}}
	if method == http.MethodGet || method == http.MethodPost && !strings.HasSuffix(path[len(path)-1], "action") {
		opts.JSONResponse = &answer
	}
	if body == nil {
		opts.JSONBody = nil
	}
	_, err := client.Request(ctx, method, client.ServiceURL(path...), opts)
	return answer, err
}

// do is ask that has to succeed.
func (c *cloud) do(service, method string, body any, path ...string) object {
	c.Helper()
	answer, err := c.ask(c.Context(), service, method, body, path...)
	if err != nil {
		c.Fatalf("%s %s %v: %v", service, method, path, err)
	}
	return answer
}

// machine is a server of the instance, as Nova tells.
type machine struct {
	id, vdu, image, status, generation, created string
}

// machines are the instance's servers, by VDU and then by age.
func (c *cloud) machines(id string) []machine {
	c.Helper()
	var all []machine
	list := c.do("nova", "GET", nil, "servers/detail").list("servers")
	slices.SortStableFunc(list, func(a, b object) int { return strings.Compare(a.text("created"), b.text("created")) })
	for _, s := range list {
		if s.text("metadata", "jibe_instance") == id && s.text("OS-EXT-STS:task_state") != "deleting" {
			all = append(all, machine{id: s.text("id"), vdu: s.text("metadata", "jibe_vdu"), image: s.text("image", "id"), status: s.text("status"), created: s.text("created"),
				generation: s.text("metadata", "jibe_generation")})
		}
	}
	slices.SortStableFunc(all, func(a, b machine) int { return strings.Compare(a.vdu, b.vdu) })
	return all
}

// serversOf are the ids of the VDU's servers, oldest first.
func (c *cloud) serversOf(id, vdu string) []string {
	c.Helper()
	var all []string
	for _, m := range c.machines(id) {
		if m.vdu == vdu {
			all = append(all, m.id)
		}
	}
	return all
}

// stacks are the ids of the instance's stacks, by name, nested ones left out.
func (c *cloud) stacks(ctx context.Context, id string) (map[string]string, error) {
	answer, err := c.ask(ctx, "heat", "GET", nil, "stacks")
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, s := range answer.list("stacks") {
		if name := s.text("stack_name"); strings.HasPrefix(name, "vnf-"+id) {
			if all[name] != "" {
				c.Errorf("there are two stacks %s", name)
			}
			all[name] = s.text("id")
		}
	}
	return all, nil
}

// stack is the id of the instance's only stack, which has the name.
func (c *cloud) stack(id, name string) string {
	c.Helper()
	all, err := c.stacks(c.Context(), id)
	if err != nil || len(all) != 1 || all[name] == "" {
		c.Fatalf("the stacks are %v (%v), want %s alone", all, err, name)
	}
	return all[name]
}

// volumes are the ids of the volumes whose name tells that they are the instance's.
func (c *cloud) volumes(id string) []string {
	c.Helper()
	var all []string
	for _, v := range c.do("cinder", "GET", nil, "volumes").list("volumes") {
		if strings.Contains(v.text("name"), id) {
			all = append(all, v.text("id"))
		}
	}
	slices.Sort(all)
	return all
}

// nothingIsLeft looks for what the instance had, at each service.
func (c *cloud) nothingIsLeft(id string) {
	c.Helper()
	stacks, err := c.stacks(c.Context(), id)
	if err != nil || len(stacks) > 0 {
		c.Errorf("stacks are left: %v %v", stacks, err)
	}
	if all := c.machines(id); len(all) > 0 {
		c.Errorf("servers are left: %v", all)
	}
	if all := c.volumes(id); len(all) > 0 {
		c.Errorf("volumes are left: %v", all)
	}
	for _, p := range c.do("neutron", "GET", nil, "ports").list("ports") {
		if strings.Contains(p.text("name"), id) {
			c.Errorf("port %s (%s) is left", p.text("name"), p.text("id"))
		}
	}
}

// own has what a failed test leaves of the instance deleted at its end.
func (c *cloud) own(id string) string {
	c.mine = append(c.mine, id)
	return id
}

func (c *cloud) sweep() {
	ctx := c.background()
	if c.server != nil {
		c.process.Kill() // it would make stacks anew
	}
	for _, id := range c.mine {
		err := kit.Poll(ctx, cloudPatience, func() error {
			stacks, err := c.stacks(ctx, id)
			if err != nil {
				return err
			}
			for name, stack := range stacks {
				if _, err := c.ask(ctx, "heat", "DELETE", nil, "stacks", name, stack); err != nil {
					c.Logf("delete stack %s: %v", name, err)
				}
			}
			if len(stacks) > 0 {
				return fmt.Errorf("%d stacks of %s are left", len(stacks), id)
			}
			return nil
		})
		if err != nil {
			c.Error(err)
		}
	}
}

// network makes a network with a subnet, which goes at the end of the test.
func (c *cloud) network(cidr string) string {
	c.Helper()
	id := c.do("neutron", "POST", object{"network": object{"name": "e2e-" + uuid.NewString()[:8]}}, "networks").text("network", "id")
	c.do("neutron", "POST", object{"subnet": object{"network_id": id, "ip_version": 4, "cidr": cidr}}, "subnets")
	c.Cleanup(func() {
		c.sweep() // ports would keep it
		if _, err := c.ask(c.background(), "neutron", "DELETE", nil, "networks", id); err != nil {
			c.Errorf("delete network %s: %v", id, err)
		}
	})
	return id
}

// login is what clouds.yaml says of the cloud.
type login struct {
	Region string            `yaml:"region_name"`
	CACert string            `yaml:"cacert"`
	Auth   map[string]string `yaml:"auth"`
}

func (c *cloud) login() login {
	c.Helper()
	var file struct {
		Clouds map[string]login `yaml:"clouds"`
	}
	text, err := os.ReadFile(c.at.File)
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		c.Fatal(err)
	}
	return file.Clouds[c.at.Name]
}

// inline is a VimConnectionInfo for the cloud.
func (c *cloud) inline() object {
	c.Helper()
	l := c.login()
	to := object{"endpoint": l.Auth["auth_url"]}
	if l.CACert != "" {
		pem, err := os.ReadFile(l.CACert)
		if err != nil {
			c.Fatal(err)
		}
		to["ssl_ca_cert"] = string(pem)
	}
	access := object{"region": l.Region}
	for to, from := range map[string]string{
		"username": "username", "password": "password", "project": "project_name", "projectDomain": "project_domain_name", "userDomain": "user_domain_name",
		"applicationCredentialId": "application_credential_id", "applicationCredentialSecret": "application_credential_secret",
	} {
		if v := l.Auth[from]; v != "" {
			access[to] = v
		}
	}
	return object{"vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3", "interfaceInfo": to, "accessInfo": access}
}

// secret is what nobody may see of the cloud's credentials.
func (c *cloud) secret() string {
	c.Helper()
	l := c.login()
	if s := l.Auth["application_credential_secret"]; s != "" {
		return s
	}
	return l.Auth["password"]
}

// link is an ExtVirtualLink with connection points that get any address.
func link(id, network string, cps ...string) object {
	var all []object
	for _, cp := range cps {
		all = append(all, object{"cpdId": cp, "cpConfig": object{id + "-" + cp: object{"cpProtocolData": []object{{"layerProtocol": "IP_OVER_ETHERNET",
			"ipOverEthernet": object{"ipAddresses": []object{{"type": "IPV4", "numDynamicAddresses": 1}}}}}}}})
	}
	return object{"id": id, "resourceId": network, "extCps": all}
}

// vnfcs are the vnfcResourceInfo of the VDU.
func (c *cloud) vnfcs(id, vdu string) []object {
	c.Helper()
	return slices.DeleteFunc(c.show(c.T, id).list("instantiatedVnfInfo", "vnfcResourceInfo"), func(v object) bool { return v.text("vduId") != vdu })
}

// shown compares the VNFCs that the API shows with the servers that there are.
func (c *cloud) shown(id string) {
	c.Helper()
	var there, shown []string
	for _, m := range c.machines(id) {
		there = append(there, m.vdu+" "+m.id)
		if m.status != "ACTIVE" {
			c.Errorf("%+v", m)
		}
	}
	for _, v := range c.show(c.T, id).list("instantiatedVnfInfo", "vnfcResourceInfo") {
		shown = append(shown, v.text("vduId")+" "+v.text("computeResource", "resourceId"))
	}
	slices.Sort(there)
	slices.Sort(shown)
	if !slices.Equal(there, shown) {
		c.Errorf("the API shows %v, and there are %v", shown, there)
	}
}

// step says how long the test took so far: each action at a cloud costs seconds.
func (c *cloud) step(format string, args ...any) {
	c.Helper()
	c.Logf("%s %s", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
