package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// visible yields the commands that people see.
func visible(cmd *cobra.Command, yield func(*cobra.Command)) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			yield(c)
			visible(c, yield)
		}
	}
}

func TestEveryCommandHasExamplesThatItsFlagsAndArgumentsTake(t *testing.T) {
	root := newRoot()
	n := 0
	hold := func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no Short", cmd.CommandPath())
		}
		n++
		if cmd.Example == "" {
			t.Errorf("%s has no Example", cmd.CommandPath())
		}
		own := false
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			for _, part := range strings.Split(line, "|") {
				args := exampleArgs(part)
				if args == nil {
					continue
				}
				// A tree of its own: flags keep what they were given.
				meant, rest, err := newRoot().Find(args)
				if err != nil {
					t.Errorf("%s: %q: %v", cmd.CommandPath(), part, err)
					continue
				}
				own = own || meant.CommandPath() == cmd.CommandPath() || !cmd.Runnable() && strings.HasPrefix(meant.CommandPath(), cmd.CommandPath()+" ")
				if err := meant.ParseFlags(rest); err != nil {
					t.Errorf("%s: %q: %v", cmd.CommandPath(), part, err)
					continue
				}
				if err := meant.ValidateArgs(meant.Flags().Args()); err != nil {
					t.Errorf("%s: %q: %v", cmd.CommandPath(), part, err)
				}
				if err := meant.ValidateFlagGroups(); err != nil {
					t.Errorf("%s: %q: %v", cmd.CommandPath(), part, err)
				}
			}
		}
		if cmd.Example != "" && !own {
			t.Errorf("no example of %s begins with %q:\n%s", cmd.CommandPath(), cmd.CommandPath(), cmd.Example)
		}
	}
	hold(root)
	visible(root, hold)
	if n < 40 {
		t.Errorf("only %d commands were looked at", n)
	}
}

func TestEveryCommandStandsInAGroupOfTheHelpAndEveryFlagNamesItsValueInAWord(t *testing.T) {
	root := newRoot()
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" && cmd.Name() != "completion" && cmd.Name() != "version" && cmd.GroupID == "" {
			t.Errorf("%s stands in no group of jibe --help", cmd.CommandPath())
		}
	}
	visible(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			// What stands between backquotes in the usage is taken for the name of the value.
			if name, _ := pflag.UnquoteUsage(f); strings.ContainsAny(name, " \t") {
				t.Errorf("%s --%s: the value is called %q", cmd.CommandPath(), f.Name, name)
			}
		})
	})
}

// exampleArgs are the arguments of jibe in one line of an example, nil where there are none. What
// stands behind two spaces, or behind "#", explains the line.
func exampleArgs(line string) []string {
	line = strings.TrimSpace(line)
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	line, _, _ = strings.Cut(line, "  ")
	line, _, _ = strings.Cut(line, " #")
	_, line, found := strings.Cut(" "+line, " jibe ")
	if !found {
		return nil
	}
	line, _, _ = strings.Cut(line, " <")
	line, _, _ = strings.Cut(line, " >")
	line, _, _ = strings.Cut(line, " &&")
	line = strings.TrimRight(line, ")\";")
	var args []string
	quoted := false
	for _, w := range strings.Fields(line) {
		if quoted {
			args[len(args)-1] += " " + w
		} else {
			args = append(args, w)
		}
		if strings.Count(w, "'")%2 == 1 {
			quoted = !quoted
		}
	}
	return args
}
