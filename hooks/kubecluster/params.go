package kubecluster

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// paramName is the instance's parameter that the driver reads.
const paramName = "k8s_cluster_installation_param"

// Defaults of what may be left out.
const (
	defaultDrain      = 5 * time.Minute
	defaultJoin       = 10 * time.Minute
	defaultForce      = time.Minute
	defaultParallel   = 5
	maxParallel       = 50
	defaultKubeconfig = "/etc/kubernetes/admin.conf"
)

// settings hold what the instance's parameters say.
type settings struct {
	script         string // in the package
	master, worker role
	// podCIDR and serviceCIDR are subnets, cni a manifest in the package or a URL, all
	// for the first master; "" leaves it to its script.
	podCIDR, serviceCIDR, cni string
	// at is host:port of the API server where it isn't the first master.
	at string
	// vim is what the cluster is called as a VIM; "" makes it none.
	vim   string
	proxy map[string]string // environment of the script
	ssh   sshSettings
	// drainTime bounds moving pods away, joinTime bringing one machine in; forceAfter is how
	// long pods on a node that is down get.
	drainTime, joinTime, forceAfter time.Duration
	parallel                        int
	kubeconfig                      string // on masters
}

// role is the masters or the workers.
type role struct {
	field                   string // where in the parameters
	vdu, aspect             string
	vdus                    []string // that play it; see findVDUs
	sshCP, nicCP, clusterCP string
	user, password          string
}

type sshSettings struct {
	knownHosts           string
	acceptNew            bool
	port                 int
	identity, passphrase string
	jump                 *jumpSettings
}

type jumpSettings struct {
	host, user, password, identity, passphrase string
	port                                       int
}

// readSettings reads the parameters, and says which of the values are secrets. The error
// names each field that is wrong.
func readSettings(params map[string]any) (settings, []string, error) {
	r := &reader{}
	value, there := params[paramName]
	if !there {
		return settings{}, nil, fmt.Errorf("params.%s is missing: the driver of Kubernetes clusters needs it", paramName)
	}
	f := r.section(paramName, value)
	s := settings{
		script:     f.text("script_path", true),
		master:     f.role("master_node"),
		worker:     f.role("worker_node"),
		drainTime:  f.duration("drain_timeout", defaultDrain),
		joinTime:   f.duration("join_timeout", defaultJoin),
		forceAfter: f.duration("force_after", defaultForce),
		parallel:   f.number("parallel", defaultParallel, 1, maxParallel),
		kubeconfig: f.text("kubeconfig_path", false),
		cni:        f.text("cni", false),
		at:         f.text("endpoint", false),
		vim:        f.text("vim_name", false),
	}
	if s.kubeconfig == "" {
		s.kubeconfig = defaultKubeconfig
	}
	m := f.sub("master_node")
	s.podCIDR, s.serviceCIDR = m.subnet("pod_cidr"), m.subnet("cluster_cidr")
	f.readProxy(&s)
	f.readSSH(&s.ssh)
	for _, one := range []role{s.master, s.worker} {
		if one.password == "" && s.ssh.identity == "" && one.user != "" {
			r.wrong(f.path+"."+one.field+".password", "is missing, and there is no ssh.identity in its place")
		}
	}
	r.unknown()
	return s, r.secrets, r.err()
}

func (f *fields) role(name string) role {
	s := f.must(name)
	one := role{
		field: name, vdu: s.text("vdu_id", false), aspect: s.text("aspect_id", false),
		sshCP: s.text("ssh_cp_name", true), nicCP: s.text("nic_cp_name", true),
		user: s.text("username", true), password: s.secret("password"),
	}
	if name == "master_node" {
		one.clusterCP = s.text("cluster_cp_name", false)
	}
	if s.there() && one.vdu == "" && one.aspect == "" {
		f.wrong(s.path+".vdu_id", "is missing, and there is no aspect_id in its place")
	}
	return one
}

func (f *fields) readProxy(s *settings) {
	p := f.sub("proxy")
	s.proxy = map[string]string{}
	var without []string
	for _, name := range []string{"http_proxy", "https_proxy"} {
		// They may hold a password.
		if value := p.secret(name); value != "" {
			s.proxy[name], s.proxy[strings.ToUpper(name)] = value, value
		}
	}
	for _, value := range []string{p.text("no_proxy", false), p.text("k8s_node_cidr", false), s.podCIDR, s.serviceCIDR} {
		if value != "" {
			without = append(without, value)
		}
	}
	if len(s.proxy) > 0 && len(without) > 0 {
		list := strings.Join(without, ",")
		s.proxy["no_proxy"], s.proxy["NO_PROXY"] = list, list
	}
}

func (f *fields) readSSH(s *sshSettings) {
	x := f.sub("ssh")
	s.knownHosts = x.text("known_hosts", false)
	s.acceptNew = x.boolean("accept_new")
	s.port = x.number("port", 22, 1, 65535)
	s.identity, s.passphrase = x.secret("identity"), x.secret("passphrase")
	if j := x.sub("jump"); j.there() {
		s.jump = &jumpSettings{
			host: j.text("host", true), port: j.number("port", 22, 1, 65535), user: j.text("username", true),
			password: j.secret("password"), identity: j.secret("identity"), passphrase: j.secret("passphrase"),
		}
		if s.jump.password == "" && s.jump.identity == "" {
			s.jump.identity, s.jump.passphrase = s.identity, s.passphrase
		}
		if s.jump.password == "" && s.jump.identity == "" {
			f.wrong(j.path+".password", "is missing, and there is no identity in its place")
		}
	}
}

// reader collects what is wrong, and which values are secrets.
type reader struct {
	problems []string
	secrets  []string
	sections map[string]*fields
}

func (r *reader) wrong(path, format string, args ...any) {
	r.problems = append(r.problems, "params."+path+" "+fmt.Sprintf(format, args...))
}

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(r.problems, "; "))
}

// unknown finds fields that nobody has asked for: without it, a misspelt one would be ignored
// in silence.
func (r *reader) unknown() {
	for _, path := range slices.Sorted(maps.Keys(r.sections)) {
		f := r.sections[path]
		for _, name := range slices.Sorted(maps.Keys(f.values)) {
			if !f.asked[name] {
				r.wrong(path+"."+name, "isn't known: correct its name, or leave it out (known here: %s)", strings.Join(slices.Sorted(maps.Keys(f.asked)), ", "))
			}
		}
	}
}

// fields is one object of the parameters. A value that is null counts as missing.
type fields struct {
	*reader
	path   string
	values map[string]any
	asked  map[string]bool
}

func (r *reader) section(path string, value any) *fields {
	if f := r.sections[path]; f != nil {
		return f
	}
	f := &fields{reader: r, path: path, asked: map[string]bool{}}
	if value != nil {
		values, ok := value.(map[string]any)
		if !ok {
			r.wrong(path, "must be an object with fields")
		}
		f.values = values
	}
	if r.sections == nil {
		r.sections = map[string]*fields{}
	}
	r.sections[path] = f
	return f
}

func (f *fields) there() bool { return f.values != nil }

func (f *fields) get(name string) any {
	f.asked[name] = true
	return f.values[name]
}

// sub returns an object that may be left out.
func (f *fields) sub(name string) *fields { return f.section(f.path+"."+name, f.get(name)) }

// must returns an object that may not be left out.
func (f *fields) must(name string) *fields {
	if f.there() && f.get(name) == nil {
		f.wrong(f.path+"."+name, "is missing")
	}
	return f.sub(name)
}

func (f *fields) text(name string, needed bool) string {
	switch v := f.get(name).(type) {
	case nil:
		if needed && f.there() {
			f.wrong(f.path+"."+name, "is missing")
		}
	case string:
		if v == "" && needed {
			f.wrong(f.path+"."+name, "is empty")
		}
		return v
	default:
		f.wrong(f.path+"."+name, "must be text")
	}
	return ""
}

func (f *fields) secret(name string) string {
	value := f.text(name, false)
	// A shorter one stands by chance in too many texts to be redacted.
	if len(value) >= 3 {
		f.secrets = append(f.secrets, value)
	}
	return value
}

func (f *fields) boolean(name string) bool {
	switch v := f.get(name).(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		if b, err := strconv.ParseBool(v); err == nil {
			return b
		}
	}
	f.wrong(f.path+"."+name, "must be true or false")
	return false
}

func (f *fields) number(name string, otherwise, least, most int) int {
	var n int
	switch v := f.get(name).(type) {
	case nil:
		return otherwise
	case float64:
		n = int(v)
		if float64(n) != v {
			n = least - 1
		}
	case string:
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			n = least - 1
		}
	default:
		n = least - 1
	}
	if n < least || n > most {
		f.wrong(f.path+"."+name, "must be a whole number from %d to %d", least, most)
		return otherwise
	}
	return n
}

func (f *fields) duration(name string, otherwise time.Duration) time.Duration {
	var d time.Duration
	switch v := f.get(name).(type) {
	case nil:
		return otherwise
	case float64:
		d = time.Duration(v * float64(time.Second))
	case string:
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			d = 0
		}
	}
	if d < time.Second {
		f.wrong(f.path+"."+name, `must be a time of at least a second, such as "90s" or "5m"`)
		return otherwise
	}
	return d
}

func (f *fields) subnet(name string) string {
	value := f.text(name, false)
	if value == "" {
		return ""
	}
	for one := range strings.SplitSeq(value, ",") { // a second one where the cluster has IPv6, too
		if _, err := netip.ParsePrefix(one); err != nil {
			f.wrong(f.path+"."+name, "must be a subnet such as 10.244.0.0/16, not %q", value)
			break
		}
	}
	return value
}
