package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/jibe-vnfm/jibe/hooks/ssh"
)

// The exit codes of `jibe ssh` where the command didn't come to its own end: those of
// OpenSSH's ssh and of timeout(1).
const (
	sshFailed = 255
	sshLate   = 124
)

// errSSHLate is the cause of the end of a context whose --timeout is over.
var errSSHLate = fmt.Errorf("not done within the time of --timeout: %w", context.DeadlineExceeded)

// newSSH is the command that hooks of packages call instead of an SSH library. It needs no
// server.
func newSSH() *cobra.Command {
	var s sshCommand
	cmd := &cobra.Command{
		Use:   "ssh [flags] [user@]host[:port] [--] [command…]",
		Short: "Run a command on a machine, or write files there",
		Long: "Run a command on a machine over SSH, without a terminal, for hooks of VNF packages.\n\n" +
			"One argument is a line for the shell of the machine; several are a program and its arguments, which it gets as\n" +
			"they are. Standard input is passed on, unless it is a terminal. The exit status is the command's (128 and its number\n" +
			"where a signal ended it), 255 where the machine couldn't be reached or a file not be written, 124 after --timeout.",
		Example: "  jibe ssh --identity key --known-hosts known_hosts --wait 2m ubuntu@10.0.0.5 -- sudo systemctl restart app\n" +
			"  jibe ssh --password-env PW --known-hosts known_hosts --upload app.json:/tmp/app.json:0600 ubuntu@10.0.0.5",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return failSSH(errors.New("name the host: jibe ssh [flags] user@host -- command"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// Flags end with the host already, so that the library leaves the "--" to us.
			if len(args) > 1 && args[1] == "--" {
				args = append(args[:1:1], args[2:]...)
			}
			return s.run(cmd, args)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return failSSH(err) })
	f := cmd.Flags()
	f.SetInterspersed(false) // flags behind the host are the command's
	s.login.register(f, "", "the machine")
	f.StringVar(&s.knownHosts, "known-hosts", "", "known_hosts file with the machine's key, and the jump host's (needed)")
	f.BoolVar(&s.acceptNew, "accept-new", false, "append the key of a machine that isn't in the known_hosts file; one that differs is refused all the same")
	f.StringVar(&s.jump, "jump", "", "[user@]host[:port] from which the machine is reached, with the machine's user and credentials where no others are given")
	s.jumpLogin.register(f, "jump-", "the jump host")
	f.StringArrayVar(&s.uploads, "upload", nil, "LOCAL:REMOTE[:MODE], a file to write before the command runs; may be repeated (default mode: the local file's)")
	f.DurationVar(&s.timeout, "timeout", 0, "for how long all of it may take (0: for ever)")
	f.DurationVar(&s.options.Wait, "wait", 0, "for how long a machine is waited for that doesn't answer yet")
	f.DurationVar(&s.options.ConnectTimeout, "connect-timeout", 0, "for how long one try to connect and log in may take (default 10s)")
	return cmd
}

// failSSH prints an error in the arguments, and ends the process as any other failure of
// `jibe ssh` itself does.
func failSSH(err error) error {
	fmt.Fprintln(os.Stderr, "jibe ssh:", err)
	return exitError(sshFailed)
}

type sshCommand struct {
	login, jumpLogin loginFlags
	knownHosts       string
	acceptNew        bool
	jump             string
	uploads          []string
	timeout          time.Duration
	options          ssh.Options
}

func (s *sshCommand) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.timeout, errSSHLate)
		defer cancel()
	}
	exit, err := s.do(ctx, cmd, args)
	switch {
	case err == nil && exit == nil:
		return nil
	case err == nil:
		if exit.Signal != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "jibe ssh: the command was", exit)
		}
		return exitError(exit.Status)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "jibe ssh:", printable(err.Error())) // a server may have a say in it
	if errors.Is(err, errSSHLate) {
		return exitError(sshLate)
	}
	return exitError(sshFailed)
}

// do returns how the command failed, or why it didn't run to its end.
func (s *sshCommand) do(ctx context.Context, cmd *cobra.Command, args []string) (*ssh.ExitError, error) {
	host, err := s.host(args[0])
	if err != nil {
		return nil, err
	}
	// A file that isn't there must be noticed before anything is done, not half-way.
	var uploads []upload
	defer func() {
		for _, u := range uploads {
			u.file.Close()
		}
	}()
	for _, text := range s.uploads {
		u, err := parseUpload(text)
		if err != nil {
			return nil, err
		}
		uploads = append(uploads, u)
	}
	if len(args) == 1 && len(uploads) == 0 {
		return nil, errors.New("there is nothing to do: name a command, or files with --upload")
	}
	conn, err := ssh.Dial(ctx, host, s.options)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for _, u := range uploads {
		if err := conn.Upload(ctx, u.file, u.to, u.mode); err != nil {
			return nil, err
		}
	}
	if len(args) == 1 {
		return nil, nil
	}
	line := args[1]
	if len(args) > 2 {
		line = ssh.Quote(args[1:]...)
	}
	err = conn.Run(ctx, ssh.Command{Cmd: line, Stdin: passedOn(cmd.InOrStdin()), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()})
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return exit, nil
	}
	return nil, err
}

// passedOn is standard input, or nil where that is a terminal.
func passedOn(stdin io.Reader) io.Reader {
	if f, ok := stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return stdin
}

// host is the machine, with everything that the flags say about it.
func (s *sshCommand) host(text string) (ssh.Host, error) {
	h, err := parseHost(text)
	if err != nil {
		return h, err
	}
	if err := s.login.into(&h); err != nil {
		return h, err
	}
	if s.knownHosts == "" {
		return h, errors.New("--known-hosts FILE is needed: without the machine's key, anybody may answer in its place (with --accept-new it is stored there the first time)")
	}
	known, err := os.ReadFile(s.knownHosts)
	switch {
	case err == nil:
		h.KnownHosts = string(known)
	case !s.acceptNew || !errors.Is(err, fs.ErrNotExist):
		return h, fmt.Errorf("--known-hosts: %w", err)
	}
	if s.acceptNew {
		s.options.Accept = ssh.AcceptInto(s.knownHosts)
	}
	if s.jump == "" {
		if s.jumpLogin != (loginFlags{prefix: s.jumpLogin.prefix}) {
			return h, errors.New("there are credentials of a jump host, but no --jump")
		}
		return h, nil
	}
	j, err := parseHost(s.jump)
	if err != nil {
		return h, fmt.Errorf("--jump: %w", err)
	}
	if err := s.jumpLogin.into(&j); err != nil {
		return h, err
	}
	if j.User == "" {
		j.User = h.User
	}
	if len(j.Key) == 0 && j.Password == "" {
		j.Key, j.Passphrase, j.Password = h.Key, h.Passphrase, h.Password
	}
	j.KnownHosts = h.KnownHosts
	h.Jump = &j
	return h, nil
}

// upload is a file to write on the machine.
type upload struct {
	file *os.File
	to   string
	mode fs.FileMode
}

// parseUpload opens the file of LOCAL:REMOTE[:MODE].
func parseUpload(text string) (u upload, err error) {
	fail := func(err error) (upload, error) { return u, fmt.Errorf("--upload %s: %w", text, err) }
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return fail(errors.New("write LOCAL:REMOTE or LOCAL:REMOTE:MODE, with no colon in the paths"))
	}
	var mode uint64
	if len(parts) == 3 {
		if mode, err = strconv.ParseUint(parts[2], 8, 32); err != nil || mode > 0o777 {
			return fail(fmt.Errorf("the mode is %q: write permissions in octal, as 0644", parts[2]))
		}
	}
	if u.file, err = os.Open(parts[0]); err != nil {
		return fail(err)
	}
	info, err := u.file.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a directory: files are uploaded one by one")
	}
	if err != nil {
		u.file.Close()
		return fail(err)
	}
	u.to, u.mode = parts[1], info.Mode().Perm()
	if len(parts) == 3 {
		u.mode = fs.FileMode(mode)
	}
	return u, nil
}
