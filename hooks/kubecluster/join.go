package kubecluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// enter serves scale_end and heal_end: the machines that came join, masters first.
func (d *driver) enter(ctx context.Context) error {
	added := d.of(d.in.Added)
	if len(added) == 0 {
		if len(d.of(d.in.Removed)) > 0 {
			d.setMetadata("")
		}
		return nil
	}
	c, err := d.find(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if err := d.rebalance(ctx, added); err != nil {
		return err
	}
	if err := d.joinAll(ctx, c, added); err != nil {
		return err
	}
	if masters, _ := part(added); len(masters) > 0 {
		if err := d.provide(c); err != nil { // the VIM may still be the master that went
			return err
		}
	}
	d.setMetadata(c.endpoint)
	d.message = fmt.Sprintf("%s joined the cluster at %s", counted(len(added), "node"), c.endpoint)
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// joinAll makes machines nodes of the cluster, masters one after the other, as etcd wants it,
// then workers side by side. Those that are Ready already are left alone.
func (d *driver) joinAll(ctx context.Context, c *cluster, all []machine) error {
	// All names must be found before anything is done, so that they are the same in each try.
	for _, m := range all {
		if err := m.reachable(); err != nil {
			return err
		}
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	names, err := d.named(all, nodes)
	if err != nil {
		return err
	}
	var missing []machine
	for _, m := range all {
		if n := d.nodeOf(m, nodes); n != nil && isReady(n) {
			d.say("%s: its node %s is Ready already", m, n.Name)
			d.note(&d.left.Joined, m.Name, n.Name)
			continue
		}
		missing = append(missing, m)
	}
	if len(missing) == 0 {
		d.removeToken(ctx, c)
		return nil
	}
	masters, workers := part(missing)
	token, remove, err := d.token(ctx, c)
	if err != nil {
		return err
	}
	defer remove()
	env := map[string]string{"JIBE_K8S_ENDPOINT": c.endpoint, "JIBE_K8S_CA_HASH": c.caHash, "JIBE_K8S_TOKEN": token}
	var failed []error
	if len(masters) > 0 {
		if err := d.joinMasters(ctx, c, masters, names, env); err != nil {
			failed = append(failed, err)
		}
	}
	if err := each(workers, d.Parallel, func(m machine) error { return d.joinOne(ctx, c, m, names[m.ID], "join-worker", env) }); err != nil {
		failed = append(failed, err)
	}
	return joined(failed)
}

func isReady(n *corev1.Node) bool {
	ok, _ := ready(n)
	return ok
}

// joinMasters has the certificates of the cluster's CA uploaded, encrypted, and masters join
// with the key.
func (d *driver) joinMasters(ctx context.Context, c *cluster, masters []machine, names, env map[string]string) error {
	key := d.certificateKey()
	nodes, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	own := d.nodeOf(c.master, nodes)
	if own == nil {
		return fmt.Errorf("%s has no node in its own cluster", c.master)
	}
	if err := d.install(ctx, time.Now().Add(d.JoinTime), c.master, "init", map[string]string{
		"JIBE_K8S_NODE_NAME": own.Name, "JIBE_K8S_NODE_ADDRESS": c.master.nodeAddress(), "JIBE_K8S_CERTIFICATE_KEY": key,
	}); err != nil {
		return err
	}
	with := map[string]string{"JIBE_K8S_CERTIFICATE_KEY": key}
	for name, value := range env {
		with[name] = value
	}
	return each(masters, 1, func(m machine) error { return d.joinOne(ctx, c, m, names[m.ID], "join-master", with) })
}

func (d *driver) certificateKey() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	key := hex.EncodeToString(random)
	d.keepSecret(key)
	return key
}

// joinOne makes one machine a node.
func (d *driver) joinOne(ctx context.Context, c *cluster, m machine, name, action string, env map[string]string) error {
	d.say("%s: joins as node %s", m, name)
	began := time.Now()
	until := began.Add(d.JoinTime)
	with := map[string]string{"JIBE_K8S_NODE_NAME": name, "JIBE_K8S_NODE_ADDRESS": m.nodeAddress()}
	for k, v := range env {
		with[k] = v
	}
	if err := d.lacking(with); err != nil {
		return err
	}
	if err := d.install(ctx, until, m, action, with); err != nil {
		return err
	}
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := c.awaitReady(limited, name, m.nodeAddress()); err != nil {
		return fmt.Errorf("%s: %w", m, err)
	}
	d.note(&d.left.Joined, m.Name, name)
	d.say("%s: node %s is Ready after %s", m, name, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// initial returns the settings of the first master.
func (d *driver) initial(m machine, name, endpoint, key string) (map[string]string, error) {
	env := map[string]string{
		"JIBE_K8S_NODE_NAME": name, "JIBE_K8S_NODE_ADDRESS": m.nodeAddress(), "JIBE_K8S_ENDPOINT": endpoint,
		"JIBE_K8S_POD_CIDR": d.PodCIDR, "JIBE_K8S_SERVICE_CIDR": d.ServiceCIDR, "JIBE_K8S_CNI": d.CNI,
		"JIBE_K8S_CERTIFICATE_KEY": key, "JIBE_K8S_CERT_SANS": d.Balancer.Floating,
		// kubeadm makes a token in any case. This one has a name that we know, so it can be removed.
		"JIBE_K8S_TOKEN": d.newToken(),
	}
	for name, value := range env {
		if value == "" {
			delete(env, name)
		}
	}
	return env, d.lacking(env)
}

// endpoint returns where the API server of all masters is, "" for the default of the script:
// the first master's own address.
func (d *driver) endpoint(b *balancer, m machine) string {
	switch a := m.address(d.master.ClusterCP, true); {
	case d.Endpoint != "":
		return d.Endpoint
	case b != nil:
		return b.endpoint()
	case a != "" && a != m.nodeAddress():
		return hostport(a, "6443")
	}
	return ""
}

func hostport(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// build serves instantiate_end: the first master begins the cluster, all others join it.
func (d *driver) build(ctx context.Context) error {
	masters, workers := part(d.of(d.in.Added))
	if len(masters) != 1 && len(masters) != 3 {
		return fmt.Errorf("the VNF has %s (VDU %v): a cluster has one or three", counted(len(masters), "master"), d.master.vdus)
	}
	b, err := d.balancer(len(masters))
	if err != nil {
		return err
	}
	first, err := d.first(ctx, masters)
	if err != nil {
		return err
	}
	d.left.First = first.Name
	if b != nil {
		// The first master's own start goes through it.
		if err := d.balance(ctx, b, masters, masters); err != nil {
			return err
		}
	}
	key := ""
	if len(masters) > 1 {
		key = d.certificateKey()
	}
	until := time.Now().Add(d.JoinTime)
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	name := d.noted(first.Name)
	if name == "" {
		name = first.names()[0]
	}
	d.say("%s: becomes the first master, as node %s", first, name)
	env, err := d.initial(first, name, d.endpoint(b, first), key)
	if err != nil {
		return err
	}
	if err := d.install(ctx, until, first, "init", env); err != nil {
		return err
	}
	c, err := d.answering(limited, first)
	if err != nil {
		return err
	}
	defer c.close()
	d.note(&d.left.Joined, first.Name, name)
	others := append([]machine{}, workers...)
	for _, m := range masters {
		if m.ID != first.ID {
			others = append(others, m)
		}
	}
	if err := d.joinAll(ctx, c, others); err != nil {
		return err
	}
	last, cancel := context.WithTimeout(ctx, d.JoinTime)
	defer cancel()
	if err := c.awaitReady(last, name, first.nodeAddress()); err != nil {
		return fmt.Errorf("%s: %w", first, err)
	}
	if err := d.provide(c); err != nil {
		return err
	}
	d.setMetadata(c.endpoint)
	d.message = fmt.Sprintf("a cluster of %s and %s answers at %s", counted(len(masters), "master"), counted(len(workers), "worker"), c.endpoint)
	return nil
}

// first chooses the master that begins the cluster. It never chooses a second one, as there
// would be a second cluster.
func (d *driver) first(ctx context.Context, masters []machine) (machine, error) {
	for _, m := range masters {
		if m.Name == d.left.First {
			return m, nil
		}
	}
	limited, cancel := context.WithTimeout(ctx, d.JoinTime)
	defer cancel()
	for _, m := range masters {
		if err := m.reachable(); err != nil {
			return m, err
		}
		conn, err := d.dial(limited, m, d.JoinTime) // it may be booting
		if err != nil {
			return m, err
		}
		conn.Close()
		c, err := d.ask(limited, m)
		switch {
		case errors.Is(err, errNoConf):
			continue
		case err == nil:
			c.close()
		}
		return m, nil // the cluster was begun there
	}
	return masters[0], nil
}

// answering waits until a master's API server is ready.
func (d *driver) answering(ctx context.Context, m machine) (*cluster, error) {
	for {
		c, err := d.ask(ctx, m)
		if err == nil || !passing(err) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the API server doesn't get ready: %w", err)
		case <-time.After(pollPause):
		}
	}
}
