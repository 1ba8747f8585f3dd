// Package params reads the parameters of a VNF that is a Kubernetes cluster: what an instance's
// k8s_cluster_installation_param says. It is pure: it opens no file and knows no hook, so that
// whoever wants to know whether the driver takes an instance's parameters may ask.
package params

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Name is the instance's parameter that the driver reads.
const Name = "k8s_cluster_installation_param"

// Defaults of what may be left out.
const (
	DefaultDrain      = 5 * time.Minute
	DefaultJoin       = 10 * time.Minute
	DefaultForce      = time.Minute
	DefaultParallel   = 5
	DefaultKubeconfig = "/etc/kubernetes/admin.conf"
	// DefaultBalancerPort is where haproxy listens: 6443 is the API server's own.
	DefaultBalancerPort = 16443

	maxParallel = 50
	apiPort     = 6443
)

// Settings hold what the parameters say.
type Settings struct {
	Script         string // in the package; "" for the driver's own
	Master, Worker Role
	// PodCIDR and ServiceCIDR are subnets, CNI a manifest in the package or a URL, all
	// for the first master; "" leaves it to its script.
	PodCIDR, ServiceCIDR, CNI string
	// Endpoint is host:port of the API server where it is neither the first master nor what
	// Balancer says.
	Endpoint string
	Balancer Balancer
	// VIM is what the cluster is called as a VIM; "" makes it none.
	VIM   string
	Proxy map[string]string // environment of the script
	SSH   SSH
	Install
	// DrainTime bounds moving pods away, JoinTime bringing one machine in; ForceAfter is how
	// long pods on a node that is down get.
	DrainTime, JoinTime, ForceAfter time.Duration
	Parallel                        int
	Kubeconfig                      string // on masters
}

// Install says where a machine gets what it lacks, and which version.
type Install struct {
	// Version is "1.33" or "1.33.2"; "" takes what there is.
	Version string
	// Artifacts is a directory of the package with all that a machine needs, "" where
	// packages of its operating system are taken.
	Artifacts string
	// Repository is where packages come from beside those that the machine knows, and
	// RepositoryKey the file of the package with the key that has signed them.
	Repository, RepositoryKey string
	// IgnorePreflight are the checks of kubeadm's whose failures are warnings.
	IgnorePreflight string
}

// Role is the masters or the workers.
type Role struct {
	Field                   string // where in the parameters
	VDU, Aspect             string
	SSHCP, NicCP, ClusterCP string
	User, Password          string
}

// Balancer is haproxy on the masters, and the address that keepalived moves between them.
type Balancer struct {
	// Wanted is true where the parameters ask for it by name.
	Wanted bool
	// Address is the virtual one; "" where the connection point has to say it.
	Address string
	// Floating is what others reach Address by; "" where that is Address.
	Floating string
	Port     int
	// RouterID is VRRP's, 1 to 255; 0 takes the last number of Address.
	RouterID int
}

// SSH is how machines are logged in to.
type SSH struct {
	KnownHosts           string
	AcceptNew            bool
	Port                 int
	Identity, Passphrase string
	Jump                 *Jump
}

// Jump is the host from which the machines are reached.
type Jump struct {
	Host, User, Password, Identity, Passphrase string
	Port                                       int
}

// Accepts returns nil where the driver of Kubernetes clusters takes an instance's parameters,
// and else an error that names each field that is missing, wrong or unknown. It needs nothing
// but them: secrets may still be references, and neither the package nor the VIM is looked at.
func Accepts(params map[string]any) error {
	_, _, err := Read(params)
	return err
}

// Read reads an instance's parameters, and says which of the values are secrets. The error
// names each field that is wrong, and holds no secret.
func Read(params map[string]any) (Settings, []string, error) {
	r := &reader{}
	value, there := params[Name]
	if !there {
		return Settings{}, nil, fmt.Errorf("params.%s is missing: the driver of Kubernetes clusters needs it", Name)
	}
	f := r.section(Name, value)
	if f.values == nil && len(r.problems) == 0 {
		f.wrong(Name, "is empty: the driver of Kubernetes clusters needs it")
	}
	s := Settings{
		Script:     f.text("script_path", false),
		Master:     f.role("master_node"),
		Worker:     f.role("worker_node"),
		DrainTime:  f.duration("drain_timeout", DefaultDrain),
		JoinTime:   f.duration("join_timeout", DefaultJoin),
		ForceAfter: f.duration("force_after", DefaultForce),
		Parallel:   f.number("parallel", DefaultParallel, 1, maxParallel),
		Kubeconfig: f.text("kubeconfig_path", false),
		CNI:        f.text("cni", false),
		VIM:        f.text("vim_name", false),
	}
	if s.Kubeconfig == "" {
		s.Kubeconfig = DefaultKubeconfig
	}
	m := f.sub("master_node")
	s.PodCIDR, s.ServiceCIDR = m.subnet("pod_cidr"), m.subnet("cluster_cidr")
	f.readEndpoint(&s)
	f.readInstall(&s.Install)
	f.readProxy(&s)
	f.readSSH(&s.SSH)
	for _, one := range []Role{s.Master, s.Worker} {
		if one.Password == "" && s.SSH.Identity == "" && one.User != "" {
			r.wrong(f.path+"."+one.Field+".password", "is missing, and there is no ssh.identity in its place")
		}
	}
	r.unknown()
	return s, r.secrets, r.err()
}

func (f *fields) role(name string) Role {
	s := f.must(name)
	one := Role{
		Field: name, VDU: s.text("vdu_id", false), Aspect: s.text("aspect_id", false),
		SSHCP: s.text("ssh_cp_name", true), NicCP: s.text("nic_cp_name", true),
		User: s.text("username", true), Password: s.secret("password"),
	}
	if name == "master_node" {
		one.ClusterCP = s.text("cluster_cp_name", false)
	}
	if s.there() && one.VDU == "" && one.Aspect == "" {
		f.wrong(s.path+".vdu_id", "is missing, and there is no aspect_id in its place")
	}
	return one
}

// readEndpoint reads where the API server of all masters is.
func (f *fields) readEndpoint(s *Settings) {
	s.Endpoint = f.text("endpoint", false)
	if s.Endpoint != "" {
		if host, port, err := net.SplitHostPort(s.Endpoint); err != nil || host == "" || port == "" {
			f.wrong(f.path+".endpoint", "must be host:port, not %q", s.Endpoint)
		}
	}
	b := f.sub("load_balancer")
	s.Balancer = Balancer{
		Wanted: b.there(), Address: b.address("virtual_address"), Floating: b.address("floating_address"),
		Port: b.number("port", DefaultBalancerPort, 1, 65535), RouterID: b.number("router_id", 0, 1, 255),
	}
	if s.Balancer.Port == apiPort {
		f.wrong(b.path+".port", "can't be %d, which is the API server's own on the same machines", apiPort)
	}
	if b.there() && s.Endpoint != "" {
		f.wrong(f.path+".endpoint", "says that somebody else forwards to the masters, and load_balancer that they shall do it by themselves: leave one out")
	}
	if m := f.sub("master_node"); m.text("cluster_fip_name", false) != "" && s.Balancer.Floating == "" && s.Endpoint == "" {
		f.wrong(m.path+".cluster_fip_name", "names a floating IP, whose address no machine tells: give the address as %s.load_balancer.floating_address, too, or endpoint", f.path)
	}
}

// Oldest is the first minor version of Kubernetes 1 that the driver installs.
const Oldest = 30

func (f *fields) readInstall(to *Install) {
	*to = Install{
		Version:    strings.TrimPrefix(f.text("kubernetes_version", false), "v"),
		Artifacts:  f.inPackage("artifacts"),
		Repository: f.text("package_repository", false), RepositoryKey: f.inPackage("package_repository_key"),
		IgnorePreflight: f.text("ignore_preflight_errors", false),
	}
	if why := unsupported(to.Version); why != "" {
		f.wrong(f.path+".kubernetes_version", "%s", why)
	}
	if to.Repository != "" && to.RepositoryKey == "" {
		f.wrong(f.path+".package_repository_key", "is missing: without the key that has signed them, nobody knows whose packages these are")
	}
	if to.Repository == "" && to.RepositoryKey != "" {
		f.wrong(f.path+".package_repository", "is missing, and its key is given")
	}
	if to.Artifacts != "" && to.Repository != "" {
		f.wrong(f.path+".package_repository", "and artifacts can't both say where a machine gets what it lacks: leave one out")
	}
}

// unsupported says why a version can't be installed, "" where it can.
func unsupported(version string) string {
	if version == "" {
		return ""
	}
	parts := versionForm.FindStringSubmatch(version)
	if parts == nil {
		return fmt.Sprintf("must be a version such as 1.33 or 1.33.2, not %q", version)
	}
	if minor, err := strconv.Atoi(parts[1]); err != nil || minor < Oldest {
		return fmt.Sprintf("%s is too old: the driver installs 1.%d and newer", version, Oldest)
	}
	return ""
}

// versionForm is that of a version without its "v".
var versionForm = regexp.MustCompile(`^1\.([0-9]{1,3})(\.[0-9]{1,3})?$`)

// inPackage returns a path below the package's top.
func (f *fields) inPackage(name string) string {
	value := f.text(name, false)
	if value == "" {
		return ""
	}
	value = path.Clean(value)
	if path.IsAbs(value) || value == "." || value == ".." || strings.HasPrefix(value, "../") {
		f.wrong(f.path+"."+name, "must be a path in the package, not %q", value)
	}
	return value
}

func (f *fields) address(name string) string {
	value := f.text(name, false)
	if value == "" {
		return ""
	}
	a, err := netip.ParseAddr(value)
	if err != nil {
		f.wrong(f.path+"."+name, "must be an IP address, not %q", value)
		return ""
	}
	return a.String()
}

func (f *fields) readProxy(s *Settings) {
	p := f.sub("proxy")
	s.Proxy = map[string]string{}
	var without []string
	for _, name := range []string{"http_proxy", "https_proxy"} {
		// They may hold a password.
		if value := p.secret(name); value != "" {
			s.Proxy[name], s.Proxy[strings.ToUpper(name)] = value, value
		}
	}
	for _, value := range []string{p.text("no_proxy", false), p.text("k8s_node_cidr", false), s.PodCIDR, s.ServiceCIDR} {
		if value != "" {
			without = append(without, value)
		}
	}
	if len(s.Proxy) > 0 && len(without) > 0 {
		list := strings.Join(without, ",")
		s.Proxy["no_proxy"], s.Proxy["NO_PROXY"] = list, list
	}
}

func (f *fields) readSSH(s *SSH) {
	x := f.sub("ssh")
	s.KnownHosts = x.text("known_hosts", false)
	s.AcceptNew = x.boolean("accept_new")
	s.Port = x.number("port", 22, 1, 65535)
	s.Identity, s.Passphrase = x.secret("identity"), x.secret("passphrase")
	if j := x.sub("jump"); j.there() {
		s.Jump = &Jump{
			Host: j.text("host", true), Port: j.number("port", 22, 1, 65535), User: j.text("username", true),
			Password: j.secret("password"), Identity: j.secret("identity"), Passphrase: j.secret("passphrase"),
		}
		if s.Jump.Password == "" && s.Jump.Identity == "" {
			s.Jump.Identity, s.Jump.Passphrase = s.Identity, s.Passphrase
		}
		if s.Jump.Password == "" && s.Jump.Identity == "" {
			f.wrong(j.path+".password", "is missing, and there is no identity in its place")
		}
	}
}
