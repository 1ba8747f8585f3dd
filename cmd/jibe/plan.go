package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/admission/plantext"
	"github.com/jibe-vnfm/jibe/desired"
)

// wouldChange is the exit code of `jibe plan` when something would change.
const wouldChange = exitError(2)

func newPlan() *cobra.Command {
	var c client
	var base, commit, output string
	var options []string
	cmd := &cobra.Command{
		Use:   "plan [DIR]",
		Short: "Print the steps that a working copy, a branch or a commit would cause",
		Long: "Print the steps that the working copy of the desired repository in which DIR stands (default: this folder), or a\n" +
			"branch or commit of it, would cause if it were pushed or merged now. The server's planner computes them, and a dry\n" +
			"run at the VIM shows what each would change, field by field: \"+\" is new, \"-\" goes, \"~\" is another value;\n" +
			"values of secrets are redacted. What Jibe would fill in beside the change is marked \"filled in\".\n" +
			"Only what differs from the branch that the clone follows is looked at; a branch that isn't merged yet is looked at\n" +
			"as it would be once merged. Instances of which it would make the same are put together, what is refused and what\n" +
			"takes most away goes first. Where the push would be refused, the reasons are printed instead, as by `jibe validate`.\n" +
			"Exit code 0: nothing would change; 2: something would; 1: error.",
		Example: "  jibe plan                         the files of this folder\n" +
			"  jibe plan vnfs --head upgrade     the branch of a pull request\n" +
			"  jibe plan --base main --head \"$SHA\" -o markdown >comment.md   in a forge's CI, with the role planner",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := newDraft(cmd.Context(), &c, folder(args), base, commit, false)
			if err != nil {
				return err
			}
			defer d.close()
			v, err := d.check(cmd.Context(), options, func(p *admission.Proposal) (*admission.Verdict, error) {
				var v admission.Verdict
				_, err := c.do(cmd.Context(), http.MethodPost, "/jibe/v1/plan", p, &v)
				return &v, err
			})
			if err != nil {
				return err
			}
			d.hint(cmd.ErrOrStderr())
			w := cmd.OutOrStdout()
			groups := admission.GroupPreviews(v.Previews)
			if output == "markdown" {
				err = plantext.Markdown(w, *v, groups)
			} else {
				err = show(w, output, planOutput{v, groups}, func() { plantext.Text(w, *v, groups) })
			}
			if err != nil {
				return err
			}
			if len(v.Problems) > 0 {
				return fmt.Errorf("%s; nothing of this would be accepted", plantext.Count(len(v.Problems), "problem"))
			}
			for _, preview := range v.Previews {
				if preview.Error != "" {
					return errors.New("not everything could be planned")
				}
			}
			for _, preview := range v.Previews {
				if preview.Type != "" {
					return wouldChange
				}
			}
			return nil
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().StringVar(&commit, "head", "", "a branch or commit of DIR's repository, instead of its files")
	cmd.Flags().StringVar(&commit, "commit", "", "the same as --head")
	cmd.Flags().StringVar(&base, "base", "", "the branch or commit that it would be merged into (default: where the server stands)")
	cmd.MarkFlagsMutuallyExclusive("head", "commit")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, markdown (for a pull request's comment), json or yaml")
	pushOptions(cmd, &options)
	return cmd
}

func newValidate() *cobra.Command {
	var c client
	var offline bool
	var options []string
	cmd := &cobra.Command{
		Use:   "validate [DIR]",
		Short: "Say what a push of the working copy would be refused for",
		Long: "Check the working copy of the desired repository in which DIR stands (default: this folder), with what isn't\n" +
			"committed yet, as the repository's hook would: files, ids, moved directories, mass terminations; packages and VIMs\n" +
			"as the server knows them. In a plain folder, which has no git to compare with, what it would move or end isn't known.",
		Example: "  jibe validate                  the files of this folder\n" +
			"  jibe validate vnfs --offline   without a server",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := newDraft(cmd.Context(), &c, folder(args), "", "", offline)
			away := errors.Is(err, errUnreachable)
			if away {
				unreachable := err
				if d, err = newDraft(cmd.Context(), &c, folder(args), "", "", true); err == nil {
					err = unreachable
				}
			}
			if d == nil {
				return err
			}
			defer d.close()
			v, checkErr := d.check(cmd.Context(), options, func(p *admission.Proposal) (*admission.Verdict, error) {
				if away || offline {
					return &admission.Verdict{Effect: p.Effect}, nil
				}
				var v admission.Verdict
				_, err := c.do(cmd.Context(), http.MethodPost, "/jibe/v1/check", p, &v)
				return &v, err
			})
			if checkErr != nil {
				return checkErr
			}
			d.hint(cmd.ErrOrStderr())
			n, problems, exposed, standErr := d.contents(cmd.Context())
			warnings := v.Warnings
			for _, p := range exposed { // also those that the push wouldn't change
				if !slices.ContainsFunc(slices.Concat(v.Problems, warnings), func(shown *desired.Problem) bool { return shown.File == p.File && shown.Line == p.Line }) {
					warnings = append(warnings, p)
				}
			}
			w := cmd.OutOrStdout()
			for _, p := range warnings {
				fmt.Fprintln(w, "warning: "+p.Error())
			}
			for _, p := range v.Problems {
				fmt.Fprintln(w, p.Error())
			}
			if len(v.Problems) > 0 {
				return fmt.Errorf("%s: a push would be refused", plantext.Count(len(v.Problems), "problem"))
			}
			if away {
				return fmt.Errorf("%w\nthe files themselves are sound; packages, levels and VIMs need the server (or --offline)", err)
			}
			if standErr != nil {
				return standErr
			}
			for _, p := range problems {
				fmt.Fprintln(w, p.Error())
			}
			if len(problems) > 0 {
				return fmt.Errorf("%s: the branch has them already, and a push that leaves them there isn't refused for that", plantext.Count(len(problems), "problem"))
			}
			said := "no problems"
			if offline {
				said = "the files are sound (packages, levels and VIMs were not checked)"
			}
			if v.Effect != "" {
				fmt.Fprintln(w, "a push would have this effect on VNFs: "+v.Effect)
			}
			_, err = fmt.Fprintf(w, "%s: %s, %s\n", d.root, plantext.Count(n, "instance"), said)
			return err
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&offline, "offline", false, "check the files alone, asking no server")
	pushOptions(cmd, &options)
	return cmd
}

func pushOptions(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringArrayVar(to, "push-option", nil, "an `OPTION` that the push would have, as terminate=12 of git push -o terminate=12; may be repeated")
}

func folder(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// planOutput is the plan for those who read it by machine.
type planOutput struct {
	*admission.Verdict
	Groups []admission.Group `json:"groups"`
}
