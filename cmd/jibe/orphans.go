package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/internal/natural"
	"github.com/jibe-vnfm/jibe/reconciler"
)

const orphansPath = "/jibe/v1/orphans"

// newGetOrphans is the command that shows the objects that belong to no VNF.
func newGetOrphans() *cobra.Command {
	var c client
	var vim, output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "Objects at VIMs that belong to no VNF: a cluster was restored from a copy, say",
		Long: "Objects that this installation made at a VIM and that belong to no VNF: their instance isn't known, isn't\n" +
			"instantiated, or runs at another VIM. What an operation is under way for, or whose file can't be read, is never\n" +
			"among them, nor what another installation made. `jibe orphans delete` deletes them.",
		Example: "  jibe get orphans\n" +
			"  jibe get orphans --vim kube-a -o wide",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return repeat(cmd, watch, func(w io.Writer, s *sheet) error {
				found, err := c.orphans(cmd.Context(), vim)
				if err != nil {
					return err
				}
				for _, u := range found.Unseen {
					fmt.Fprintf(cmd.ErrOrStderr(), "VIM %s can't be seen: %s\n", u.VIM, u.Why)
				}
				if output == "name" {
					for _, o := range found.Orphans {
						fmt.Fprintln(w, o.Object)
					}
					return nil
				}
				s.wide = output == "wide"
				return show(w, output, found.Orphans, func() { orphanTable(w, s, found) })
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	cmd.Flags().StringVar(&vim, "vim", "", "only those at the VIM of that name")
	return cmd
}

// orphans asks for the objects that belong to no VNF, at one VIM where it is named.
func (c *client) orphans(ctx context.Context, vim string) (*reconciler.Orphans, error) {
	found := &reconciler.Orphans{Orphans: []reconciler.Orphan{}}
	if _, err := c.do(ctx, http.MethodGet, orphansPath, nil, found); err != nil {
		return nil, err
	}
	if vim != "" {
		if !slices.Contains(found.VIMs, vim) && !slices.ContainsFunc(found.Unseen, func(u reconciler.Unseen) bool { return u.VIM == vim }) {
			return nil, fmt.Errorf("no VIM %s was looked at, but these: %s", vim, cmp.Or(strings.Join(found.VIMs, ", "), "none"))
		}
		found.Orphans = slices.DeleteFunc(found.Orphans, func(o reconciler.Orphan) bool { return o.VIM != vim })
		found.Unseen = slices.DeleteFunc(found.Unseen, func(u reconciler.Unseen) bool { return u.VIM != vim })
	}
	slices.SortStableFunc(found.Orphans, func(a, b reconciler.Orphan) int {
		return cmp.Or(natural.Compare(a.VIM, b.VIM), natural.Compare(orphaned(a), orphaned(b)), natural.Compare(a.Object, b.Object))
	})
	return found, nil
}

// orphaned is what the instance of an orphan is, or was, called.
func orphaned(o reconciler.Orphan) string {
	return cmp.Or(strings.TrimPrefix(o.Dir, "instances/"), o.Instance)
}

// place splits the key of an object into kind, namespace and name; OpenStack has no namespaces.
func place(key string) (kind, namespace, name string) {
	kind, name, _ = strings.Cut(key, "/")
	switch kind {
	case "Stack", "Volume", "Server":
		return kind, "", name
	}
	if before, after, ok := strings.Cut(name, "/"); ok {
		namespace, name = before, after
	}
	return kind, namespace, name
}

// orphanTable prints one line an object.
func orphanTable(w io.Writer, s *sheet, found *reconciler.Orphans) {
	if len(found.Orphans) == 0 {
		if len(found.Unseen) > 0 {
			fmt.Fprintln(w, "no orphans where VIMs can be seen")
			return
		}
		fmt.Fprintln(w, "every object belongs to a VNF")
		return
	}
	columns := []column{{title: "VIM"}, {title: "NAMESPACE"}, {title: "KIND"}, {title: "NAME"}, {title: "INSTANCE"}, {title: "AGE"}, {title: "NOTE"}}
	if s.wide {
		columns = append(columns, column{title: "INSTANCE ID"}, column{title: "UID"})
	}
	var rows [][]string
	for _, o := range found.Orphans {
		kind, namespace, name := place(o.Object)
		made, note := "-", o.Why
		if !o.Created.IsZero() {
			made = s.ago(o.Created.Format(time.RFC3339))
		}
		if o.Deleting {
			note = "being deleted"
		} else if o.Data {
			note += "; has data"
		}
		row := []string{o.VIM, cmp.Or(namespace, "-"), kind, name, orphaned(o), made, note}
		if s.wide {
			row = append(row, o.Instance, o.Incarnation)
		}
		rows = append(rows, row)
	}
	s.write(w, columns, rows)
}

// newOrphans is the command for objects that belong to no VNF.
func newOrphans() *cobra.Command {
	cmd := &cobra.Command{Use: "orphans", Short: "Delete objects at VIMs that belong to no VNF", Example: "  jibe orphans delete --vim kube-a"}
	cmd.AddCommand(newDeleteOrphans())
	return cmd
}

// newDeleteOrphans is the command by which an administrator has orphans deleted.
func newDeleteOrphans() *cobra.Command {
	var c client
	var vim string
	var data, yes bool
	cmd := &cobra.Command{
		Use:   "delete [INSTANCE ID…]",
		Short: "Delete what jibe get orphans shows, after it was shown",
		Long: "Delete objects that belong to no VNF, all or those of the instance ids (or beginnings of them), as the end of their\n" +
			"instance would. The command shows what that is, and asks; without a terminal it needs --yes. Exactly what was shown\n" +
			"is deleted: what was made again since, or belongs to a VNF by then, is left alone. It may be interrupted and\n" +
			"repeated. Claims, volumes and what has them stay unless --delete-data is given. It needs the role admin.",
		Example: "  jibe orphans delete --vim kube-a\n" +
			"  jibe orphans delete 5b0e1d52 --delete-data",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := c.orphans(cmd.Context(), vim)
			if err != nil {
				return err
			}
			for _, u := range found.Unseen {
				fmt.Fprintf(cmd.ErrOrStderr(), "VIM %s can't be seen: %s\n", u.VIM, u.Why)
			}
			list, err := ofInstances(found.Orphans, args)
			if err != nil {
				return err
			}

			due := showDeletion(cmd.OutOrStdout(), list, data)
			if len(due) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing is to be deleted")
				return nil
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Delete %d objects?", len(due)), "nothing was deleted"); err != nil {
				return err
			}
			return c.deleteOrphans(cmd, due, data)
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().StringVar(&vim, "vim", "", "only at the VIM of that name")
	cmd.Flags().BoolVar(&data, "delete-data", false, "also claims, volumes and what has them: their data is lost")
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without asking")
	return cmd
}

// ofInstances are the orphans of the instances whose ids begin so; all where none is named.
func ofInstances(list []reconciler.Orphan, ids []string) ([]reconciler.Orphan, error) {
	if len(ids) == 0 {
		return list, nil
	}
	var chosen []reconciler.Orphan
	for _, id := range ids {
		of := map[string]bool{}
		for _, o := range list {
			if strings.HasPrefix(o.Instance, id) {
				of[o.Instance] = true
				chosen = append(chosen, o)
			}
		}
		switch {
		case len(of) == 0:
			return nil, fmt.Errorf("nothing was deleted: no orphan is of an instance %s (see: jibe get orphans)", id)
		case len(of) > 1:
			return nil, fmt.Errorf("nothing was deleted: %s is the beginning of %d instance ids", id, len(of))
		}
	}
	return chosen, nil
}

// showDeletion shows what would be deleted and what would stay, and returns the former.
func showDeletion(out io.Writer, list []reconciler.Orphan, data bool) (due []reconciler.Orphan) {
	last, kept := "", 0
	for _, o := range list {
		if head := fmt.Sprintf("%s at VIM %s (%s): %s", orphaned(o), o.VIM, o.Instance, o.Why); head != last {
			last = head
			fmt.Fprintln(out, head)
		}
		switch {
		case o.Deleting:
			fmt.Fprintf(out, "  is going %s\n", o.Object)
		case o.Data && !data:
			kept++
			fmt.Fprintf(out, "  stays    %s\n", o.Object)
		default:
			due = append(due, o)
			fmt.Fprintf(out, "  deletes  %s\n", o.Object)
		}
	}
	if kept > 0 {
		fmt.Fprintf(out, "%d objects stay, with which data would be lost: --delete-data deletes them as well\n", kept)
	}
	return due
}

// mostAtOnce is how many instances one request is about, so that none takes long.
const mostAtOnce = 50

// deleteOrphans has the objects deleted, some instances at a time.
func (c *client) deleteOrphans(cmd *cobra.Command, due []reconciler.Orphan, data bool) error {
	deleted, gone, refused := 0, 0, 0
	for len(due) > 0 {
		d := reconciler.OrphanDeletion{DeleteData: data}
		of := map[string]bool{}
		n := 0
		for ; n < len(due); n++ {
			if of[due[n].VIM+" "+due[n].Instance] = true; len(of) > mostAtOnce {
				break
			}
			d.Objects = append(d.Objects, due[n].Ref())
		}
		due = due[n:]

		var done reconciler.OrphansDeleted
		if _, err := c.do(cmd.Context(), http.MethodPost, orphansPath+"/delete", d, &done); err != nil {
			if deleted > 0 {
				return fmt.Errorf("%d objects were deleted before: %w", deleted, err)
			}
			return err
		}
		deleted, gone, refused = deleted+len(done.Deleted), gone+len(done.Gone), refused+len(done.Refused)
		for _, x := range done.Refused {
			fmt.Fprintf(cmd.ErrOrStderr(), "left alone: %s of %s: %s\n", x.Object, x.Instance, x.Reason)
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "deleted: %d objects\n", deleted)
	if gone > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "gone already: %d objects\n", gone)
	}
	if refused > 0 {
		return errors.New("some objects were left alone: look again")
	}
	return nil
}
