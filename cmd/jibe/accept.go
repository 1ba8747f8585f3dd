package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

// acceptPath is the resource of what is held back: GET shows it, POST accepts it.
const acceptPath = "/jibe/v1/accept"

// newAccept is the command by which a person accepts what Jibe held back of the desired
// repository.
func newAccept() *cobra.Command {
	var c client
	var yes bool
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Accept what is held back of the desired repository",
		Long: "Accept the desired repository's branch as it is now. It is held back where its history was rewritten or set back, a\n" +
			"remote's also where it would end many instances at once. A single instance is held back where its id was changed,\n" +
			"or lost with a move, while it runs: to accept that terminates the VNF and begins another. The command shows which\n" +
			"VNFs end, begin and change, and asks; without a terminal it needs --yes.",
		Example: "  jibe get problems   # what is held back\n  jibe accept",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var held gitrepo.Held
			if _, err := c.do(cmd.Context(), http.MethodGet, acceptPath, nil, &held); err != nil {
				return err
			}

			path := acceptPath
			if held.Why != "" {
				path += "?commit=" + url.QueryEscape(held.To)
			}
			if held.Why != "" || len(held.Instances)+len(held.Missing) > 0 {
				showHeld(cmd.OutOrStdout(), &held)
				if err := confirm(cmd, yes, "Accept this?", "nothing was accepted"); err != nil {
					return err
				}
			}

			var done api.Accepted
			if _, err := c.do(cmd.Context(), http.MethodPost, path, nil, &done); err != nil {
				return err
			}
			for _, p := range done.Taken {
				fmt.Fprintf(cmd.OutOrStdout(), "accepted: %s: %s\n", p.File, p.Message)
			}
			if len(done.Taken) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "accepted: the branch as it is")
			}
			return nil
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "accept without asking")
	return cmd
}

// showHeld prints what is held back, and the effect of accepting it.
func showHeld(w io.Writer, h *gitrepo.Held) {
	if h.Why != "" {
		fmt.Fprintf(w, "from commit %s to %s:\n", h.From, h.To)
		for _, list := range []struct {
			what string
			dirs []string
		}{{"end", h.Ends}, {"begin", h.Begins}, {"change", h.Changes}} {
			fmt.Fprintf(w, "VNFs that %s: %d\n", list.what, len(list.dirs))
			for n, dir := range list.dirs {
				if n == mostShown {
					fmt.Fprintf(w, "  and %d more\n", len(list.dirs)-n)
					break
				}
				fmt.Fprintln(w, "  "+dir)
			}
		}
	}
	for _, p := range h.Instances {
		fmt.Fprintf(w, "a VNF becomes another one: %s: %s\n", p.File, p.Message)
	}
	for _, p := range h.Missing {
		fmt.Fprintf(w, "a VNF ends: %s: %s\n", p.File, p.Message)
	}
}
