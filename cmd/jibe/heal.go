package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// newHeal is the command that requests a heal (SOL003 clause 5.4.9).
func newHeal() *cobra.Command {
	var c client
	var cause string
	var deleteData, formerly, pods, wait, yes bool
	cmd := &cobra.Command{
		Use:   "heal INSTANCE [VNFC…]",
		Short: "Make VNFCs, or a whole VNF, anew in place",
		Long: "Make the named VNFCs anew, or without any the whole VNF: every object of its package, in order.\n" +
			"INSTANCE is folder/name, an id or its beginning, or a name that only one has. A VNFC is named as the API shows it: by the id in\n" +
			"vnfcResourceInfo or vnfcInfo, or by its pod's name or server's id.",
		Example: "  jibe heal site-a/upf-1 --wait                  the whole VNF, and wait for the end\n" +
			"  jibe heal site-a/upf-1 upf-5d9c-x7k2p --cause hangs\n" +
			"  jibe heal 3f2a --pods                            only its VNFCs\n" +
			"  jibe heal site-a/upf-1 --delete-data             with its volumes, which lose their data",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if formerly {
				return errors.New("nothing was healed: --all is called --delete-data now, as it deletes volumes with their data")
			}
			body := object{}
			if len(args) > 1 {
				body["vnfcInstanceId"] = args[1:]
			}
			if cause != "" {
				body["cause"] = cause
			}
			if deleteData || pods {
				body["additionalParams"] = object{"all": deleteData}
			}
			if deleteData {
				of := args[0]
				if len(args) > 1 {
					of = strings.Join(args[1:], ", ") + " of " + of
				}
				question := fmt.Sprintf("Heal %s, and delete its volumes with all data in them?", of)
				if err := confirm(cmd, yes, question, "nothing was healed"); err != nil {
					return err
				}
			}
			return c.begin(cmd, wait, args[0], http.MethodPost, "/heal", "heal", body)
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&deleteData, "delete-data", false, "also the claims and volumes that the package lists, of single servers their volumes: their data is lost")
	cmd.Flags().BoolVar(&yes, "yes", false, "delete data without asking")
	cmd.Flags().BoolVar(&formerly, "all", false, "former name of --delete-data")
	_ = cmd.Flags().MarkHidden("all")
	cmd.Flags().BoolVar(&pods, "pods", false, "whole VNF: only its VNFCs; every other object stays")
	cmd.Flags().StringVar(&cause, "cause", "", "why, for the operation and the commit")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end; fail if that isn't COMPLETED")
	cmd.MarkFlagsMutuallyExclusive("delete-data", "pods")
	return cmd
}

// followPause lies between two looks at an operation.
const followPause = 200 * time.Millisecond

// follow prints each state of the operation until it leaves that state no more by itself.
// Any last state but COMPLETED is an error that says why.
func (c *client) follow(ctx context.Context, out io.Writer, op string) error {
	last := ""
	for {
		var o object
		if _, err := c.do(ctx, http.MethodGet, "/vnflcm/v2/vnf_lcm_op_occs/"+url.PathEscape(op), nil, &o); err != nil {
			return fmt.Errorf("follow operation %s: %w", op, err)
		}
		state := text(o, "operationState")
		if state != last {
			last = state
			if _, err := fmt.Fprintf(out, "%s %s %s\n", op, text(o, "operation"), state); err != nil {
				return err
			}
		}
		if !underWay(state) {
			return ended(o)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("operation %s goes on; follow it with: jibe get operation %s --watch: %w", op, op, ctx.Err())
		case <-time.After(followPause):
		}
	}
}
