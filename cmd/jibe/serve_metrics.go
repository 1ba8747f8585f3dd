package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app"
)

// metricsFlags are those that say who reads /metrics.
func metricsFlags(cmd *cobra.Command, o *app.Options) {
	f := cmd.Flags()
	f.BoolVar(&o.OpenMetrics, "open-metrics", false, "let anyone read /metrics and the reasons of /readyz; without it they need a token of the role viewer for all projects")

	// Units and values of earlier versions have it.
	f.Bool("protect-metrics", true, "")
	_ = f.MarkDeprecated("protect-metrics", "/metrics is protected unless --open-metrics is given: leave the flag out")
}

// checkMetrics refuses flags that contradict each other.
func checkMetrics(cmd *cobra.Command, o *app.Options) error {
	protect := cmd.Flags().Lookup("protect-metrics")
	switch {
	case !protect.Changed:
		return nil
	case protect.Value.String() == "false":
		o.OpenMetrics = true
	case o.OpenMetrics:
		return errors.New("--protect-metrics with --open-metrics: give one of them")
	}
	return nil
}
