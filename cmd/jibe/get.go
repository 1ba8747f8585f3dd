package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/lcm"
)

// object is a resource as the API shows it.
type object = map[string]any

// view says how one kind of resource is requested and shown.
type view struct {
	use, short, path string
	one              string // path of one of them; %s is its id
	story            string // path of the steps that one has done so far, "" where it has none
	// id finds the id by a name; nil where they have no names.
	id      func(c *client, ctx context.Context, name string) (string, error)
	columns []string
	row     func(o object) []string
	order   func(a, b object) int // nil keeps the server's
}

func views() []view {
	return []view{
		{
			use: "instances", short: "VNF instances",
			path: "/vnflcm/v2/vnf_instances?all_fields", one: "/vnflcm/v2/vnf_instances/%s", id: (*client).instance,
			columns: []string{"ID", "NAME", "STATE", "PRODUCT", "VERSION", "LEVELS", "VNFCS", "NOTE"},
			row: func(o object) []string {
				return []string{text(o, "id"), text(o, "vnfInstanceName"), text(o, "instantiationState"), text(o, "vnfProductName"),
					text(o, "vnfdVersion"), scaleLevels(o), vnfcs(o), note(o)}
			},
		},
		{
			use: "operations", short: "VNF LCM operations",
			path: "/vnflcm/v2/vnf_lcm_op_occs?all_fields", one: "/vnflcm/v2/vnf_lcm_op_occs/%s", story: "/jibe/v1/operations/%s/story",
			order:   newestFirst,
			columns: []string{"ID", "OPERATION", "STATE", "INSTANCE", "STARTED", "TOOK", "AUTO", "ERROR", "NOTE"},
			row: func(o object) []string {
				return []string{text(o, "id"), text(o, "operation"), text(o, "operationState"), text(o, "vnfInstanceId"),
					second(text(o, "startTime")), took(o), text(o, "isAutomaticInvocation"), reason(text(dig(o, "error"), "detail")), waiting(o)}
			},
		},
		{
			use: "packages", short: "VNF packages that the repositories hold",
			path:    "/jibe/v1/packages",
			columns: []string{"VNFD", "VERSION", "REPOSITORY", "REF", "PATH", "TREE", "STATE", "PACKAGE", "PROBLEM"},
			row: func(o object) []string {
				return []string{text(o, "vnfdId"), text(o, "version"), text(o, "repository"), text(o, "ref"), text(o, "path"), text(o, "tree"), packageState(o), text(o, "id"), clip(text(o, "problem"))}
			},
		},
		subscriptionsView(),
	}
}

// newestFirst orders operations by their start: what is looked for stands at the top.
func newestFirst(a, b object) int {
	began := func(o object) time.Time {
		t, _ := time.Parse(time.RFC3339Nano, text(o, "startTime")) // none is the oldest
		return t
	}
	return began(b).Compare(began(a))
}

func newGet() *cobra.Command {
	get := &cobra.Command{Use: "get", Short: "Show what there is and what is going on"}
	for _, v := range views() {
		get.AddCommand(newList(v))
		if v.one != "" {
			get.AddCommand(newShow(v))
		}
	}
	get.AddCommand(newDrift())
	get.AddCommand(newProblems(), newProjects())
	return get
}

func newList(v view) *cobra.Command {
	var c client
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   v.use,
		Short: v.short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return repeat(cmd.Context(), watch, cmd.OutOrStdout(), func(w io.Writer) error {
				list, err := c.list(cmd.Context(), v.path)
				if err != nil {
					return err
				}
				if v.order != nil {
					slices.SortStableFunc(list, v.order)
				}
				return show(w, output, list, func() { table(w, v, list) })
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	return cmd
}

func newShow(v view) *cobra.Command {
	var c client
	var output string
	var watch bool
	use := strings.TrimSuffix(v.use, "s") + " ID"
	if v.id != nil {
		use += "|NAME"
	}
	cmd := &cobra.Command{
		Use:   use,
		Short: "One of the " + v.use,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			return repeat(cmd.Context(), watch, cmd.OutOrStdout(), func(w io.Writer) error {
				var o object
				_, err := c.do(cmd.Context(), http.MethodGet, fmt.Sprintf(v.one, url.PathEscape(id)), nil, &o)
				var no *refusal
				if v.id != nil && errors.As(err, &no) && no.status == http.StatusNotFound {
					if id, err = v.id(&c, cmd.Context(), id); err == nil {
						_, err = c.do(cmd.Context(), http.MethodGet, fmt.Sprintf(v.one, url.PathEscape(id)), nil, &o)
					}
				}
				if err != nil {
					return err
				}
				var story []lcm.StoryLine
				if v.story != "" && output == "table" {
					_, err := c.do(cmd.Context(), http.MethodGet, fmt.Sprintf(v.story, url.PathEscape(id)), nil, &story)
					if err != nil && !(errors.As(err, &no) && no.status == http.StatusNotFound) { // an older server has none
						return err
					}
				}
				return show(w, output, o, func() {
					details(w, v, o)
					printStory(w, story)
				})
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	return cmd
}

func outputFlags(cmd *cobra.Command, output *string, watch *bool) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "table, json or yaml")
	cmd.Flags().BoolVarP(watch, "watch", "w", false, "show again whenever something has changed")
}

// list gets all pages.
func (c *client) list(ctx context.Context, path string) ([]object, error) {
	list := []object{}
	for path != "" {
		var page []object
		h, err := c.do(ctx, http.MethodGet, path, nil, &page)
		if err != nil {
			return nil, err
		}
		list = append(list, page...)
		path = nextPage(h.Get("Link"))
	}
	return list, nil
}

func nextPage(link string) string {
	target, params, ok := strings.Cut(link, ";")
	if !ok || !strings.Contains(params, `rel="next"`) {
		return ""
	}
	return strings.Trim(strings.TrimSpace(target), "<>")
}

// repeat prints once, or with watch whenever the text has changed, until the
// user ends it.
func repeat(ctx context.Context, watch bool, out io.Writer, print func(io.Writer) error) error {
	last := ""
	for {
		var b strings.Builder
		if err := print(&b); err != nil {
			return err
		}
		if b.String() != last {
			if last != "" {
				fmt.Fprintln(out)
			}
			last = b.String()
			fmt.Fprint(out, last)
		}
		if !watch {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func show(w io.Writer, output string, v any, asTable func()) error {
	switch output {
	case "table":
		asTable()
		return nil
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	case "yaml":
		data, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	return fmt.Errorf("--output %q: want table, json or yaml", output)
}

func table(w io.Writer, v view, list []object) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(v.columns, "\t"))
	for _, o := range list {
		fmt.Fprintln(t, strings.Join(v.row(o), "\t"))
	}
	t.Flush()
	if len(list) == 0 {
		fmt.Fprintf(w, "no %s\n", v.use)
	}
}

// details shows one resource: its columns, then its other sections.
func details(w io.Writer, v view, o object) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, value := range v.row(o) {
		if v.columns[i] != "ERROR" && value != "" {
			fmt.Fprintf(t, "%s\t%s\n", v.columns[i], value)
		}
	}
	if who := text(dig(o, "jibe"), "requestedBy"); who != "" {
		fmt.Fprintf(t, "REQUESTED BY\t%s\n", who)
	}
	t.Flush()
	if detail := text(dig(o, "error"), "detail"); detail != "" {
		fmt.Fprintf(w, "\nERROR\n  %s\n", detail)
	}
	notes(w, o)
	for _, section := range []struct {
		title   string
		list    any
		columns []string
	}{
		{"VNFCS", dig(o, "instantiatedVnfInfo")["vnfcResourceInfo"], []string{"vduId", "computeResource.resourceId", "computeResource.vimLevelResourceType", "id"}},
		{"CONNECTION POINTS", dig(o, "instantiatedVnfInfo")["extCpInfo"], []string{"cpdId", "cpProtocolInfo.ipOverEthernet.ipAddresses.addresses", "associatedVnfcCpId", "id"}},
		{"NETWORKS", dig(o, "instantiatedVnfInfo")["vnfVirtualLinkResourceInfo"], []string{"vnfVirtualLinkDescId", "networkResource.resourceId", "networkResource.vimLevelResourceType"}},
		{"STORAGES", dig(o, "instantiatedVnfInfo")["virtualStorageResourceInfo"], []string{"virtualStorageDescId", "storageResource.resourceId", "storageResource.vimLevelResourceType"}},
		{"RESOURCE CHANGES", dig(o, "resourceChanges")["affectedVnfcs"], []string{"changeType", "vduId", "computeResource.resourceId", "id"}},
		{"NETWORK CHANGES", dig(o, "resourceChanges")["affectedVirtualLinks"], []string{"changeType", "vnfVirtualLinkDescId", "networkResource.resourceId", "vnfLinkPortIds"}},
		{"PORT CHANGES", dig(o, "resourceChanges")["affectedExtLinkPorts"], []string{"changeType", "extCpInstanceId", "resourceHandle.resourceId"}},
		{"STORAGE CHANGES", dig(o, "resourceChanges")["affectedVirtualStorages"], []string{"changeType", "virtualStorageDescId", "storageResource.resourceId"}},
	} {
		list, _ := section.list.([]any)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", section.title)
		t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
		for _, x := range list {
			row, _ := x.(object)
			var cells []string
			for _, c := range section.columns {
				cells = append(cells, at(row, c))
			}
			fmt.Fprintln(t, "  "+strings.Join(cells, "\t"))
		}
		t.Flush()
	}
}

// printStory prints what an operation has done so far.
func printStory(w io.Writer, story []lcm.StoryLine) {
	if len(story) == 0 {
		return
	}
	fmt.Fprintln(w, "\nSTEPS")
	for _, line := range story {
		fmt.Fprintf(w, "  %s  %s\n", line.At.Format(time.TimeOnly), line.Text)
	}
}

func text(o object, key string) string {
	v, ok := o[key]
	if !ok || v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func dig(o object, key string) object {
	inner, _ := o[key].(object)
	return inner
}

// at is the text at a dotted path. Where the path goes through a list, the texts of all
// entries are joined.
func at(o object, path string) string {
	head, rest, deeper := strings.Cut(path, ".")
	list, isList := o[head].([]any)
	if !isList {
		if !deeper {
			return text(o, head)
		}
		return at(dig(o, head), rest)
	}
	var all []string
	for _, x := range list {
		inner, ok := x.(object)
		switch {
		case ok && deeper:
			all = append(all, at(inner, rest))
		case !ok && !deeper:
			all = append(all, fmt.Sprint(x))
		}
	}
	return strings.Join(all, ",")
}

func clip(s string) string { return clipTo(s, 60) }

// reason is why something failed, in the last column of a line.
func reason(s string) string { return clipTo(strings.Join(strings.Fields(s), " "), 120) }

func clipTo(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func scaleLevels(o object) string {
	list, _ := dig(o, "instantiatedVnfInfo")["scaleStatus"].([]any)
	var parts []string
	for _, x := range list {
		s, _ := x.(object)
		parts = append(parts, text(s, "aspectId")+"="+text(s, "scaleLevel"))
	}
	return strings.Join(parts, ",")
}

func vnfcs(o object) string {
	if text(o, "instantiationState") != "INSTANTIATED" {
		return ""
	}
	list, _ := dig(o, "instantiatedVnfInfo")["vnfcResourceInfo"].([]any)
	return fmt.Sprint(len(list))
}

// second is a time without the fraction of its second.
func second(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return stamp
	}
	return t.Format(time.RFC3339)
}

func took(o object) string {
	start, err1 := time.Parse(time.RFC3339, text(o, "startTime"))
	entered, err2 := time.Parse(time.RFC3339, text(o, "stateEnteredTime"))
	if err1 != nil || err2 != nil {
		return ""
	}
	switch text(o, "operationState") {
	case "STARTING", "PROCESSING", "ROLLING_BACK":
		entered = time.Now()
	}
	return entered.Sub(start).Round(time.Millisecond).String()
}
