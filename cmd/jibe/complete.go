package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout bounds what a person waits for after the tabulator. A server that doesn't
// answer in time completes nothing.
const completionTimeout = 2 * time.Second

// completions is what each command's arguments are completed with, by the command's path below
// jibe: one a position, and the last for all that follow it where it is repeated.
func completions() map[string][]completer {
	failed := operationIDs("FAILED_TEMP")
	return map[string][]completer{
		"heal":          {instanceNames},
		"upgrade":       {instanceNames, packageIDs},
		"update":        {instanceNames, packageIDs},
		"get instance":  {instanceNames},
		"get operation": {operationIDs()},
		"retry":         {failed},
		"rollback":      {failed},
		"fail":          {failed},
		"cancel":        {operationIDs("STARTING", "PROCESSING", "ROLLING_BACK")},
	}
}

// completer lists what a word that begins so may become, each with a description behind a
// tabulator. It makes one cheap request.
type completer func(ctx context.Context, c *client, word string) []string

// completeFromServer has the shells complete arguments by what the server knows: names of
// instances, packages, ids of operations. The server is the one that the command would ask.
func completeFromServer(root *cobra.Command) {
	for path, by := range completions() {
		cmd, _, err := root.Find(strings.Fields(path))
		if err != nil || cmd.CommandPath() != root.Name()+" "+path || cmd.ValidArgsFunction != nil {
			continue
		}
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) >= len(by) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var c client
			for name, to := range map[string]*string{"server": &c.server, "token-file": &c.tokenFile, "data": &c.data} {
				if f := cmd.Flags().Lookup(name); f != nil {
					*to = f.Value.String()
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
			defer cancel()
			return by[len(args)](ctx, &c, word), cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// rows asks for the first page of a list alone: whoever has more than fit on it types one more letter.
func rows(ctx context.Context, c *client, path string) []object {
	var list []object
	if _, err := c.do(ctx, http.MethodGet, path, nil, &list); err != nil {
		return nil // a shell has no place for it; the command itself will say it
	}
	return list
}

func filtered(path, filter string) string { return path + "&filter=" + url.QueryEscape(filter) }

// quoted is a value in a filter (SOL013 clause 5.2.2).
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", "''") + "'" }

func instanceNames(ctx context.Context, c *client, word string) []string {
	path := "/vnflcm/v2/vnf_instances?exclude_default"
	if word != "" {
		path = filtered(path, "(cont,vnfInstanceName,"+quoted(word)+")")
	}
	var names []string
	for _, o := range rows(ctx, c, path) {
		if name := text(o, "vnfInstanceName"); strings.HasPrefix(name, word) {
			names = append(names, name+"\t"+strings.ToLower(text(o, "instantiationState"))+", "+text(o, "vnfProductName"))
		}
	}
	return names
}

func packageIDs(ctx context.Context, c *client, word string) []string {
	var ids []string
	for _, o := range rows(ctx, c, "/jibe/v1/packages") {
		if id := text(o, "vnfdId"); id != "" && strings.HasPrefix(id, word) {
			ids = append(ids, id+"\t"+text(o, "version")+", "+text(o, "repository")+" "+text(o, "path"))
		}
	}
	return ids
}

// operationIDs lists operations that are in one of the states, or all.
func operationIDs(states ...string) completer {
	return func(ctx context.Context, c *client, word string) []string {
		path := "/vnflcm/v2/vnf_lcm_op_occs?exclude_default"
		if len(states) > 0 {
			path = filtered(path, "(in,operationState,"+strings.Join(states, ",")+")")
		}
		var ids []string
		for _, o := range rows(ctx, c, path) {
			if id := text(o, "id"); strings.HasPrefix(id, word) {
				ids = append(ids, id+"\t"+text(o, "operation")+" "+text(o, "operationState")+", since "+second(text(o, "startTime")))
			}
		}
		return ids
	}
}
