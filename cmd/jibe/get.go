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

	"github.com/jibe-vnfm/jibe/internal/natural"
	"github.com/jibe-vnfm/jibe/lcm"
)

// object is a resource as the API shows it.
type object = map[string]any

// view says how one kind of resource is requested and shown.
type view struct {
	use, short, long     string
	example, showExample string
	one                  string // path of one of them; %s is its id
	story                string // path of the steps that one has done so far, "" where it has none
	flags                []string
	states               string // what --state takes
	// find returns, briefly, the one that a person means; nil where that takes the whole id.
	find func(c *client, ctx context.Context, said string) (object, error)
	// list gets those that are wanted, as much of each as the form of output shows.
	list    func(c *client, ctx context.Context, q *selection, output string) (*page, error)
	name    func(o object) string // what -o name prints
	columns []column
}

func newGet() *cobra.Command {
	get := &cobra.Command{
		Use: "get", Short: "Show what there is and what is going on",
		Example: `  jibe get instances --state failing   which VNFs wait for a person
  jibe get operations --watch          operations as they go on
  jibe get problems                    which files aren't obeyed, and what to do`,
	}
	for _, v := range []view{instancesView(), operationsView(), packagesView(), subscriptionsView()} {
		get.AddCommand(newList(v))
		if v.one != "" {
			get.AddCommand(newShow(v))
		}
	}
	get.AddCommand(newDrift())
	get.AddCommand(newProblems(), newGetOrphans(), newProjects(), newMembers(), newRollouts())
	return get
}

func newList(v view) *cobra.Command {
	var c client
	var q selection
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:     v.use,
		Short:   v.short,
		Long:    v.long,
		Example: v.example,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && v.story != "" && output == "table" && !screenOf(cmd.OutOrStdout()).live {
				return c.followAll(cmd.Context(), cmd.OutOrStdout(), &q)
			}
			return repeat(cmd, watch, func(w io.Writer, s *sheet) error {
				p, err := v.list(&c, cmd.Context(), &q, output)
				if err != nil {
					return err
				}
				s.names, s.wide = p.names, output == "wide"
				if output == "name" {
					return printNames(w, p.list, v.name)
				}
				if err := show(w, output, p.list, func() { v.table(w, s, p.list) }); err != nil {
					return err
				}
				if p.left > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d more %s; --limit 0 shows all\n", p.left, v.use)
				}
				return nil
			})
		},
	}
	c.flags(cmd.Flags())
	q.limit = defaultLimit
	q.flags(cmd, v.states, v.flags...)
	outputFlags(cmd, &output, &watch)
	return cmd
}

// printNames prints a name a line.
func printNames(w io.Writer, list []object, name func(o object) string) error {
	for _, o := range list {
		if _, err := fmt.Fprintln(w, name(o)); err != nil {
			return err
		}
	}
	return nil
}

func newShow(v view) *cobra.Command {
	var c client
	var output string
	var watch bool
	singular := strings.TrimSuffix(v.use, "s")
	use := singular + " ID"
	if singular == "instance" {
		use += "|NAME"
	}
	cmd := &cobra.Command{
		Use:     use,
		Short:   "One of the " + v.use,
		Example: v.showExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, brief := args[0], object(nil)
			if v.find != nil {
				var err error
				if brief, err = v.find(&c, cmd.Context(), id); err != nil {
					return err
				}
				id = text(brief, "id")
			}
			if watch && v.story != "" && (output == "table" || output == "wide") {
				return c.watchStory(cmd, v, id)
			}
			return repeat(cmd, watch, func(w io.Writer, s *sheet) error {
				o, err := c.one(cmd.Context(), v.one, id)
				if err != nil {
					return err
				}
				if output == "name" {
					return printNames(w, []object{o}, func(object) string { return v.name(or(brief, o)) })
				}
				story, err := c.detail(cmd.Context(), v, s, output, o, brief)
				if err != nil {
					return err
				}
				return show(w, output, o, func() {
					v.details(w, s, o)
					printStory(w, story)
				})
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	return cmd
}

// or is what is known briefly of a resource where that tells its directory, else the resource.
func or(brief, o object) object {
	if directory(brief) != "" {
		return brief
	}
	return o
}

// detail gets what the table of one resource shows beside it: its story, and what the
// instance is called. What is known of it briefly has its directory.
func (c *client) detail(ctx context.Context, v view, s *sheet, output string, o, brief object) (story []lcm.StoryLine, err error) {
	if dir := dig(brief, "jibe")["directory"]; dir != nil {
		if dig(o, "jibe") == nil {
			o["jibe"] = object{}
		}
		dig(o, "jibe")["directory"] = dir
	}
	s.wide = true
	if v.story == "" || output != "table" && output != "wide" {
		return nil, nil
	}
	if s.names, err = c.instanceNames(ctx, map[string]bool{text(o, "vnfInstanceId"): true}); err != nil {
		return nil, err
	}
	_, err = c.do(ctx, http.MethodGet, fmt.Sprintf(v.story, url.PathEscape(text(o, "id"))), nil, &story)
	var no *refusal
	if errors.As(err, &no) && no.status == http.StatusNotFound { // an older server has none
		err = nil
	}
	return story, err
}

func outputFlags(cmd *cobra.Command, output *string, watch *bool) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "table, wide, name, json or yaml")
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

// repeat prints once, or with watch whenever the text has changed, until the user ends it. A
// terminal shows it in the same place; elsewhere it has no ages, which change by themselves.
func repeat(cmd *cobra.Command, watch bool, print func(w io.Writer, s *sheet) error) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	for last := ""; ; {
		s := &sheet{screen: screenOf(out)}
		if s.live || !watch {
			s.now = time.Now()
		}
		var b strings.Builder
		if err := print(&b, s); err != nil {
			if watch && ctx.Err() != nil {
				return nil
			}
			return err
		}
		if b.String() != last {
			text := b.String()
			switch {
			case watch && s.live:
				text = s.redraw(text, last == "")
			case last != "":
				text = "\n" + text
			}
			last = b.String()
			if _, err := io.WriteString(out, text); err != nil {
				return err
			}
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
	case "table", "wide":
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
	return fmt.Errorf("--output %q: want one of those that --help names, as table, json or yaml", output)
}

// table shows a list.
func (v *view) table(w io.Writer, s *sheet, list []object) {
	columns := s.shown(v.columns)
	rows := make([][]string, len(list))
	for i, o := range list {
		for _, c := range columns {
			rows[i] = append(rows[i], c.cell(o, s))
		}
	}
	s.write(w, columns, rows)
	if len(list) == 0 {
		fmt.Fprintf(w, "no %s\n", v.use)
	}
}

// details shows one resource: its columns, then its other sections.
func (v *view) details(w io.Writer, s *sheet, o object) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	failed := text(dig(o, "error"), "detail")
	for _, c := range v.columns {
		value := printable(c.cell(o, s))
		if value != "" && value != "-" && (c.title != "NOTE" || failed == "") && c.title != "BY" {
			fmt.Fprintf(t, "%s\t%s\n", c.title, value)
		}
	}
	if who := text(dig(o, "jibe"), "requestedBy"); who != "" {
		fmt.Fprintf(t, "REQUESTED BY\t%s\n", who)
	}
	if pull := dig(dig(o, "jibe"), "pullRequest"); pull["number"] != nil {
		fmt.Fprintf(t, "PULL REQUEST\t%s\n", printable(strings.TrimSpace(fmt.Sprintf("%v %s", pull["number"], text(pull, "link")))))
	}
	t.Flush()
	if failed != "" {
		fmt.Fprintf(w, "\nERROR\n  %s\n", failed)
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
		var rows []string
		for _, x := range list {
			row, _ := x.(object)
			var cells []string
			for _, c := range section.columns {
				cells = append(cells, at(row, c))
			}
			rows = append(rows, strings.Join(cells, "\t"))
		}
		slices.SortFunc(rows, natural.Compare)
		for _, row := range rows {
			fmt.Fprintln(t, "  "+row)
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
