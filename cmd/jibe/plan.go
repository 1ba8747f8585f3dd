package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

// wouldChange is the exit code of `jibe plan` when something would change.
const wouldChange = exitError(2)

func newPlan() *cobra.Command {
	var c client
	var commit, output string
	cmd := &cobra.Command{
		Use:   "plan [DIR]",
		Short: "Print the steps that a working copy, a branch or a commit would cause",
		Long: "Print the steps that the working copy DIR of the desired repository (default: this folder), or a branch\n" +
			"or commit of it, would cause if it were pushed or merged now. The server's planner computes them, and a dry\n" +
			"run at the VIM tells what each would change, field by field: \"+\" is new, \"-\" goes, \"~\" is another value;\n" +
			"values of secrets are hidden. What Jibe would fill in beside the change is marked \"filled in\".\n" +
			"Of a branch that isn't merged yet, only what it changes itself is looked at, as it would be once merged.\n" +
			"Exit code 0: nothing would change; 2: something would; 1: error.",
		Example: "  jibe plan                         the files of this folder\n" +
			"  jibe plan vnfs --commit upgrade   the branch of a pull request",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := propose(cmd.Context(), &c, folder(args), commit)
			if err != nil {
				return err
			}
			var v app.Verdict
			if _, err := c.do(cmd.Context(), http.MethodPost, "/jibe/v1/plan", p, &v); err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if err := show(w, output, v, func() { printPlan(w, v) }); err != nil {
				return err
			}
			if len(v.Problems) > 0 {
				return fmt.Errorf("%s; nothing of this would be accepted", count(len(v.Problems), "problem"))
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
	cmd.Flags().StringVar(&commit, "commit", "", "a branch or commit of DIR's repository, instead of its files")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	return cmd
}

func newValidate() *cobra.Command {
	var c client
	var offline bool
	cmd := &cobra.Command{
		Use:   "validate [DIR]",
		Short: "Say what a push of the working copy would be refused for",
		Long: "Check the working copy DIR of the desired repository (default: this folder) as the repository's hook\n" +
			"would. Packages and VIMs are those that the server knows.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := folder(args)
			snapshot, err := gitrepo.WorkingCopy(dir)
			if err != nil {
				return err
			}
			problems, warnings := snapshot.Problems(), []*desired.Problem(nil)
			if _, err := snapshot.Settings(); err != nil {
				problems = append(problems, unfold(err)...)
			}
			w := cmd.OutOrStdout()
			if len(problems) == 0 && !offline {
				p, err := propose(cmd.Context(), &c, dir, "")
				if err != nil {
					return fmt.Errorf("%w\nthe files themselves are sound; packages, levels and VIMs need the server (or --offline)", err)
				}
				var v app.Verdict
				if _, err := c.do(cmd.Context(), http.MethodPost, "/jibe/v1/check", p, &v); err != nil {
					return err
				}
				problems, warnings = v.Problems, v.Warnings
			}
			for _, p := range snapshot.Exposed() { // of what a push wouldn't change, too
				if !slices.ContainsFunc(slices.Concat(problems, warnings), func(told *desired.Problem) bool { return told.File == p.File && told.Line == p.Line }) {
					warnings = append(warnings, p)
				}
			}
			for _, p := range warnings {
				fmt.Fprintln(w, "warning: "+p.Error())
			}
			for _, p := range problems {
				fmt.Fprintln(w, p.Error())
			}
			if len(problems) > 0 {
				return fmt.Errorf("%s: a push would be refused", count(len(problems), "problem"))
			}
			if offline {
				_, err = fmt.Fprintf(w, "%s: %s, the files are sound (packages, levels and VIMs were not checked)\n", dir, count(len(snapshot.List()), "instance"))
			} else {
				_, err = fmt.Fprintf(w, "%s: %s, no problems\n", dir, count(len(snapshot.List()), "instance"))
			}
			return err
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&offline, "offline", false, "check the files alone, asking no server")
	return cmd
}

func unfold(err error) []*desired.Problem {
	var invalid *desired.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Problems
	}
	return []*desired.Problem{{File: "repositories.yaml", Message: err.Error()}}
}

func folder(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// propose collects what differs between the server's head and a working copy, or
// what a branch or commit of it would be once merged.
func propose(ctx context.Context, c *client, dir, commit string) (*app.Proposal, error) {
	var changed []string // what the branch changes; nil is everything
	if commit != "" {
		tmp, err := os.MkdirTemp("", "jibe-plan-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(tmp)
		if commit, changed, err = merged(ctx, dir, commit); err != nil {
			return nil, err
		}
		if err := export(ctx, dir, commit, tmp); err != nil {
			return nil, err
		}
		dir = tmp
	}
	snapshot, err := gitrepo.WorkingCopy(dir)
	if err != nil {
		return nil, err
	}
	var head []desired.Revision
	if _, err := c.do(ctx, http.MethodGet, "/jibe/v1/instances", nil, &head); err != nil {
		return nil, err
	}
	p, err := app.ProposalOf(ctx, head, snapshot)
	if err != nil {
		return nil, err
	}
	if changed != nil {
		p.Instances = slices.DeleteFunc(p.Instances, func(i app.Candidate) bool {
			return !slices.ContainsFunc(changed, func(name string) bool { return strings.HasPrefix(name, i.Dir+"/") })
		})
		if !slices.ContainsFunc(changed, desired.IsSettings) {
			return p, nil
		}
	}
	p.Settings, err = snapshot.Settings()
	return p, err
}

// merged is the tree that a commit would make if it were merged into the branch that
// the clone follows, and the files that it would change there. For a commit that is
// part of that branch, and where the clone follows none, it is the commit's own tree,
// and everything in it counts.
func merged(ctx context.Context, dir, commit string) (tree string, changed []string, err error) {
	at, err := gitIn(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}")
	if err != nil {
		// The branch of a pull request need not have been checked out.
		if at, err = gitIn(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", "origin/"+commit+"^{commit}"); err != nil {
			return "", nil, fmt.Errorf("%s has no branch or commit %q (git fetch?)", dir, commit)
		}
	}
	trunk := ""
	for _, name := range []string{"origin/HEAD", "origin/main"} {
		if trunk, err = gitIn(ctx, dir, "rev-parse", "--verify", "--quiet", name+"^{commit}"); err == nil {
			break
		}
	}
	if trunk == "" {
		return at, nil, nil
	}
	base, err := gitIn(ctx, dir, "merge-base", trunk, at)
	if err != nil || base == at {
		return at, nil, nil
	}
	tree = at
	if base != trunk {
		if out, err := gitIn(ctx, dir, "merge-tree", "--write-tree", "--no-messages", trunk, at); err == nil {
			tree = out
		} else if len(out) >= len(at) { // it names a tree with conflicts in it
			return "", nil, fmt.Errorf("%s conflicts with the branch that it would be merged into: rebase it first", commit)
		} else {
			trunk = base // a git that can't merge without a work tree
		}
	}
	out, err := gitIn(ctx, dir, "diff", "--name-only", "--no-renames", "-z", trunk, tree)
	if err != nil {
		return "", nil, err
	}
	return tree, strings.FieldsFunc(out, func(r rune) bool { return r == 0 }), nil
}

// gitIn runs git in a clone and returns what it prints, also where it fails.
func gitIn(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s in %s: %w: %s", args[0], dir, err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), err
}

// export writes the files of a commit into a folder.
func export(ctx context.Context, dir, commit, into string) error {
	index := filepath.Join(into, ".index")
	for _, args := range [][]string{
		{"read-tree", "--end-of-options", commit},
		{"checkout-index", "--all", "--prefix=" + into + "/"},
	} {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+index)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("commit %s of %s: %w: %s", commit, dir, err, out)
		}
	}
	return os.Remove(index)
}

func printPlan(w io.Writer, v app.Verdict) {
	for _, p := range v.Warnings {
		fmt.Fprintln(w, "warning: "+p.Error())
	}
	for _, p := range v.Problems {
		fmt.Fprintln(w, p.Error())
	}
	changes := 0
	for _, p := range v.Previews {
		switch {
		case p.Error != "":
			fmt.Fprintf(w, "%s: %s\n", p.Dir, p.Error)
		case p.Type == "":
			fmt.Fprintf(w, "%s: no change of what runs\n", p.Dir)
		default:
			changes++
			fmt.Fprintf(w, "%s: %s\n", p.Dir, p.Type)
			printSteps(w, p)
		}
	}
	if len(v.Problems) == 0 {
		fmt.Fprintf(w, "%s would change\n", count(changes, "instance"))
	}
}

// count is "1 problem", "2 problems".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
