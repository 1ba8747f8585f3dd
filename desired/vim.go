package desired

import (
	"fmt"
	"iter"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The values of VIM.Type after parsing. The first two are those of SOL003's
// vimType registry; files may say "kubernetes" and "openstack" for short.
const (
	VIMKubernetes = "ETSINFV.KUBERNETES.V_1"
	VIMOpenStack  = "ETSINFV.OPENSTACK_KEYSTONE.V_3"
	// VIMSim is the in-memory simulator.
	VIMSim = "sim"
)

// NormalVIMType returns the registered name of a VIM type, however it was
// written, and false for one that isn't known.
func NormalVIMType(s string) (string, bool) {
	switch strings.ToLower(s) {
	case "kubernetes", strings.ToLower(VIMKubernetes):
		return VIMKubernetes, true
	case "openstack", strings.ToLower(VIMOpenStack):
		return VIMOpenStack, true
	case VIMSim:
		return VIMSim, true
	}
	return "", false
}

// ParseVIM reads a vims/<name>.yaml strictly; its name is the file's. The error
// is an [*InvalidError] with everything that is wrong.
func ParseVIM(file string, data []byte) (*VIM, error) {
	d := &document{file: file}
	v := &VIM{Name: strings.TrimSuffix(path.Base(file), path.Ext(file))}
	if !settingName.MatchString(v.Name) {
		d.fail(nil, "rename the file: letters, digits, '-', '_' and single dots", "%q can't name a VIM", clip(v.Name))
	}
	n := d.root(data)
	if n == nil {
		if len(d.problems) == 0 {
			d.fail(nil, "write at least \"type:\" and \"kubeconfig:\" or \"endpoint:\"", "the file is empty")
		}
		return nil, d.err()
	}
	str := func(key string, to *string) field {
		return field{key, func(_, n *yaml.Node) { *to = d.text(n, key, maxName) }}
	}
	in := func(where string, to *string) field {
		key := where[strings.LastIndexByte(where, '.')+1:]
		return field{key, func(_, n *yaml.Node) { *to = d.text(n, where, maxName) }}
	}
	ref := func(where string, to *string) field {
		key := where[strings.LastIndexByte(where, '.')+1:]
		return field{key, func(_, n *yaml.Node) { *to = d.reference(n, where) }}
	}
	d.mapping(n, "",
		str("id", &v.ID),
		field{"type", func(_, n *yaml.Node) { v.Type = d.vimType(n) }},
		field{"description", func(_, n *yaml.Node) { v.Description = d.text(n, "description", maxDescription) }},
		field{"default", func(_, n *yaml.Node) { v.Default = d.boolean(n, "default") }},
		str("instance", &v.Instance),
		field{"endpoint", func(_, n *yaml.Node) { v.Endpoint = d.endpoint(n, "endpoint") }},
		field{"caCert", func(_, n *yaml.Node) { v.CACert = d.certificate(n, "caCert") }},
		field{"insecure", func(_, n *yaml.Node) { v.Insecure = d.boolean(n, "insecure") }},
		str("region", &v.Region),
		str("project", &v.Project),
		str("projectDomain", &v.ProjectDomain),
		str("userDomain", &v.UserDomain),
		ref("clouds", &v.Clouds),
		str("cloud", &v.Cloud),
		ref("kubeconfig", &v.Kubeconfig),
		field{"inCluster", func(_, n *yaml.Node) { v.InCluster = d.boolean(n, "inCluster") }},
		field{"namespaces", func(_, n *yaml.Node) { v.Namespaces = d.vimNamespaces(n) }},
		field{"credentials", func(_, n *yaml.Node) {
			d.mapping(n, "credentials",
				ref("credentials.token", &v.Credentials.Token),
				in("credentials.username", &v.Credentials.Username),
				ref("credentials.password", &v.Credentials.Password),
				ref("credentials.clientCert", &v.Credentials.ClientCert),
				ref("credentials.clientKey", &v.Credentials.ClientKey),
				in("credentials.applicationCredentialId", &v.Credentials.ApplicationCredentialID),
				ref("credentials.applicationCredentialSecret", &v.Credentials.ApplicationCredentialSecret),
			)
		}},
		field{"prometheus", func(_, n *yaml.Node) {
			d.mapping(n, "prometheus",
				field{"url", func(_, n *yaml.Node) { v.Prometheus.URL = d.endpoint(n, "prometheus.url") }},
				field{"caCert", func(_, n *yaml.Node) { v.Prometheus.CACert = d.certificate(n, "prometheus.caCert") }},
				ref("prometheus.token", &v.Prometheus.Token),
			)
			if n.Kind == yaml.MappingNode && v.Prometheus.URL == "" && len(d.problems) == 0 {
				d.fail(n, "write {url: https://host:port}, without /api/v1", "\"prometheus\" has no url")
			}
		}},
	)
	if len(d.problems) == 0 {
		d.completeVIM(n, v)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return v, nil
}

// completeVIM refuses a VIM whose parts are right but don't make a connection.
func (d *document) completeVIM(n *yaml.Node, v *VIM) {
	kubernetes, foreign := v.Type == VIMKubernetes, v.forOpenStack()
	switch {
	case v.Type == "":
		d.fail(n, "add type: kubernetes (or openstack, sim)", "\"type\" is missing")
	case v.Instance != "" && !kubernetes:
		d.fail(n, "remove it", "\"instance\" is for a Kubernetes cluster that is a VNF instance")
	case len(v.Namespaces) > 0 && !kubernetes:
		d.fail(n, "remove it", "\"namespaces\" is for Kubernetes only")
	case v.InCluster && !kubernetes:
		d.fail(n, "remove it, or write type: kubernetes", "\"inCluster\" is for Kubernetes only")
	case v.InCluster && (v.Kubeconfig != "" || v.connects()):
		d.fail(n, "remove inCluster, or kubeconfig, endpoint, caCert, insecure and credentials", "\"inCluster\" replaces everything else and can't stand beside it")
	case v.Type == VIMSim, v.InCluster && len(foreign) == 0:
	case v.Kubeconfig != "" && !kubernetes:
		d.fail(n, "remove it, and give endpoint and credentials", "\"kubeconfig\" is for Kubernetes only")
	case v.Kubeconfig != "" && v.connects():
		d.fail(n, "remove kubeconfig, or endpoint, caCert, insecure and credentials", "\"kubeconfig\" replaces everything else and can't stand beside it")
	case v.Type == VIMOpenStack:
		d.completeOpenStack(n, v)
	case len(foreign) > 0:
		d.fail(n, "remove it, or write type: openstack", "%q is for OpenStack only", foreign[0])
	default:
		d.completeConnection(n, v)
	}
}

// connects reports whether the file itself says how the VIM is reached, and not a kubeconfig or the cluster that Jibe
// runs in.
func (v *VIM) connects() bool {
	return v.Endpoint != "" || v.CACert != "" || v.Insecure || v.Credentials != Credentials{}
}

// completeConnection refuses an endpoint of Kubernetes without what belongs to it.
func (d *document) completeConnection(n *yaml.Node, v *VIM) {
	c := v.Credentials
	switch {
	case v.Kubeconfig == "" && v.Endpoint == "":
		d.fail(n, "add endpoint: https://… or, for Kubernetes, kubeconfig: file:/path or inCluster: true", "the VIM can't be reached: \"endpoint\" is missing")
	case v.Insecure && v.CACert != "":
		d.fail(n, "remove one of them", "\"insecure\" and \"caCert\" contradict each other")
	case (c.Username == "") != (c.Password == ""):
		d.fail(n, "give both or neither", "\"credentials.username\" and \"credentials.password\" belong together")
	case (c.ClientCert == "") != (c.ClientKey == ""):
		d.fail(n, "give both or neither", "\"credentials.clientCert\" and \"credentials.clientKey\" belong together")
	}
}

func (d *document) vimType(n *yaml.Node) string {
	before := len(d.problems)
	s := d.text(n, "type", 0)
	t, ok := NormalVIMType(s)
	if !ok && len(d.problems) == before {
		known := []string{"kubernetes", "openstack", VIMSim}
		remedy := "allowed: " + strings.Join(append(known, VIMKubernetes, VIMOpenStack), ", ")
		if near := nearest(s, known); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		d.fail(n, remedy, "VIM type %q isn't known", clip(s))
	}
	return t
}

func (d *document) endpoint(n *yaml.Node, where string) string {
	before := len(d.problems)
	s := d.text(n, where, 0)
	if len(d.problems) > before {
		return ""
	}
	u, err := url.Parse(s)
	switch {
	case err == nil && u.User != nil:
		d.fail(n, "move them to credentials, as references", "%q holds credentials", where)
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		d.fail(n, "write it as https://host:port/path", "%q isn't an http(s) URL", where)
	}
	return s
}

// certificate reads PEM text, or a reference to it. A certificate is no secret.
func (d *document) certificate(n *yaml.Node, where string) string {
	before := len(d.problems)
	s := d.text(n, where, 0)
	if len(d.problems) == before && !IsRef(s) && !strings.Contains(s, "-----BEGIN CERTIFICATE-----") {
		d.fail(n, "paste the PEM certificate, or refer to it: file:/path", "%q is neither PEM nor a reference", where)
	}
	return s
}

// SameEndpoint says whether two endpoints of VIMs are one, in whichever way they are
// written.
func SameEndpoint(a, b string) bool { return EndpointForm(a) == EndpointForm(b) }

// EndpointForm writes the endpoint of a VIM so that two ways of writing it are equal.
func EndpointForm(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return endpoint
	}
	u.Host = strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		u.Host = strings.TrimSuffix(u.Host, ":443")
	case "http":
		u.Host = strings.TrimSuffix(u.Host, ":80")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u.String()
}

// OfKubeconfig says which part of a connection only a kubeconfig may have, and what to do
// about it; "" for none. Such a part would be ignored, while whoever gave it believes that
// Jibe runs the commands and reads the files that it names.
func (c VIMConnection) OfKubeconfig() (found, remedy string) {
	if t, _ := NormalVIMType(c.VimType); t != VIMKubernetes {
		return "", ""
	}
	for _, where := range []struct {
		name string
		keys iter.Seq[string]
	}{{"interfaceInfo", maps.Keys(c.InterfaceInfo)}, {"accessInfo", maps.Keys(c.AccessInfo)}, {"extra", maps.Keys(c.Extra)}} {
		for _, key := range slices.Sorted(where.keys) {
			switch strings.ToLower(key) {
			case "kubeconfig", "kube_config", "kube-config", "exec", "auth-provider", "tokenfile", "client-certificate", "client-key", "certificate-authority", "proxy-url":
				return fmt.Sprintf("%s.%s isn't taken: a connection is no kubeconfig, and names no commands and files", where.name, clip(key)),
					"give interfaceInfo.endpoint and ssl_ca_cert, and accessInfo.bearer_token, or client_cert and client_key"
			}
		}
	}
	return "", ""
}
