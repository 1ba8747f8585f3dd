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
		Long: "Jibe keeps the desired state of every VNF in git, makes Kubernetes jibe with it,\n" +
			"and speaks ETSI NFV SOL002/SOL003. Start with: jibe serve --data DIR",
		Version:       built().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newServe(),
		newTry(),
		newGet(),
		newTop(),
		newPlan(),
		newValidate(),
		newUpgrade(),
		newUpdate(),
		newHeal(),
		newSmokeTest(),
		newControl("retry", "Try a failed operation again", ""),
		newControl("rollback", "Undo a failed operation", ""),
		newControl("fail", "Give a failed operation up", ""),
		newControl("cancel", "Stop a running operation", "GRACEFUL"),
		newRollout(),
		newAccept(),
		newPackage(),
		newRepository(),
		newSecret(),
		newAudit(),
		newBackup(),
		newDoctor(),
		newRestore(),
		newSSH(),
		newUI(),
		newDriver(),
		newHook(),
		newVersion(),
		newMan(),
	)
	completeFromServer(root)
	return root
}
