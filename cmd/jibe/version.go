package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// What a release is built of, set by the linker (-X main.version=… and so on). A build without
// them, as go build and go install make, tells what the toolchain wrote into it (built).
var (
	version = ""
	commit  = ""
	date    = ""
)

// buildInfo is what jibe version tells.
type buildInfo struct {
	Version   string `json:"version"`          // the tag, or the nearest one and what lies between; "devel" where nothing is known
	Commit    string `json:"commit,omitempty"` // of git
	Date      string `json:"date,omitempty"`   // of the commit, in RFC 3339
	Modified  bool   `json:"modified,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"` // as linux/amd64
}

// built is what this binary was built of.
func built() buildInfo {
	info, _ := debug.ReadBuildInfo()
	return describe(buildInfo{Version: version, Commit: commit, Date: date}, info)
}

// describe completes what the linker was told by what the toolchain wrote (nil where it wrote
// nothing). The linker's counts: a release is built without the toolchain's look at git.
func describe(b buildInfo, info *debug.BuildInfo) buildInfo {
	b.GoVersion, b.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	if info != nil {
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && b.Commit == "":
				b.Commit = s.Value
			case s.Key == "vcs.time" && b.Date == "":
				b.Date = s.Value
			case s.Key == "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: "Print the version of this binary. With -o json also the commit that it was built of, when that was made, the\n" +
			"version of Go, and the platform.",
		Example: "  jibe version\n  jibe version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := built()
			switch output {
			case "":
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "jibe", b.Version)
				return err
			case "json":
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(b)
			}
			return fmt.Errorf("-o %s: want json, or nothing for the version alone", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json: all that is known of this build")
	return cmd
}
