// Command jibe is a GitOps VNF manager: the server, the push hook of its
// repositories, and the client. It only parses and wires.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// exitError ends the process with a code of its own and prints nothing more.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	if exit, is := launcher(os.Args[1:]); is {
		os.Exit(exit)
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := execution(ctx, newRoot(), args)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	}
	fmt.Fprintln(os.Stderr, "jibe:", err)
	return 1
}

// execution runs the command that the arguments name.
func execution(ctx context.Context, root *cobra.Command, args []string) error {
	if err := called(root, args); err != nil {
		return err
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "jibe",
		Short: "A GitOps VNF manager",
		Long: `Jibe keeps the desired state of every VNF in git, makes Kubernetes and OpenStack jibe with it,
and speaks ETSI NFV SOL002/SOL003.

What asks a server finds it by --server and --token-file, or on the server's own machine by --data. The
variables JIBE_SERVER, JIBE_TOKEN_FILE (or JIBE_TOKEN) and JIBE_DATA say so once for all commands.`,
		Example: `  jibe try                          a small fleet on a simulated VIM: nothing else is needed
  jibe serve --data /var/lib/jibe   the VNF manager
  jibe get instances                the VNFs, and what is out of the ordinary with each
  jibe plan                         what the changes in this clone of the desired repository would do`,
		Version:       built().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"run", "Run Jibe:", []*cobra.Command{newTry(), newServe()}},
		{"look", "See what is going on:", []*cobra.Command{newGet(), newTop(), newUI()}},
		{"change", "Change VNFs:", []*cobra.Command{newValidate(), newPlan(), newHeal(), newUpgrade(), newUpdate(), newRollout(), newAccept(), newVIM(), newOrphans()}},
		{"decide", "Decide on an operation:", []*cobra.Command{
			newControl("retry", "Try a failed operation again", ""), newControl("rollback", "Undo a failed operation", ""),
			newControl("fail", "Give a failed operation up", ""), newControl("cancel", "Stop a running operation", "GRACEFUL"),
		}},
		{"bring", "Prepare packages and secrets:", []*cobra.Command{newPackage(), newSecret(), newSSH(), newDriver()}},
		{"keep", "Look after an installation:", []*cobra.Command{newDoctor(), newSmokeTest(), newBackup(), newRestore(), newAudit(), newRepository()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(newHook(), newVersion(), newMan())
	completeFromServer(root)
	explainUse(root)
	return root
}

// explainUse has each command say how it is used where it is called in another way.
func explainUse(root *cobra.Command) {
	root.SetFlagErrorFunc(misused)
	for _, cmd := range root.Commands() {
		explainArgs(cmd)
	}
}

func explainArgs(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		explainArgs(c)
	}
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error { return misused(cmd, args(cmd, given)) }
	}
}

// misused is the error of a call that isn't one, with how the command is called.
func misused(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\nusage: %s\n%s --help says more", err, cmd.UseLine(), cmd.CommandPath())
}

// called is nil where the arguments name a command. One that only has commands below shows its help also for
// the name of none of them, which a script would take for success.
func called(root *cobra.Command, args []string) error {
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		return nil // a shell asks, by a command that is there only then
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, err := root.Find(args)
	if err != nil {
		cmd, rest = root, args
	} else if cmd.Runnable() || cmd == root {
		return nil
	}
	for len(rest) > 0 && cmd == root && strings.HasPrefix(rest[0], "-") {
		rest = rest[1:]
	}
	if len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil // its flags are looked at when it is executed
	}
	cmd.SuggestionsMinimumDistance = 2
	meant := ""
	if near := cmd.SuggestionsFor(rest[0]); len(near) > 0 {
		meant = " (did you mean " + strings.Join(near, " or ") + "?)"
	}
	return fmt.Errorf("unknown command %q for %q%s\n%s --help lists those that there are", rest[0], cmd.CommandPath(), meant, cmd.CommandPath())
}
