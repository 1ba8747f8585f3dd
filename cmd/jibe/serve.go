package main

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

func newServe() *cobra.Command {
	o := app.Options{Version: version, KeepOperations: oplog.DefaultKeep()}
	var level, format string
	cmd := &cobra.Command{
		Use:   "serve --data DIR",
		Short: "Run the VNF manager",
		Long: "Run the VNF manager on a data directory. On first start it makes the directory, the\n" +
			"desired repository, a package repository, an API token and an encryption key.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLog(level, format)
			if err != nil {
				return err
			}
			o.Log = log
			klog.SetSlogLogger(log) // client-go's own messages
			app.BoundMemory(cmd.Context(), log)
			if o.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("path of this program, for the repository's push hook: %w", err)
			}
			o.Ready = func(s *app.Server) { s.Welcome(cmd.OutOrStdout()) }
			return app.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", os.Getenv("JIBE_DATA"), "data directory (or $JIBE_DATA)")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:9890", "address of the API")
	f.StringVar(&o.BaseURL, "base-url", "", "URL by which clients reach the API (default: the listen address)")
	f.StringVar(&o.Remote, "remote", "", "URL of a desired repository on a forge; default is a local one in the data directory")
	f.StringVar(&o.Branch, "branch", "main", "branch of the desired repository")
	f.DurationVar(&o.Poll, "poll", 30*time.Second, "how often remote repositories are fetched (a webhook makes it at once)")
	f.BoolVar(&o.InsecureDev, "insecure-dev", false, "accept API requests without a token: for trying things out only")
	f.StringVar(&o.TLSCert, "tls-cert", "", "PEM file of the API's certificate")
	f.StringVar(&o.TLSKey, "tls-key", "", "PEM file of its key")
	f.DurationVar(&o.Timeout, "timeout", 500*time.Second, "how long one attempt of an operation may take")
	f.Var((*timeouts)(&o.Timeouts), "timeout-for", "another --timeout for a type of operation, as HEAL=2m; may be repeated, or hold several with commas")
	f.DurationVar(&o.StartTimeout, "start-timeout", 60*time.Second, "how long an operation may stay in STARTING")
	f.DurationVar(&o.HookTimeout, "hook-timeout", 10*time.Minute, "how long one run of a hook of a package may take")
	f.StringVar(&o.HookUser, "hook-user", "", "user that hooks of packages run as where Jibe is root, by name or number (default: nobody)")
	f.StringArrayVar(&o.Reach.Dirs, "secret-dir", nil, "directory whose files \"file:\" references may name; may be repeated (default: secrets/ in the data directory)")
	f.StringArrayVar(&o.Reach.Env, "secret-env", nil, "environment variable that \"env:\" references may name beside those that begin with "+secret.EnvPrefix+"; may be repeated")
	f.BoolVar(&o.Reach.KubeconfigExec, "allow-kubeconfig-exec", false, "use kubeconfigs that name commands, which are run as this process's user, files and proxies")
	f.IntVar(&o.Workers, "workers", 64, "how many instances are worked on at once")
	f.Var(&o.KeepOperations, "keep-operations", "how long an ended operation is kept, and how many of each instance however old; or all")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&format, "log-format", "text", "text or json")
	return cmd
}

// timeouts is the flag --timeout-for.
type timeouts map[lcm.Type]time.Duration

// timed are the types of operation that have a deadline of their own, by the
// names of SOL003 clause 5.5.4.3.
var timed = []lcm.Type{lcm.ChangeExtConn, lcm.ChangePackage, lcm.Heal, lcm.Instantiate, lcm.ModifyInfo, lcm.Scale, lcm.ScaleToLevel, lcm.Terminate}

// Set implements pflag.Value: a bad entry refuses all of text.
func (t *timeouts) Set(text string) error {
	next := maps.Clone(*t)
	if next == nil {
		next = timeouts{}
	}
	for entry := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok {
			return fmt.Errorf("%q: want TYPE=DURATION, as HEAL=2m", entry)
		}
		if !slices.Contains(timed, lcm.Type(name)) {
			return fmt.Errorf("%q is no type of operation; there are %s", name, join(timed, ", "))
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s=%s: want a duration above zero, as 90s or 2m", name, value)
		}
		next[lcm.Type(name)] = d
	}
	*t = next
	return nil
}

// String implements pflag.Value.
func (t *timeouts) String() string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(*t)) {
		entries = append(entries, string(name)+"="+(*t)[name].String())
	}
	return strings.Join(entries, ",")
}

// Type implements pflag.Value: it is what the help calls the value.
func (t *timeouts) Type() string { return "TYPE=DURATION" }

func join(types []lcm.Type, by string) string {
	var names []string
	for _, t := range types {
		names = append(names, string(t))
	}
	return strings.Join(names, by)
}

func newLog(level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want text or json", format)
}
