package main

import (
	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/hooks/kubecluster"
)

// newDriver is the command of the management drivers that come with Jibe: the hook of a
// package only needs to run one.
func newDriver() *cobra.Command {
	cmd := &cobra.Command{
		Use: "driver", Short: "Management drivers that packages of VNFs may use",
		Example: "  jibe driver kubernetes-cluster < input.json",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "kubernetes-cluster",
		Short: "The driver of a VNF that is a Kubernetes cluster on virtual machines",
		Long: "Serve one hook of a VNF that is a Kubernetes cluster on virtual machines: build it, join workers that come, drain\n" +
			"those that go. It reads the input of a management driver from standard input, as JSON, and writes its output to\n" +
			"standard output; lines on standard error say what it does. The parameter k8s_cluster_installation_param of the\n" +
			"instance says how the machines are reached. The hook of a package is no more than\n\n" +
			"  #!/bin/sh\n" +
			"  exec jibe driver kubernetes-cluster",
		Example: "  jibe driver kubernetes-cluster < input.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return kubecluster.Run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	return cmd
}
