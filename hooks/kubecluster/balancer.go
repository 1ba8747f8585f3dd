package kubecluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
)

// firstPriority is VRRP's of the master that comes first; each that follows has lessPriority
// less.
const firstPriority, lessPriority = 200, 10

// balancer is haproxy and keepalived on the masters.
type balancer struct {
	address  netip.Addr
	port     int
	routerID int
}

// endpoint is host:port at which it answers.
func (b *balancer) endpoint() string { return hostport(b.address.String(), strconv.Itoa(b.port)) }

// balancer returns what the masters balance by; nil where they don't, because there is one
// master only and nobody asks for it, somebody else forwards to them, or no virtual address is
// known. The last is an error where the parameters ask for it.
func (d *driver) balancer(masters int) (*balancer, error) {
	if d.Endpoint != "" || masters < 2 && !d.Balancer.Wanted {
		return nil, nil
	}
	at := d.Balancer.Address
	if at == "" {
		var err error
		if at, err = d.virtualAddress(); err != nil {
			return nil, err
		}
	}
	if at == "" {
		if d.Balancer.Wanted {
			return nil, fmt.Errorf("params.%s.load_balancer: no virtual address is known: give virtual_address there, or the connection point "+
				"that %s.master_node.cluster_cp_name names a fixed address in extVirtualLinks", params.Name, params.Name)
		}
		return nil, nil
	}
	address, err := netip.ParseAddr(at)
	if err != nil {
		return nil, fmt.Errorf("the virtual address at connection point %s: %w", d.master.ClusterCP, err)
	}
	b := &balancer{address: address, port: d.Balancer.Port, routerID: d.Balancer.RouterID}
	if b.routerID == 0 {
		bytes := address.AsSlice()
		b.routerID = max(int(bytes[len(bytes)-1]), 1)
	}
	return b, nil
}

// virtualAddress returns the fixed address that the instance's external networks give the
// connection point of the cluster, "" where they give none.
func (d *driver) virtualAddress() (string, error) {
	cp := d.master.ClusterCP
	if cp == "" || cp == d.master.NicCP || cp == d.master.SSHCP || len(d.in.Instance.ExtVirtualLinks) == 0 {
		return "", nil
	}
	flavours, err := d.flavours()
	if err != nil {
		return "", err
	}
	names := []string{cp} // the connection point has several where the VNFD maps them
	for _, f := range flavours {
		for mapped, to := range f.ExtCps {
			if to == cp {
				names = append(names, mapped)
			}
		}
	}
	var links []desired.ExtVirtualLink
	if err := json.Unmarshal(d.in.Instance.ExtVirtualLinks, &links); err != nil {
		return "", fmt.Errorf("the instance's extVirtualLinks: %w", err)
	}
	for _, link := range links {
		for _, ext := range link.ExtCps {
			if !slices.Contains(names, ext.CpdID) {
				continue
			}
			for _, id := range slices.Sorted(maps.Keys(ext.CpConfig)) {
				for _, p := range ext.CpConfig[id].Protocols {
					if p.IPOverEthernet == nil {
						continue
					}
					for _, a := range p.IPOverEthernet.IPAddresses {
						if len(a.FixedAddresses) > 0 {
							return a.FixedAddresses[0], nil
						}
					}
				}
			}
		}
	}
	return "", nil
}

// balance tells machines that they are the masters of all: each forwards to each of all, and
// has the virtual address where those before it don't. Machines that must be told are in told.
func (d *driver) balance(ctx context.Context, b *balancer, told, all []machine) error {
	var addresses []string
	for _, m := range all {
		if err := m.reachable(); err != nil {
			return err
		}
		addresses = append(addresses, m.nodeAddress())
	}
	return each(told, d.Parallel, func(m machine) error {
		place := slices.IndexFunc(all, func(o machine) bool { return o.ID == m.ID })
		env := map[string]string{
			"JIBE_K8S_NODE_ADDRESS": m.nodeAddress(), "JIBE_K8S_MASTERS": strings.Join(addresses, " "),
			"JIBE_K8S_VIRTUAL_ADDRESS": b.address.String(), "JIBE_K8S_BALANCER_PORT": strconv.Itoa(b.port),
			"JIBE_K8S_ROUTER_ID": strconv.Itoa(b.routerID), "JIBE_K8S_PRIORITY": strconv.Itoa(max(firstPriority-lessPriority*place, 1)),
		}
		if err := d.lacking(env); err != nil {
			return err
		}
		return d.install(ctx, time.Now().Add(d.JoinTime), m, "balance", env)
	})
}

// unbalance has the masters that stay forward no more to those that go, before these end. One
// that can't be told is no reason to stop: its haproxy looks by itself who answers.
func (d *driver) unbalance(ctx context.Context, victims []victim) error {
	goes := map[string]bool{}
	for _, v := range victims {
		if v.isMaster() {
			goes[v.ID] = true
		}
	}
	all := d.masters()
	stay := slices.DeleteFunc(slices.Clone(all), func(m machine) bool { return goes[m.ID] })
	if len(goes) == 0 || len(stay) == 0 {
		return nil
	}
	b, err := d.balancer(len(stay) + len(goes))
	if err != nil || b == nil {
		return err
	}
	if err := d.balance(ctx, b, stay, stay); err != nil {
		d.say("the masters that stay weren't all told that others go: %v", err)
	}
	return nil
}

// rebalance has all masters forward to each other, where masters came.
func (d *driver) rebalance(ctx context.Context, came []machine) error {
	if masters, _ := part(came); len(masters) == 0 {
		return nil
	}
	all := d.masters()
	b, err := d.balancer(len(all))
	if err != nil || b == nil {
		return err
	}
	return d.balance(ctx, b, all, all)
}
