// Package kubecluster is the management driver of a VNF that is a Kubernetes cluster on
// virtual machines: it builds the cluster, joins machines that come, and moves the work off
// those that go before they do.
//
// It is a hook of a package like any other (package hooks): it reads one JSON document, writes
// one, and writes lines for people to standard error. It holds no state of its own: what it
// needs to know is in the cluster, in the instance's metadata, or in the hand-over. So it looks
// before it acts, and may be killed and run again at any time. It removes no machine.
package kubecluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
)

// maxInput bounds what is read from standard input, in bytes.
const maxInput = 64 << 20

// lastWords is how long before its time limit a run gives up by itself.
const lastWords = 20 * time.Second

// Run serves one hook: it reads a [hooks.Input] and writes a [hooks.Output], also
// where it fails, as the hand-over says how far it came. Lines to stderr say what it does.
// The error and those lines hold no secrets. Hooks that have nothing to do succeed.
func Run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	var in hooks.Input
	if err := json.NewDecoder(io.LimitReader(stdin, maxInput)).Decode(&in); err != nil {
		return fmt.Errorf("standard input must be the JSON of a management driver's input: %w", err)
	}
	d := &driver{in: in, stderr: stderr, keys: map[string]string{}}
	if in.TimeoutSeconds > 0 {
		// A run that is killed can't say what it waited for, nor how far it came.
		limit := time.Duration(in.TimeoutSeconds) * time.Second
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit-min(limit/10, lastWords))
		defer cancel()
	}
	err := d.serve(ctx)
	d.keepKeys()
	out := hooks.Output{Message: d.redact(d.message), Metadata: d.metadata, VIMs: d.vims}
	if err != nil {
		// Of a run that failed nothing but the hand-over is kept.
		out = hooks.Output{}
		err = errors.New(d.redact(err.Error()))
	}
	var encodeErr error
	if out.HandOver, encodeErr = json.Marshal(d.left); encodeErr != nil {
		return encodeErr
	}
	return errors.Join(err, json.NewEncoder(stdout).Encode(out))
}

// handOver is what one run of the driver leaves to the next one in the same operation.
// Machines are named in it as their units are.
type handOver struct {
	// First is the machine that was made the first master.
	First string `json:"first,omitempty"`
	// Joined are the nodes that this operation has made, Deleted those that it has deleted,
	// Undone those of Joined that its rollback has deleted.
	Joined  map[string]string `json:"joined,omitempty"`
	Deleted map[string]string `json:"deleted,omitempty"`
	Undone  map[string]string `json:"undone,omitempty"`
	// Keys are the host keys that were accepted, as in the metadata.
	Keys map[string]string `json:"known,omitempty"`
}

// driver is one run.
type driver struct {
	in hooks.Input
	params.Settings
	master, worker role
	stderr         io.Writer
	secrets        []string
	scriptText     []byte

	listed          sync.Once // guards the artifacts, which are all files of theirs, and their digest
	artifacts       []artifact
	artifactsDigest string
	artifactsErr    error

	mu   sync.Mutex // guards all below, and stderr
	left handOver
	keys map[string]string // accepted host keys, by the id of a unit

	message  string
	metadata map[string]any
	vims     map[string]*hooks.ProvidedVIM
}

// serve does what the hook asks for.
func (d *driver) serve(ctx context.Context) error {
	base, rollback := strings.CutSuffix(d.in.Hook, "_rollback_start")
	if !rollback {
		base, rollback = strings.CutSuffix(d.in.Hook, "_rollback_end")
	}
	if !rollback {
		base, _ = strings.CutSuffix(strings.TrimSuffix(d.in.Hook, "_start"), "_end")
	}
	end := strings.HasSuffix(d.in.Hook, "_end")
	switch base {
	case "instantiate", "scale", "scale_to_level", "heal":
	default:
		return nil // terminate: what was in the machines goes with them
	}
	if base == "instantiate" && rollback {
		return nil
	}
	if err := d.prepare(); err != nil {
		return err
	}
	switch {
	case base == "instantiate" && !end:
		return nil // prepare has found the parameters right, before machines are made
	case base == "instantiate":
		return d.build(ctx)
	case rollback && !end:
		return d.takeBack(ctx)
	case rollback:
		return d.restore(ctx)
	case !end:
		return d.leave(ctx)
	}
	return d.enter(ctx)
}

// prepare reads all that the driver is given.
func (d *driver) prepare() error {
	if len(d.in.HandOver) > 0 {
		if err := json.Unmarshal(d.in.HandOver, &d.left); err != nil {
			return fmt.Errorf("handOver isn't what this driver has written: %w", err)
		}
	}
	var err error
	if d.Settings, d.secrets, err = params.Read(d.in.Params); err != nil {
		return err
	}
	d.master, d.worker = role{Role: d.Master}, role{Role: d.Worker}
	if err := d.findVDUs(); err != nil {
		return err
	}
	if err := d.readFiles(); err != nil {
		return err
	}
	maps.Copy(d.keys, texts(d.in.Instance.Metadata[metaKeys]))
	maps.Copy(d.keys, d.left.Keys)
	return nil
}

// say writes a line for people.
func (d *driver) say(format string, args ...any) {
	line := d.redact(fmt.Sprintf(format, args...))
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintln(d.stderr, line)
}

// keepSecret redacts a secret in all that is written from now on.
func (d *driver) keepSecret(secret string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if secret != "" {
		d.secrets = append(d.secrets, secret)
	}
}

// redact returns text without the secrets.
func (d *driver) redact(text string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// note records something in the hand-over.
func (d *driver) note(in *map[string]string, unit, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if *in == nil {
		*in = map[string]string{}
	}
	(*in)[unit] = node
}

// forget removes something from the hand-over.
func (d *driver) forget(in map[string]string, unit string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(in, unit)
}

// Names of the entries of the instance's metadata. The name of the host keys must not look
// like that of a secret, as they are none.
const (
	metaNodes    = "kubernetesNodes"
	metaEndpoint = "kubernetesEndpoint"
	metaKeys     = "kubernetesKnownHosts"
)

// setMetadata puts what is known of the cluster into the metadata: nodes by the names of
// units, and the host keys, of units that live.
func (d *driver) setMetadata(endpoint string) {
	nodes := texts(d.in.Instance.Metadata[metaNodes])
	for _, t := range d.in.Removed {
		delete(nodes, t.Unit.Name)
	}
	maps.Copy(nodes, d.left.Joined)
	lives := map[string]bool{}
	for _, v := range d.in.VDUs {
		for _, u := range slices.Concat(v.Old, v.New) {
			lives[u.Name], lives[u.ID] = true, true
		}
	}
	for _, t := range d.in.Removed {
		delete(lives, t.Unit.ID)
	}
	maps.DeleteFunc(nodes, func(unit, _ string) bool { return !lives[unit] })
	keys := maps.Clone(d.keys)
	maps.DeleteFunc(keys, func(id, _ string) bool { return !lives[id] && !strings.HasPrefix(id, jumpKey) })
	d.metadata = map[string]any{metaNodes: nodes}
	if endpoint != "" {
		d.metadata[metaEndpoint] = endpoint
	}
	switch {
	case len(keys) > 0:
		d.metadata[metaKeys] = keys
	case d.in.Instance.Metadata[metaKeys] != nil:
		d.metadata[metaKeys] = nil
	}
}

// provide makes the cluster a VIM, where the parameters call it one.
func (d *driver) provide(c *cluster) error {
	if d.VIM == "" {
		return nil
	}
	to := c.admin
	if to.ServerName != "" {
		return fmt.Errorf("%s: %s: with tls-server-name the cluster can't be the VIM %s: have its certificate name the server's address", c.master, d.Kubeconfig, d.VIM)
	}
	at := to.Host
	if d.Balancer.Floating != "" {
		at = hostport(d.Balancer.Floating, port(to.Host))
	}
	d.vims = map[string]*hooks.ProvidedVIM{d.VIM: {
		Endpoint: "https://" + at, CACert: string(to.CAData), Token: to.BearerToken,
		ClientCert: string(to.CertData), ClientKey: string(to.KeyData),
	}}
	return nil
}

// keepKeys hands the accepted host keys over, so that they count before they are in git.
func (d *driver) keepKeys() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.keys) > 0 {
		d.left.Keys = d.keys
	}
}

// texts returns a map of strings that came as JSON or YAML, without its other values.
func texts(v any) map[string]string {
	out := map[string]string{}
	switch m := v.(type) {
	case map[string]any:
		for name, value := range m {
			if s, ok := value.(string); ok {
				out[name] = s
			}
		}
	case map[string]string:
		maps.Copy(out, m)
	}
	return out
}
