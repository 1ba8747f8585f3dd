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
	"github.com/jibe-vnfm/jibe/reconciler"
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

// Reveal is [secret.Scoped.Reveal] of parameters. Whether they may stand where they do was judged when they came.
func (s secrets) Reveal(params map[string]any) (map[string]any, error) {
	out, err := s.For(secret.ForParams("")).Reveal(params)
	return out, refused("params", "", err)
}

// seals encrypt what the reconciler writes.
func (s *host) seals() reconciler.Seals {
	return reconciler.Seals{
		Hook: s.keeper.For(secret.ForHooks()).Encrypt,
		VIM:  s.keeper.For(secret.ForVIMs()).Encrypt,
		Connection: func(project, endpoint, clear string) (string, error) {
			return s.keeper.For(secret.ForConnection(project, endpoint)).Encrypt(clear)
		},
	}
}

// Permit refuses a change that brings a reference which may not be followed there, or a connection that is a
// kubeconfig or that may not be used as it is. Those that before has already are only checked when they are resolved:
// else no change could be made any more to an instance from before the rules. admin says that an administrator makes the
// change, or has made it by another door: such a person may have Jibe send what the host has to an endpoint that only the
// instance names.
func (s secrets) Permit(settings *desired.Settings, before, after *desired.Instance, admin bool) error {
	// What is connected to is what counts with the grant, whose connections hold references as well.
	after = after.WithGrant()
	were := map[string]desired.VIMConnection{}
	if before != nil {
		before = before.WithGrant()
		were = before.VIMConnections
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
	project := settings.ProjectOf(after.Dir)
	for _, r := range settings.BringsReferences(before, after) {
		field, _, _ := strings.Cut(r.Field, ".")
		if err := s.permit(settings, project, r, admin); err != nil {
			return refused(field, r.Field+": ", err)
		}
	}
	return nil
}

// permit is [secrets.Permit] for one reference. Its errors are [*secret.ForbiddenError].
func (s secrets) permit(settings *desired.Settings, project *desired.Project, r desired.Reference, admin bool) error {
	wanted := secret.ScopeAt(project.Name, r)
	if r.IsEncrypted() {
		switch is, err := s.ScopeOf(r.Ref); {
		case err != nil:
			return &secret.ForbiddenError{Reason: err.Error(), Remedy: wanted.Command(s.Recipient())}
		case is != wanted:
			return s.Misplaced(is, wanted)
		}
		return nil
	}
	if err := s.Keeper.Permit(r.Ref); err != nil {
		return err
	}
	for _, other := range settings.References() {
		if secret.SameSource(other.Ref, r.Ref) {
			return &secret.ForbiddenError{Reason: r.Ref + " is what " + other.Field + " refers to, and instances never may",
				Remedy: "name the VIM (vim: NAME), or keep this instance's secret elsewhere"}
		}
	}
	if !project.MayName(r.Ref) {
		return &secret.ForbiddenError{Reason: fmt.Sprintf("instances of project %s may not refer to %s", project.Name, r.Ref),
			Remedy: fmt.Sprintf("have an administrator add it, or the directory or beginning that it has, to secrets in %s; or encrypt it: %s", desired.ProjectFile(project.Name), wanted.Command(s.Recipient()))}
	}
	if r.Connection != "" && !admin {
		return &secret.ForbiddenError{Reason: fmt.Sprintf("%s would be sent to an endpoint that the instance itself names, %s, which needs the role admin of who pushes it", r.Ref, r.Endpoint),
			Remedy: fmt.Sprintf("have an administrator push it, or add the VIM under %s/; or encrypt the secret for that endpoint: %s", desired.VIMDir, wanted.Command(s.Recipient()))}
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
		Name: r.Name, Type: r.Type, Endpoint: r.Endpoint, CACert: r.CACert, Insecure: r.Insecure, InCluster: r.InCluster, Namespaces: r.Namespaces, Kubeconfig: r.Kubeconfig,
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
		if known != nil && slices.ContainsFunc(known.Peers, func(k desired.Peer) bool { return reflect.DeepEqual(k, p) }) {
			continue
		}
		_, err := keeper.ResolvePeer(&settings.Peers[i])
		refused(desired.PeersFile, p.Name+": ", err)
	}
	if known != nil {
		out = append(out, unscopedSettings(keeper, settings, known)...)
	}
	return out
}

// unscopedSettings refuses encrypted values that don't say what they are for, and didn't stand in the same file of those
// that are known. Others are found when they are resolved.
func unscopedSettings(keeper *secret.Keeper, settings, known *desired.Settings) []*desired.Problem {
	stood := map[[2]string]bool{}
	for _, r := range known.References() {
		file, _, _ := strings.Cut(r.Field, ": ")
		stood[[2]string{file, r.Ref}] = true
	}
	var out []*desired.Problem
	for _, r := range settings.References() {
		file, field, _ := strings.Cut(r.Field, ": ")
		if is, err := keeper.ScopeOf(r.Ref); err != nil || !is.IsZero() || stood[[2]string{file, r.Ref}] {
			continue
		}
		wanted := secret.ForVIMs()
		if file == desired.PeersFile {
			wanted = secret.ForSettings()
		}
		no := keeper.Misplaced(secret.Scope{}, wanted)
		out = append(out, &desired.Problem{File: file, Message: fmt.Sprintf("%q: %s", field, no.Reason), Remedy: no.Remedy})
	}
	return out
}
