package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
)

const (
	instancesPath  = "/vnflcm/v2/vnf_instances"
	operationsPath = "/vnflcm/v2/vnf_lcm_op_occs"
	// briefly selects of an instance what it is called and how it is.
	briefly = "fields=vnfInstanceName,jibe"
)

// idBegin is what the beginning of an id may be: four characters or more.
var idBegin = regexp.MustCompile(`^[0-9a-f]{4}[0-9a-f-]*$`)

// idLength is that of a whole id.
const idLength = 36

// expression is one expression of a filter of the API.
func expression(op, attr string, values ...string) string {
	var b strings.Builder
	b.WriteString("(" + op + "," + attr)
	for _, v := range values {
		b.WriteString(",'" + strings.ReplaceAll(v, "'", "''") + "'")
	}
	return b.String() + ")"
}

// listWhere gets what all the filter's expressions match.
func (c *client) listWhere(ctx context.Context, path, selector string, expressions ...string) ([]object, error) {
	if len(expressions) > 0 {
		selector += "&filter=" + url.QueryEscape(strings.Join(expressions, ";"))
	}
	return c.list(ctx, path+"?"+selector)
}

// instance is the id of the VNF instance that a person means.
func (c *client) instance(ctx context.Context, said string) (string, error) {
	o, err := c.find(ctx, said)
	return text(o, "id"), err
}

// find returns, briefly, the VNF instance that a person means: by its id, its name, the
// beginning of its id where only one begins so, its directory, or folder/name as tables show it.
func (c *client) find(ctx context.Context, said string) (object, error) {
	type try struct {
		expression string
		means      func(o object) bool // nil means all that match
	}
	tries := []try{{expression("eq", "id", said), nil}, {expression("eq", "vnfInstanceName", said), nil}}
	if dir := strings.TrimPrefix(strings.Trim(said, "/"), "instances/"); strings.Contains(said, "/") {
		tries = append(tries,
			try{expression("cont", "jibe/directory", "instances/"+dir), func(o object) bool { return directory(o) == dir }},
			try{expression("eq", "vnfInstanceName", path.Base(dir)), func(o object) bool { return folderOf(o) == path.Dir(dir) }})
	} else if idBegin.MatchString(said) {
		tries = append(tries, try{expression("cont", "id", said), func(o object) bool { return strings.HasPrefix(text(o, "id"), said) }})
	}
	for _, t := range tries {
		list, err := c.listWhere(ctx, instancesPath, briefly, t.expression)
		if err != nil {
			return nil, err
		}
		var meant []object
		for _, o := range list {
			if t.means == nil || t.means(o) {
				meant = append(meant, o)
			}
		}
		switch {
		case len(meant) == 1:
			return meant[0], nil
		case len(meant) > 1:
			var which []string
			for _, o := range meant {
				line := fmt.Sprintf("%s (%s)", text(o, "id"), strings.ToLower(text(o, "instantiationState")))
				if folder := folderOf(o); folder != "" {
					line += "  " + where(o)
				}
				which = append(which, line)
			}
			return nil, fmt.Errorf("%d VNF instances have the name %q: say which by its id or by folder/name, one of\n  %s", len(meant), said, strings.Join(which, "\n  "))
		}
	}
	return nil, fmt.Errorf("no VNF instance has the id or the name %q; jibe get instances lists them", said)
}

// operation is the id of the operation that a person means: by its id, or by the beginning of
// its id where only one begins so.
func (c *client) operation(ctx context.Context, said string) (string, error) {
	if len(said) >= idLength || !idBegin.MatchString(said) {
		return said, nil // the server says whether there is one
	}
	list, err := c.listWhere(ctx, operationsPath, "exclude_default", expression("cont", "id", said))
	if err != nil {
		return "", err
	}
	var ids []string
	for _, o := range list {
		if id := text(o, "id"); strings.HasPrefix(id, said) {
			ids = append(ids, id)
		}
	}
	switch len(ids) {
	case 0:
		return said, nil
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("the ids of %d operations begin with %q: give more of it, one of\n  %s", len(ids), said, strings.Join(ids, "\n  "))
}

// directory is where an instance is in git, below instances/, "" where the server doesn't say.
func directory(o object) string {
	return strings.TrimPrefix(text(dig(o, "jibe"), "directory"), "instances/")
}

// folderOf is the folder that an instance's directory stands in, "" for none.
func folderOf(o object) string {
	if dir := path.Dir(directory(o)); dir != "." {
		return dir
	}
	return ""
}

// nameOf is what an instance is called: its name, else that of its directory.
func nameOf(o object) string {
	if name := text(o, "vnfInstanceName"); name != "" {
		return name
	}
	if dir := directory(o); dir != "" {
		return path.Base(dir)
	}
	return clipID(text(o, "id"))
}

// where is an instance as tables name it, and as every command takes it: folder/name.
func where(o object) string { return path.Join(folderOf(o), nameOf(o)) }

// manyIDs is how many ids one request names.
const manyIDs = 150

// byID gets what has the ids, as much of each as the selector says.
func (c *client) byID(ctx context.Context, path, selector string, ids []string) (map[string]object, error) {
	found := make(map[string]object, len(ids))
	for len(ids) > 0 {
		n := min(manyIDs, len(ids))
		list, err := c.listWhere(ctx, path, selector, expression("in", "id", ids[:n]...))
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			found[text(o, "id")] = o
		}
		ids = ids[n:]
	}
	return found, nil
}

// instanceNames are the instances as tables name them, by id. One that is no longer there has
// the beginning of its id.
func (c *client) instanceNames(ctx context.Context, ids map[string]bool) (map[string]string, error) {
	names := make(map[string]string, len(ids))
	var all []string
	for id := range ids {
		if id != "" {
			all = append(all, id)
			names[id] = clipID(id)
		}
	}
	found, err := c.byID(ctx, instancesPath, briefly, all)
	for id, o := range found {
		names[id] = where(o)
	}
	return names, err
}

// one gets one resource.
func (c *client) one(ctx context.Context, pattern, id string) (object, error) {
	var o object
	_, err := c.do(ctx, http.MethodGet, fmt.Sprintf(pattern, url.PathEscape(id)), nil, &o)
	return o, err
}
