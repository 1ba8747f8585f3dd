package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	ostack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

// fleet is the package of what runs as virtual machines: a group of servers with a port
// each.
//
//go:embed machines
var fleet embed.FS

const (
	fleetVnfdID = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bf0"
	fleetHOT    = "machines/BaseHOT/simple"
	// lookEvery is how often a bare client looks at a stack, and so the error of what
	// both are measured by.
	lookEvery = 150 * time.Millisecond
	// stackWait bounds one action of Heat.
	stackWait = 10 * time.Minute
)

// cloud is an OpenStack, seen by a bare client.
type cloud struct {
	osenv.Cloud
	heat *gophercloud.ServiceClient
}

func newCloud(ctx context.Context, c osenv.Cloud) (*cloud, error) {
	p, where, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	heat, err := ostack.NewOrchestrationV1(p, where)
	if err != nil {
		return nil, fmt.Errorf("cloud %s: %w", c.Name, err)
	}
	return &cloud{Cloud: c, heat: heat}, nil
}

// stack is what Heat says of one; ID is "" where there is none.
type stack struct {
	ID      string `json:"id"`
	Status  string `json:"stack_status"`
	Reason  string `json:"stack_status_reason"`
	Updated string `json:"updated_time"`
}

// call makes one request of Heat, which is to be answered with this status.
func (c *cloud) call(ctx context.Context, method, url string, status int, body, out any) error {
	response, err := c.heat.Request(ctx, method, url, &gophercloud.RequestOpts{JSONBody: body, JSONResponse: out, OkCodes: []int{status}})
	if response != nil {
		response.Body.Close()
	}
	return err
}

// get asks for a stack by name or id.
func (c *cloud) get(ctx context.Context, name string) (stack, error) {
	var body struct{ Stack stack }
	err := c.call(ctx, http.MethodGet, c.heat.ServiceURL("stacks", name)+"?resolve_outputs=false", http.StatusOK, nil, &body)
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return stack{}, nil
	}
	return body.Stack, err
}

// until returns when the stack was first seen to be as it should, or that it failed.
func (c *cloud) until(ctx context.Context, name string, holds func(stack) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, stackWait)
	defer cancel()
	for {
		s, err := c.get(ctx, name)
		if err != nil {
			return time.Time{}, fmt.Errorf("stack %s: %w", name, err)
		}
		now := time.Now()
		if holds(s) {
			return now, nil
		}
		if strings.HasSuffix(s.Status, "_FAILED") {
			return now, fmt.Errorf("stack %s: %s: %s", name, s.Status, s.Reason)
		}
		select {
		case <-ctx.Done():
			return now, fmt.Errorf("stack %s is still %s: %w", name, s.Status, ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}

func created(s stack) bool { return s.Status == "CREATE_COMPLETE" }
func deleted(s stack) bool { return s.ID == "" || s.Status == "DELETE_COMPLETE" }

// updated says whether an update that began after what was has ended.
func updated(was stack) func(stack) bool {
	return func(s stack) bool { return s.Status == "UPDATE_COMPLETE" && s.Updated != was.Updated }
}

// request is what makes a stack of the package with so many servers.
func request(capacity int) (map[string]any, error) {
	top, err := fleet.ReadFile(fleetHOT + "/machines.yaml")
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	err = fs.WalkDir(fleet, fleetHOT+"/nested", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fleet.ReadFile(name)
		files[path.Base(name)] = string(text)
		return err
	})
	return map[string]any{
		"template": string(top), "files": files, "timeout_mins": 10, "disable_rollback": true,
		"parameters": map[string]any{"nfv": map[string]any{"VDU": map[string]any{
			"WEB": map[string]any{"computeFlavourId": "m1.tiny", "vcImageId": "img1", "desired_capacity": capacity},
		}}},
	}, err
}

// create makes a stack and waits for it.
func (c *cloud) create(ctx context.Context, name string, capacity int) (time.Duration, error) {
	b, err := request(capacity)
	if err != nil {
		return 0, err
	}
	b["stack_name"] = name
	start := time.Now()
	if err := c.call(ctx, http.MethodPost, c.heat.ServiceURL("stacks"), http.StatusCreated, b, nil); err != nil {
		return 0, fmt.Errorf("create stack %s: %w", name, err)
	}
	at, err := c.until(ctx, name, created)
	return at.Sub(start), err
}

// update makes the stack have so many servers, those that are marked unhealthy anew, and
// waits for it.
func (c *cloud) update(ctx context.Context, name string, capacity int) (time.Duration, error) {
	b, err := request(capacity)
	if err != nil {
		return 0, err
	}
	was, err := c.get(ctx, name)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := c.call(ctx, http.MethodPut, c.heat.ServiceURL("stacks", name, was.ID), http.StatusAccepted, b, nil); err != nil {
		return 0, fmt.Errorf("update stack %s: %w", name, err)
	}
	at, err := c.until(ctx, name, updated(was))
	return at.Sub(start), err
}

// replace marks one server of the stack unhealthy and has it made anew, and waits for it.
func (c *cloud) replace(ctx context.Context, name string, capacity int) (time.Duration, error) {
	start := time.Now()
	was, err := c.get(ctx, name)
	if err != nil {
		return 0, err
	}
	var all struct {
		Resources []struct {
			Name  string `json:"resource_name"`
			Type  string `json:"resource_type"`
			Links []struct{ Href, Rel string }
		}
	}
	if err := c.call(ctx, http.MethodGet, c.heat.ServiceURL("stacks", name, was.ID, "resources")+"?nested_depth=2", http.StatusOK, nil, &all); err != nil {
		return 0, fmt.Errorf("resources of stack %s: %w", name, err)
	}
	for _, r := range all.Resources {
		if r.Type != "OS::Nova::Server" {
			continue
		}
		for _, l := range r.Links {
			if l.Rel != "self" {
				continue
			}
			mark := map[string]any{"mark_unhealthy": true, "resource_status_reason": "benchmark"}
			if err := c.call(ctx, http.MethodPatch, l.Href, http.StatusOK, mark, nil); err != nil {
				return 0, fmt.Errorf("mark a server of stack %s unhealthy: %w", name, err)
			}
			asked := time.Now()
			took, err := c.update(ctx, name, capacity)
			return asked.Sub(start) + took, err
		}
	}
	return 0, fmt.Errorf("stack %s has no server", name)
}

// remove deletes a stack and waits until it is gone.
func (c *cloud) remove(ctx context.Context, name string) (time.Duration, error) {
	was, err := c.get(ctx, name)
	if err != nil || was.ID == "" {
		return 0, err
	}
	start := time.Now()
	err = c.call(ctx, http.MethodDelete, c.heat.ServiceURL("stacks", name, was.ID), http.StatusNoContent, nil, nil)
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return 0, fmt.Errorf("delete stack %s: %w", name, err)
	}
	at, err := c.until(ctx, name, deleted)
	return at.Sub(start), err
}
