package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// States of a service, in systemd's words.
const (
	active     = "active"
	activating = "activating" // between an end and a restart, too
	inactive   = "inactive"
)

// stopWait is how long a service may take to end before it is killed.
const stopWait = 30 * time.Second

const runDir = "/run/systemctl"

func stateFile(name string) string { return filepath.Join(runDir, name) }

// state is a service's: it runs as long as its supervisor has the file's lock.
func state(name string) string {
	f, err := os.Open(stateFile(name))
	if err != nil {
		return inactive
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return inactive
	}
	_, s, _ := read(name)
	return s
}

// read returns the process of a supervisor, and what it says.
func read(name string) (pid int, s string, err error) {
	text, err := os.ReadFile(stateFile(name))
	if err != nil {
		return 0, "", err
	}
	if _, err := fmt.Sscan(string(text), &pid, &s); err != nil {
		return 0, activating, nil // it has just been started
	}
	return pid, s, nil
}

// start starts a service, and returns when it is ready.
func start(name string) error {
	if _, err := load(name); err != nil {
		return err
	}
	if state(name) != inactive {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile("/var/log/"+name+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	ready, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "supervise", name)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{tell}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	tell.Close()
	if err != nil {
		return err
	}
	said, err := io.ReadAll(ready)
	if err == nil && string(said) != "ready" {
		err = fmt.Errorf("%s.service did not start, see /var/log/%s.log: %s", name, name, said)
	}
	return err
}

// stop ends a service, and returns when it has ended.
func stop(name string) error {
	if state(name) == inactive {
		return nil
	}
	pid, _, err := read(name)
	if err != nil || pid == 0 {
		return errors.Join(err, fmt.Errorf("%s.service is being started: try again", name))
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	for until := time.Now().Add(stopWait + 10*time.Second); state(name) != inactive; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			return fmt.Errorf("%s.service does not end", name)
		}
	}
	return nil
}

func reload(name string) error {
	if state(name) == inactive {
		return start(name)
	}
	pid, _, err := read(name)
	if err != nil || pid == 0 {
		return errors.Join(err, stop(name), start(name))
	}
	u, err := load(name)
	if err != nil {
		return err
	}
	if u.value("Service", "ExecReload") == "" {
		return errors.Join(stop(name), start(name))
	}
	return syscall.Kill(pid, syscall.SIGHUP)
}

// supervisor is a service that is being run.
type supervisor struct {
	*unit
	name string
	env  []string
	file *os.File // with the state, locked
	tell *os.File // where it says once that the service is ready; nil after that
	main *exec.Cmd
	ends chan os.Signal
}

// supervise runs a service, and runs it again when it has ended, until it is told to stop.
func supervise(name string) error {
	syscall.CloseOnExec(3) // who waits for it waits for its end
	s := &supervisor{name: name, tell: os.NewFile(3, "ready"), ends: make(chan os.Signal, 4)}
	signal.Notify(s.ends, syscall.SIGTERM, syscall.SIGHUP)
	err := s.run()
	if err != nil {
		s.say(err.Error())
	}
	return err
}

func (s *supervisor) run() (err error) {
	if s.unit, err = load(s.name); err != nil {
		return err
	}
	if s.env, err = s.environment(); err != nil {
		return err
	}
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return err
	}
	if s.file, err = os.OpenFile(stateFile(s.name), os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return err
	}
	for fd := int(s.file.Fd()); syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) != nil; time.Sleep(10 * time.Millisecond) {
		if syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) != nil {
			s.say("ready") // another start of it was faster
			return nil
		}
		// Somebody only looks at its state.
		if err := syscall.Flock(fd, syscall.LOCK_UN); err != nil {
			return err
		}
	}
	if err := s.set(activating); err != nil {
		return err
	}
	for {
		stopped, err := s.once()
		restart := s.value("Service", "Restart")
		if stopped || restart == "" || restart == "no" || restart == "on-failure" && err == nil {
			return err
		}
		fmt.Printf("%s.service ended (%v), and is started again\n", s.name, err)
		if err := s.set(activating); err != nil {
			return err
		}
		s.say("ready") // it is started, though it fails: as systemd, that tries on
		select {
		case sig := <-s.ends:
			if sig == syscall.SIGTERM {
				return nil
			}
		case <-time.After(pause(s.value("Service", "RestartSec"))):
		}
		// Its unit and its environment may have been changed, as kubeadm does.
		if s.unit, err = load(s.name); err != nil {
			return err
		}
		if s.env, err = s.environment(); err != nil {
			return err
		}
	}
}

// once runs the service until it ends. It is stopped, if it was told to end.
func (s *supervisor) once() (stopped bool, err error) {
	for _, line := range s.settings["Service.ExecStartPre"] {
		argv, optional := command(line, s.env)
		if err := s.command(argv, s.env).Run(); err != nil && !optional {
			return false, fmt.Errorf("ExecStartPre %s: %w", line, err)
		}
	}
	for _, dir := range words(s.value("Service", "RuntimeDirectory")) {
		if err := os.MkdirAll("/run/"+dir, 0o755); err != nil {
			return false, err
		}
	}
	argv, _ := command(s.value("Service", "ExecStart"), s.env)
	if len(argv) == 0 {
		return false, errors.New("it has no ExecStart")
	}
	env := slices.Clone(s.env)
	notified := make(chan struct{})
	if s.value("Service", "Type") == "notify" {
		socket := stateFile(s.name) + ".notify"
		_ = os.Remove(socket)
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			return false, err
		}
		defer conn.Close()
		env = append(env, "NOTIFY_SOCKET="+socket)
		go awaitNotice(conn, notified)
	} else {
		close(notified)
	}
	s.main = s.command(argv, env)
	if err := s.main.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.main.Wait() }()
	for {
		select {
		case <-notified:
			notified = nil
			if err := s.set(active); err != nil {
				return false, err
			}
			s.say("ready")
		case sig := <-s.ends:
			if sig == syscall.SIGHUP {
				s.reload()
				continue
			}
			s.end(ended)
			return true, nil
		case err := <-ended:
			return false, err
		}
	}
}

func awaitNotice(conn *net.UnixConn, notified chan struct{}) {
	data := make([]byte, 4096)
	for {
		n, err := conn.Read(data)
		if err != nil {
			return
		}
		lines := bufio.NewScanner(strings.NewReader(string(data[:n])))
		for lines.Scan() {
			if lines.Text() == "READY=1" {
				close(notified)
				return
			}
		}
	}
}

func (s *supervisor) command(argv, env []string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (s *supervisor) reload() {
	env := append(slices.Clone(s.env), "MAINPID="+strconv.Itoa(s.main.Process.Pid))
	for _, line := range s.settings["Service.ExecReload"] {
		argv, _ := command(line, env)
		if err := s.command(argv, env).Run(); err != nil {
			fmt.Printf("ExecReload %s: %v\n", line, err)
		}
	}
}

// end ends the service's processes; those that have gone to a process group of their own,
// as shims of containers have, stay.
func (s *supervisor) end(ended <-chan error) {
	pid := s.main.Process.Pid
	if s.value("Service", "KillMode") == "" || s.value("Service", "KillMode") == "control-group" {
		pid = -pid
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	var err error
	select {
	case err = <-ended:
	case <-time.After(stopWait):
		_ = syscall.Kill(pid, syscall.SIGKILL)
		err = <-ended
	}
	fmt.Printf("%s.service was stopped (%v)\n", s.name, err)
}

// say answers who has started the service, once.
func (s *supervisor) say(what string) {
	if s.tell != nil {
		_, _ = s.tell.WriteString(what)
		s.tell.Close()
		s.tell = nil
	}
}

// set writes the state down. The file stays the one that is locked.
func (s *supervisor) set(what string) error {
	text := fmt.Sprintf("%d %-12s\n", os.Getpid(), what)
	_, err := s.file.WriteAt([]byte(text), 0)
	return err
}

// pause is a time as units have it, a number of seconds or with its unit.
func pause(text string) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return time.Duration(n * float64(time.Second))
	}
	return 100 * time.Millisecond
}
