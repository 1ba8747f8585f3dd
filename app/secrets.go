package app

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/internal/peer"
)

// secrets resolves what instances and VIMs refer to. What the installation forbids is a
// [*drivers.RefusedError]: only a commit, or other flags, can help.
type secrets struct{ *secret.Keeper }

// VIM implements [reconciler.Secrets].
func (s secrets) VIM(v *desired.VIM) (drivers.VIM, error) {
	r, err := s.ResolveVIM(v)
	return connection(r), refused("vim", desired.VIMFile(v.Name)+": ", err)
}

// Connection implements [reconciler.Secrets].
func (s secrets) Connection(name string, c desired.VIMConnection) (drivers.VIM, error) {
	r, err := s.ResolveConnection(name, c)
	out := connection(r)
	out.Requested = true

	return out, refused("vimConnectionInfo", "vimConnectionInfo."+name+".", err)
}

// Peer is [reconciler.Peers].
func (s secrets) Peer(p *desired.Peer) (peer.Settings, error) {
	out, err := s.ResolvePeer(p)
	return out, refused("em", desired.PeersFile+": "+p.Name+": ", err)
}

// Reveal is [secret.Keeper.Reveal].
func (s secrets) Reveal(params map[string]any) (map[string]any, error) {
	out, err := s.Keeper.Reveal(params)
	return out, refused("params", "", err)
}

// Permit refuses a change that brings a reference which may not be followed, or a connection
// that is a kubeconfig or that may not be used as it is. Those that before has already are only checked when they are
// resolved: else no change could be made any more to an instance from before the rules.
func (s secrets) Permit(before, after *desired.Instance) error {
	had, were := map[string]bool{}, map[string]desired.VIMConnection{}
	if before != nil {
		were = before.VIMConnections
		for _, r := range before.References() {
			had[r.Ref] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after.VIMConnections)) {
		c := after.VIMConnections[name]
		if found, remedy := c.OfKubeconfig(); found != "" && !reflect.DeepEqual(were[name], c) {
			return &drivers.RefusedError{Field: "vimConnectionInfo", Reason: fmt.Sprintf("vimConnectionInfo.%s: %s (%s)", name, found, remedy)}
		}
		if err := s.PermitConnection(c); err != nil && !reflect.DeepEqual(were[name], c) {
			return refused("vimConnectionInfo", "vimConnectionInfo."+name+".", err)
		}
	}
	for _, r := range after.References() {
		if had[r.Ref] {
			continue
		}
		field, _, _ := strings.Cut(r.Field, ".")
		if err := refused(field, r.Field+": ", s.Keeper.Permit(r.Ref)); err != nil {
			return err
		}
	}
	return nil
}

// refused makes a refusal about a field of vnf.yaml of an error that says that a reference
// is forbidden, and begins its reason with where. Any other error stays what it is.
func refused(field, where string, err error) error {
	no, ok := errors.AsType[*secret.ForbiddenError](err)
	if !ok {
		return err
	}
	if where == "" {
		return &drivers.RefusedError{Field: field, Reason: err.Error()}
	}
	return &drivers.RefusedError{Field: field, Reason: where + no.Error()}
}

func connection(r secret.Connection) drivers.VIM {
	return drivers.VIM{
		Name: r.Name, Type: r.Type, Endpoint: r.Endpoint, CACert: r.CACert, Insecure: r.Insecure, Kubeconfig: r.Kubeconfig,
		Token: string(r.Token), Username: string(r.Username), Password: string(r.Password),
		ClientCert: r.ClientCert, ClientKey: r.ClientKey,
		Region: r.Region, Project: r.Project, ProjectDomain: r.ProjectDomain, UserDomain: r.UserDomain,
		ApplicationCredential: r.ApplicationCredential, ApplicationCredentialSecret: string(r.ApplicationCredentialSecret),
	}
}

// forbiddenSettings says which of the VIMs and peers the installation doesn't use, as they refer
// to something forbidden. Those that are the same in known, which may be nil, are passed over.
func forbiddenSettings(keeper *secret.Keeper, settings, known *desired.Settings) []*desired.Problem {
	var out []*desired.Problem
	refused := func(file, where string, err error) {
		if no, ok := errors.AsType[*secret.ForbiddenError](err); ok {
			out = append(out, &desired.Problem{File: file, Message: fmt.Sprintf("%s%q: %s", where, no.Field, no.Reason), Remedy: no.Remedy})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings.VIMs)) {
		vim := settings.VIMs[name]
		if known != nil && known.VIMs[name] != nil && reflect.DeepEqual(*known.VIMs[name], *vim) {
			continue
		}
		_, err := keeper.ResolveVIM(vim)
		refused(desired.VIMFile(name), "", err)
	}
	for i, p := range settings.Peers {
		if known != nil && slices.Contains(known.Peers, p) {
			continue
		}
		_, err := keeper.ResolvePeer(&settings.Peers[i])
		refused(desired.PeersFile, p.Name+": ", err)
	}
	return out
}
