package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

// maxSecret bounds what is encrypted, bytes.
const maxSecret = 64 << 10

func newSecret() *cobra.Command {
	cmd := &cobra.Command{
		Use: "secret", Short: "Secrets in the desired repository",
		Example: `  jibe secret encrypt --recipient age1… < password.txt   what to write into vnf.yaml in its place
  jibe secret scan                                       whether any stands there in clear`,
	}
	var recipient string
	encrypt := &cobra.Command{
		Use:   "encrypt --recipient KEY < SECRET",
		Short: "Encrypt a secret so that it may stand in vnf.yaml or vims/",
		Long: "Read a secret from standard input and print the reference to write in its place. Only the server can\n" +
			"decrypt it. `jibe serve` prints its recipient when it starts.",
		Example: "  jibe secret encrypt --recipient age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq < password.txt",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if recipient == "" {
				return errors.New("--recipient is needed: `jibe serve` prints it when it starts (age1…)")
			}
			text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxSecret+1))
			if err != nil {
				return err
			}
			if len(text) > maxSecret {
				return fmt.Errorf("the secret is larger than %d bytes", maxSecret)
			}
			ref, err := secret.EncryptFor(recipient, strings.TrimSuffix(string(text), "\n"))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), ref)
			return err
		},
	}
	encrypt.Flags().StringVar(&recipient, "recipient", "", "the server's age recipient")
	cmd.AddCommand(encrypt, newRotate(), newScan())
	return cmd
}
