package sol

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// sealer replaces credentials by references to their ciphertext.
type sealer struct {
	secrets Secrets
	dir     string
	keep    func(old, plaintext string) (string, error)
	// names is the rule that recognizes credentials by their names.
	names desired.SecretNames
}

// sealer seals for an instance in the directory.
func (a *api) sealer(dir string, names desired.SecretNames) sealer {
	return sealer{secrets: a.Secrets, dir: dir, names: names, keep: func(old, plaintext string) (string, error) {
		return a.Secrets.KeepParam(dir, old, plaintext)
	}}
}

// connection is the sealer of a connection. What was encrypted for another endpoint isn't kept for this one.
func (s sealer) connection(endpoint string) sealer {
	s.keep = func(old, plaintext string) (string, error) {
		return s.secrets.KeepConnection(s.dir, endpoint, old, plaintext)
	}
	return s
}

// carried refuses credentials that a change of the endpoint would carry along: they were given for the other one.
func (s sealer) carried(where string, c, old desired.VIMConnection) error {
	if desired.SameEndpoint(old.InterfaceInfo["endpoint"], c.InterfaceInfo["endpoint"]) {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(c.AccessInfo)) {
		if v := c.AccessInfo[key]; desired.IsRef(v) && v == old.AccessInfo[key] {
			return rest.Problem(http.StatusBadRequest, "%s.accessInfo.%s was given for another endpoint, and isn't sent to this one: give it again together with interfaceInfo.endpoint", where, key)
		}
	}
	return nil
}

// secretNames returns the rule for names of secrets, with those that the VNFDs of the
// intents declare. A VNFD whose package can't be read declares nothing.
func (a *api) secretNames(ctx context.Context, intents ...*desired.Instance) desired.SecretNames {
	var names desired.SecretNames
	for _, in := range intents {
		if in == nil {
			continue
		}
		if pkg, err := a.View.Package(ctx, in); err == nil {
			names = names.With(pkg.VNFD.SecretParams...)
		}
	}
	return names
}

// seal returns in with every clear credential encrypted. A credential that before already
// has keeps its ciphertext byte for byte. seal refuses a reference that before doesn't have:
// with it, a client could make the server send its own files, or another VIM's
// credentials, to an endpoint of the client's choice.
func (s sealer) seal(in, before *desired.Instance) (*desired.Instance, error) {
	if before == nil {
		before = &desired.Instance{}
	}
	out := *in
	if in.VIMConnections != nil {
		out.VIMConnections = make(map[string]desired.VIMConnection, len(in.VIMConnections))
	}
	for _, name := range slices.Sorted(maps.Keys(in.VIMConnections)) {
		c, old := in.VIMConnections[name], before.VIMConnections[name]
		where := "vimConnectionInfo." + name
		s, kept := s.connection(c.InterfaceInfo["endpoint"]), old
		if !desired.SameEndpoint(old.InterfaceInfo["endpoint"], c.InterfaceInfo["endpoint"]) {
			kept = desired.VIMConnection{}
		}
		if err := s.carried(where, c, old); err != nil {
			return nil, err
		}
		var err error
		if c.InterfaceInfo, err = s.flat(where+".interfaceInfo", c.InterfaceInfo, kept.InterfaceInfo); err != nil {
			return nil, err
		}
		if c.AccessInfo, err = s.flat(where+".accessInfo", c.AccessInfo, kept.AccessInfo); err != nil {
			return nil, err
		}
		if c.Extra, err = s.object(where+".extra", c.Extra, kept.Extra, shown); err != nil {
			return nil, err
		}
		out.VIMConnections[name] = c
	}
	for _, f := range []struct {
		where   string
		to      *map[string]any
		is, was map[string]any
		use     use
	}{
		{"additionalParams", &out.Params, in.Params, before.Params, handedOn},
		{"additionalParams", &out.Update.Coordinate.Params, in.Update.Coordinate.Params, before.Update.Coordinate.Params, forScripts},
		{"metadata", &out.Metadata, in.Metadata, before.Metadata, shown},
		{"extensions", &out.Extensions, in.Extensions, before.Extensions, shown},
		{"vnfConfigurableProperties", &out.ConfigurableProperties, in.ConfigurableProperties, before.ConfigurableProperties, shown},
	} {
		sealed, err := s.object(f.where, f.is, f.was, f.use)
		if err != nil {
			return nil, err
		}
		*f.to = sealed
	}
	return &out, nil
}

// flat seals accessInfo or interfaceInfo.
func (s sealer) flat(where string, is, was map[string]string) (map[string]string, error) {
	if is == nil {
		return nil, nil
	}
	out := make(map[string]string, len(is))
	for _, k := range slices.Sorted(maps.Keys(is)) {
		v := is[k]
		secret := s.names.Match(k) || desired.IsSecretValue(v)
		switch {
		case secret && v == "":
			continue
		case secret || desired.IsRef(v):
			sealed, err := s.one(where+"."+k, v, was[k])
			if err != nil {
				return nil, err
			}
			v = sealed
		}
		out[k] = v
	}
	return out, nil
}

// use says what free content is used for.
type use int

const (
	// shown content is only kept and shown.
	shown use = iota
	// handedOn is content that hooks of the package get with all references resolved, so
	// no reference may come from a client.
	handedOn
	// forScripts is content that only hooks of the package get. Empty credentials are left
	// out of it.
	forScripts
)

func (s sealer) object(where string, is, was map[string]any, u use) (map[string]any, error) {
	if is == nil {
		return nil, nil
	}
	v, err := s.value(where, is, was, u, false)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// value seals what is below the name of a credential in free content, and what is a
// credential whatever its name. A number is sealed as its text.
func (s sealer) value(where string, is, was any, u use, secret bool) (any, error) {
	switch v := is.(type) {
	case map[string]any:
		old, _ := was.(map[string]any)
		out := make(map[string]any, len(v))
		pair := s.names.Pair(v)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if v[k] == "" && u == forScripts && s.names.Match(k) {
				continue
			}
			e, err := s.value(where+"."+k, v[k], old[k], u, secret || k == pair || s.names.Match(k))
			if err != nil {
				return nil, err
			}
			out[k] = e
		}
		return out, nil
	case []any:
		old, _ := was.([]any)
		out := make([]any, len(v))
		for i, e := range v {
			var before any
			if i < len(old) {
				before = old[i]
			}
			sealed, err := s.value(fmt.Sprintf("%s[%d]", where, i), e, before, u, secret)
			if err != nil {
				return nil, err
			}
			out[i] = sealed
		}
		return out, nil
	case string:
		ref := strings.HasPrefix(v, desired.RefAge) || u != shown && desired.IsRef(v)
		if v == "" || !secret && !ref && !desired.IsSecretValue(v) {
			return v, nil
		}
		old, _ := was.(string)
		return s.one(where, v, old)
	case nil, bool:
		return v, nil
	}
	if !secret {
		return is, nil
	}
	old, _ := was.(string)
	return s.one(where, desired.Decimal(is), old)
}

func (s sealer) one(where, v, old string) (string, error) {
	if desired.IsRef(v) {
		if v == old {
			return v, nil
		}
		return "", rest.Problem(http.StatusBadRequest, "%s is a reference: through the API credentials are given in clear (they are encrypted before they are stored)", where)
	}
	return s.keep(old, v)
}

// redact returns v, decoded JSON, without what is or may be a secret.
func redact(v any) any { return desired.SecretNames{}.Strip(v) }

func redacted(names desired.SecretNames, m map[string]any) map[string]any {
	if len(m) == 0 {
		return nil
	}
	return names.Strip(m).(map[string]any)
}
