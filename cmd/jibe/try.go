package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/jibe-vnfm/jibe/tryout"
)

// usualAddress is where clients look for a server.
const usualAddress = "127.0.0.1:9890"

// newTry is the command that shows Jibe without any cluster.
func newTry() *cobra.Command {
	o := tryout.Options{}
	var level string
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "try",
		Short: "Try Jibe without any cluster: a small fleet that lives, on a simulated VIM",
		Long: "Run Jibe with 30 VNFs at five sites on a VIM that is simulated in this process's memory. Until you end it (ctrl-C) they\n" +
			"live: they are scaled, healed and upgraded, pods die, somebody changes things by hand, and now and then an operation\n" +
			"fails and waits for a person. Everything else is as `jibe serve` has it: git, the API, the page, the audit log.\n" +
			"Nothing outside of this process and its data directory is touched, and that goes with it, unless --data names one.",
		Example: "  jibe try                       until ctrl-C, which leaves nothing\n" +
			"  jibe try --quiet               the fleet stands still: what happens is what you do\n" +
			"  jibe try --data /tmp/fleet     keep git and history for the next time",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Log, err = newLog(level, "text"); err != nil {
				return err
			}
			o.Version = cmd.Root().Version
			klog.SetSlogLogger(o.Log)
			if o.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("path of this program, for the repository's push hook: %w", err)
			}
			if o.Listen == "" {
				o.Listen = freeAddress(cmd.Context())
			}
			out := cmd.OutOrStdout()
			fmt.Fprintln(out, "starting 30 VNFs at five simulated sites …")
			o.Ready = func(at tryout.At) { showTry(cmd.Context(), out, at, o.Quiet, noBrowser) }
			if err := tryout.Run(cmd.Context(), o); err != nil {
				return err
			}
			if o.Data == "" {
				fmt.Fprintln(out, "ended; nothing is left")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", "", "data directory, made by jibe try before or new (default: one that goes at the end)")
	f.StringVar(&o.Listen, "listen", "", "address of the API and the page (default: "+usualAddress+", or a free port where that is taken)")
	f.BoolVar(&o.Quiet, "quiet", false, "leave the fleet alone")
	f.DurationVar(&o.Pace, "pace", 3*time.Second, "time between two events of the fleet's life")
	f.BoolVar(&noBrowser, "no-browser", false, "don't open the page; without a terminal or xdg-open it never is")
	f.StringVar(&level, "log-level", "error", "debug, info, warn or error")
	return cmd
}

// freeAddress is the usual address, or a free one of the loopback where that is taken.
func freeAddress(ctx context.Context) string {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", usualAddress)
	if err != nil {
		return "127.0.0.1:0"
	}
	if l.Close() != nil {
		return "127.0.0.1:0"
	}
	return usualAddress
}

// showTry says where everything is and what to do first, and opens the page where there is
// somebody who sees it.
func showTry(ctx context.Context, out io.Writer, at tryout.At, quiet, noBrowser bool) {
	s := screenOf(out)
	fmt.Fprintf(out, "%s\n\n", s.paint(bold, fmt.Sprintf("%d VNFs run, after %.1f s.", at.Instances, at.After.Seconds())))
	if at.Page != "" {
		fmt.Fprintf(out, "  page   %s\n         %s\n", at.Page, s.paint(faint, "(logs in once, within two minutes; another one: jibe ui)"))
	}
	fmt.Fprintf(out, "  API    %s/vnflcm/v2\n  git    %s/desired.git\n\nIn another terminal:\n\n", at.URL, at.Data)
	fmt.Fprintf(out, "  export JIBE_SERVER=%s JIBE_DATA=%s\n", at.URL, at.Data)
	for _, line := range [][2]string{
		{"jibe top", "what goes on"},
		{"jibe get instances --folder berlin", "one site"},
		{"jibe get operations --watch", "each operation, as it happens"},
		{"jibe heal berlin/upf-1 --wait", "do something yourself"},
	} {
		fmt.Fprintf(out, "  %-36s %s\n", line[0], s.paint(faint, "# "+line[1]))
	}
	end := "ctrl-C ends it."
	if quiet {
		end = "The fleet stands still (--quiet). " + end
	}
	fmt.Fprintf(out, "\n%s\n", end)
	if at.Page == "" || noBrowser || !s.live || os.Getenv("DISPLAY")+os.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	if open, err := exec.LookPath("xdg-open"); err == nil {
		cmd := exec.CommandContext(ctx, open, at.Page)
		if cmd.Start() == nil {
			go func() { _ = cmd.Wait() }() // whether a browser could be opened, the person sees
		}
	}
}
