package openstacktest

import (
	"encoding/json"
	"net/http"
	"time"
)

type token struct {
	expires time.Time
	method  string
}

func (c *Cloud) authorized(id string) bool {
	t, ok := c.tokens[id]
	return ok && time.Now().Before(t.expires)
}

func (c *Cloud) keystone(in *call, path string) answer {
	version := object{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []any{object{"rel": "self", "href": c.URL(Keystone) + "/v3/"}},
		"media-types": []any{object{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
	switch {
	case path == "":
		return answer{status: http.StatusMultipleChoices, body: object{"versions": object{"values": []any{version}}}, header: map[string]string{"Location": c.URL(Keystone) + "/v3/"}}
	case path == "v3":
		return ok(object{"version": version})
	case path == "v3/auth/tokens" && in.method == http.MethodPost:
		return c.issue(in)
	case !c.authorized(in.header.Get("X-Auth-Token")):
		return c.unauthorized(Keystone)
	case path == "v3/auth/tokens" && (in.method == http.MethodGet || in.method == http.MethodHead):
		subject := in.header.Get("X-Subject-Token")
		t, found := c.tokens[subject]
		if !found {
			return fail(Keystone, http.StatusNotFound, "", "Could not recognize Fernet token")
		}
		return answer{status: http.StatusOK, body: c.token(t), header: map[string]string{"X-Subject-Token": subject}}
	case path == "v3/auth/tokens" && in.method == http.MethodDelete:
		delete(c.tokens, in.header.Get("X-Subject-Token"))
		return answer{status: http.StatusNoContent}
	case path == "v3/auth/catalog":
		return ok(object{"catalog": c.catalog()})
	}
	return fail(Keystone, http.StatusNotFound, "", "The resource could not be found.")
}

// named is a thing of Keystone as requests name it.
type named struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Domain *named `json:"domain"`
}

func (n *named) is(id, name string) bool {
	return n != nil && (n.ID == id || n.ID == "" && n.Name == name)
}

// issue gives a token to whoever shows the right credentials.
func (c *Cloud) issue(in *call) answer {
	var asked struct {
		Auth struct {
			Identity struct {
				Methods  []string `json:"methods"`
				Password struct {
					User struct {
						named
						Password string `json:"password"`
					} `json:"user"`
				} `json:"password"`
				Application struct {
					ID     string `json:"id"`
					Secret string `json:"secret"`
				} `json:"application_credential"`
			} `json:"identity"`
			Scope struct {
				Project *named `json:"project"`
			} `json:"scope"`
		} `json:"auth"`
	}
	if json.Unmarshal(in.body, &asked) != nil || len(asked.Auth.Identity.Methods) != 1 {
		return fail(Keystone, http.StatusBadRequest, "", "Expecting to find valid JSON or form data in request body.")
	}
	id, scope := asked.Auth.Identity, asked.Auth.Scope.Project
	method := id.Methods[0]
	switch method {
	case "password":
		u := id.Password.User
		inDomain := u.ID != "" || u.Domain.is("default", domainName)
		if !inDomain || !u.is(c.user, userName) || u.Password != password {
			return c.unauthorized(Keystone)
		}
		if !scope.is(c.project, projectName) || scope.ID == "" && !scope.Domain.is("default", domainName) {
			return c.unauthorized(Keystone)
		}
	case "application_credential":
		if id.Application.ID != credential || id.Application.Secret != secret {
			return c.unauthorized(Keystone)
		}
	default:
		return c.unauthorized(Keystone)
	}
	t := token{expires: time.Now().Add(c.opts.TokenLife), method: method}
	subject := "gAAAAA" + randomHex(60)
	c.tokens[subject] = t
	return answer{status: http.StatusCreated, body: c.token(t), header: map[string]string{"X-Subject-Token": subject, "Vary": "X-Auth-Token"}}
}

func (c *Cloud) token(t token) object {
	domain := object{"id": "default", "name": domainName}
	return object{"token": object{
		"methods":   []any{t.method},
		"user":      object{"domain": domain, "id": c.user, "name": userName, "password_expires_at": nil},
		"audit_ids": []any{randomHex(8)}, "expires_at": micro(t.expires) + "Z", "issued_at": micro(t.expires.Add(-c.opts.TokenLife)) + "Z",
		"project": object{"domain": domain, "id": c.project, "name": projectName}, "is_domain": false,
		"roles":   []any{object{"id": hexID(), "name": "admin"}, object{"id": hexID(), "name": "member"}, object{"id": hexID(), "name": "reader"}},
		"catalog": c.catalog(),
	}}
}

func (c *Cloud) catalog() []any {
	var list []any
	for _, s := range []struct {
		service    Service
		kind, name string
	}{{Keystone, "identity", "keystone"}, {Heat, "orchestration", "heat"}, {Nova, "compute", "nova"}, {Neutron, "network", "neutron"}, {Glance, "image", "glance"}, {Cinder, "volumev3", "cinderv3"}} {
		var endpoints []any
		for _, of := range []string{"public", "internal"} {
			endpoints = append(endpoints, object{"id": hexID(), "interface": of, "region_id": region, "url": c.endpoint(s.service), "region": region})
		}
		list = append(list, object{"endpoints": endpoints, "id": hexID(), "type": s.kind, "name": s.name})
	}
	for kind, url := range c.others {
		list = append(list, object{"endpoints": []any{object{"id": hexID(), "interface": "public", "region_id": region, "url": url, "region": region}},
			"id": hexID(), "type": kind, "name": kind})
	}
	return list
}
