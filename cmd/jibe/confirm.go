package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// confirm asks a question at the terminal. Without a terminal, only --yes confirms. An error, which begins with undone,
// means that nothing may be done.
func confirm(cmd *cobra.Command, yes bool, question, undone string) error {
	if yes {
		return nil
	}
	f, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return errors.New(undone + ": standard input is no terminal, so confirm with --yes")
	}

	fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] ")
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New(undone)
	}
	return nil
}
