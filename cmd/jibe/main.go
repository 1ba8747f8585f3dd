// Command jibe is a GitOps VNF manager: the server, the push hook of its
// repositories, and the client. It only parses and wires.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
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
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
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
		{"change", "Change VNFs:", []*cobra.Command{newValidate(), newPlan(), newHeal(), newUpgrade(), newUpdate(), newRollout(), newAccept()}},
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
	return root
}
