package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/automation"
)

const rolloutsPath = "/jibe/v1/rollouts"

// newRollouts is the command that shows where rollouts stand.
func newRollouts() *cobra.Command {
	var c client
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "rollouts",
		Short: "Rollouts: where they stand, what they wait for, how long they will take",
		Long: "Rollouts of the desired repository (rollouts/<name>.yaml): the wave under way, how many instances are done, have\n" +
			"failed or are passed over, and what is waited for. -o wide names the instances that have failed or are passed over.",
		Example: "  jibe get rollouts --watch\n  jibe get rollouts -o wide",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return repeat(cmd, watch, func(w io.Writer, s *sheet) error {
				list := []automation.RolloutStatus{}
				if _, err := c.do(cmd.Context(), http.MethodGet, rolloutsPath, nil, &list); err != nil {
					return err
				}
				if output == "name" {
					for _, r := range list {
						fmt.Fprintln(w, r.Name)
					}
					return nil
				}
				s.wide = output == "wide"
				return show(w, output, list, func() { rolloutTable(w, s, list) })
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	return cmd
}

// rolloutTable prints one line a rollout and, where it is wide, one for each instance of which
// something is to be said.
func rolloutTable(w io.Writer, s *sheet, list []automation.RolloutStatus) {
	if len(list) == 0 {
		fmt.Fprintln(w, "there are no rollouts")
		return
	}
	columns := []column{{title: "NAME"}, {title: "PHASE"}, {title: "WAVE"}, {title: "DONE"}, {title: "UNDER WAY"}, {title: "FAILED"}, {title: "PASSED OVER"}, {title: "LEFT"}, {title: "WAITS FOR"}}
	var rows [][]string
	for _, r := range list {
		if r.Problem != "" {
			rows = append(rows, []string{r.Name, "problem", "-", "-", "-", "-", "-", "-", r.Problem})
			continue
		}
		wave, left := "-", "-"
		if r.Wave > 0 {
			wave = fmt.Sprintf("%d/%d", r.Wave, r.Waves)
		}
		if r.SecondsLeft > 0 {
			left = (time.Duration(r.SecondsLeft) * time.Second).String()
		}
		n := r.Counts
		rows = append(rows, []string{r.Name, string(r.Phase), wave, fmt.Sprintf("%d/%d", n.Completed+n.Already, n.Selected), strconv.Itoa(n.UnderWay),
			strconv.Itoa(n.Failed), strconv.Itoa(n.Passed), left, cmp.Or(r.WaitsFor, "-")})
		if s.wide {
			for _, i := range r.Failed {
				rows = append(rows, []string{"  " + i.Dir, "failed", "", "", "", "", "", "", cmp.Or(i.Reason, "-")})
			}
			for _, i := range r.Stays {
				rows = append(rows, []string{"  " + i.Dir, "not taken back", "", "", "", "", "", "", cmp.Or(i.Reason, "-")})
			}
			for _, i := range r.Passed {
				rows = append(rows, []string{"  " + i.Dir, "passed over", "", "", "", "", "", "", cmp.Or(i.Reason, "-")})
			}
		}
	}
	s.write(w, columns, rows)
}

// newRollout is the command with what can be asked of a rollout.
func newRollout() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rollout", Short: "Pause, resume, approve, retry or abort a rollout",
		Long: `A rollout brings many instances to a version, wave by wave. It is a file, rollouts/NAME.yaml in the desired repository:
to begin one, push it. These commands change what it does next, each by a commit; "jibe get rollouts" shows where it stands.`,
		Example: "  jibe rollout approve amf-1.5   the next wave may begin\n  jibe rollout pause amf-1.5     nothing more begins",
	}
	cmd.AddCommand(
		newRolloutAsk(automation.RolloutPause, "Begin nothing more of a rollout until it is resumed", "What is under way goes on to its end."),
		newRolloutAsk(automation.RolloutResume, "Have a rollout go on that is paused or halted", "Failures so far count no more against the budget."),
		newRolloutAsk(automation.RolloutApprove, "Let a rollout begin its next wave", "What is approved is what has come of the waves so far: where that has changed meanwhile, it is refused."),
		newRolloutAsk(automation.RolloutRetry, "Begin once more with what of a rollout has failed, or with one instance of it",
			"An operation that still waits in FAILED_TEMP is retried by itself: jibe retry. A rollout that is halted begins nothing more before it is resumed."),
		newRolloutAsk(automation.RolloutAbort, "End a rollout", "What is under way goes on to its end, and what was done stays. A rollout that has ended can't be resumed."),
	)
	return cmd
}

func newRolloutAsk(action, short, long string) *cobra.Command {
	var c client
	var gate string
	use, args := action+" NAME", cobra.ExactArgs(1)
	if action == automation.RolloutRetry {
		use, args = use+" [INSTANCE]", cobra.RangeArgs(1, 2)
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ". " + long + "\nIt is a commit, and needs the role operator in all projects.",
		Example: "  jibe rollout " + action + " amf-1.5", Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := api.RolloutAsked{Gate: gate}
			if len(args) > 1 {
				asked.Instance = strings.TrimSuffix(args[1], "/")
			}
			if action == automation.RolloutApprove && gate == "" {
				r, err := c.rollout(cmd, args[0])
				if err != nil {
					return err
				}
				if asked.Gate = r.Gate; asked.Gate == "" {
					return fmt.Errorf("rollout %s waits for no approval: it is %s", r.Name, cmp.Or(string(r.Phase), r.Problem))
				}
				n := r.Counts
				fmt.Fprintf(cmd.OutOrStdout(), "wave %d of %d has ended: %d completed, %d failed, %d passed over\n", r.Wave, r.Waves, n.Completed, n.Failed, n.Passed)
			}
			var done api.RolloutAnswer
			if _, err := c.do(cmd.Context(), http.MethodPost, rolloutsPath+"/"+url.PathEscape(args[0])+"/"+action, asked, &done); err != nil {
				return err
			}
			if done.Commit == "" {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing had to be changed")
				return nil
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: commit %s; follow it with: jibe get rollouts --watch\n", action, done.Commit)
			return err
		},
	}
	c.flags(cmd.Flags())
	if action == automation.RolloutApprove {
		cmd.Flags().StringVar(&gate, "gate", "", "what is approved, as \"jibe get rollouts -o json\" has it; without it, what stands there now")
	}
	return cmd
}

// rollout finds one by name.
func (c *client) rollout(cmd *cobra.Command, name string) (automation.RolloutStatus, error) {
	list := []automation.RolloutStatus{}
	if _, err := c.do(cmd.Context(), http.MethodGet, rolloutsPath, nil, &list); err != nil {
		return automation.RolloutStatus{}, err
	}
	at := slices.IndexFunc(list, func(r automation.RolloutStatus) bool { return r.Name == name })
	if at < 0 {
		return automation.RolloutStatus{}, errors.New("there is no rollout " + name + " (see: jibe get rollouts)")
	}
	return list[at], nil
}
