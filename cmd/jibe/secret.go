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
	var recipient, project, use, endpoint string
	encrypt := &cobra.Command{
		Use:   "encrypt --recipient KEY [--project NAME] < SECRET",
		Short: "Encrypt a secret so that it may stand in vnf.yaml or vims/",
		Long: "Read a secret from standard input and print the reference to write in its place. Only the server can\n" +
			"decrypt it. `jibe serve` prints its recipient when it starts.\n\n" +
			"The value says what it is for, and is refused elsewhere:\n" +
			"  --project NAME                                        parameters of instances in that project\n" +
			"  --project NAME --for connection --endpoint URL        their own vimConnectionInfo with that endpoint\n" +
			"  --for vim (the default without --project)             files under vims/\n" +
			"  --for settings                                        peers.yaml\n" +
			"Instances that no file under projects/ claims are in the project default.",
		Example: "  jibe secret encrypt --recipient age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq --project default < password.txt",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if recipient == "" {
				return errors.New("--recipient is needed: `jibe serve` prints it when it starts (age1…)")
			}
			scope, err := scopeFor(project, use, endpoint)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxSecret+1))
			if err != nil {
				return err
			}
			if len(text) > maxSecret {
				return fmt.Errorf("the secret is larger than %d bytes", maxSecret)
			}
			ref, err := secret.EncryptFor(recipient, strings.TrimSuffix(string(text), "\n"), scope)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), ref)
			return err
		},
	}
	encrypt.Flags().StringVar(&recipient, "recipient", "", "the server's age recipient")
	encrypt.Flags().StringVar(&project, "project", "", "project of the instances that may use it (default, where no file under projects/ claims them)")
	encrypt.Flags().StringVar(&use, "for", "", "params, connection, vim or settings (default: params with --project, else vim)")
	encrypt.Flags().StringVar(&endpoint, "endpoint", "", "with --for connection: interfaceInfo.endpoint of that connection")
	cmd.AddCommand(encrypt, newRotate(), newScan())
	return cmd
}

// scopeFor is what the flags say that a value is for.
func scopeFor(project, use, endpoint string) (secret.Scope, error) {
	if use == "" {
		use = string(secret.KindVIM)
		if project != "" {
			use = string(secret.KindParams)
		}
	}
	kind := secret.Kind(use)
	ofInstances := kind == secret.KindParams || kind == secret.KindConnection
	switch {
	case !ofInstances && kind != secret.KindVIM && kind != secret.KindSettings:
		return secret.Scope{}, fmt.Errorf("--for can't be %q: give params, connection, vim or settings", use)
	case ofInstances && project == "":
		return secret.Scope{}, fmt.Errorf("--for %s needs --project: the project of the instances that may use it, default where no file under projects/ claims them", use)
	case !ofInstances && project != "":
		return secret.Scope{}, fmt.Errorf("--for %s is of no project: leave --project out", use)
	case (kind == secret.KindConnection) != (endpoint != ""):
		return secret.Scope{}, errors.New("--for connection and --endpoint belong together: the value may be sent to that endpoint alone")
	}
	switch kind {
	case secret.KindParams:
		return secret.ForParams(project), nil
	case secret.KindConnection:
		return secret.ForConnection(project, endpoint), nil
	}
	return secret.Scope{Kind: kind}, nil
}
