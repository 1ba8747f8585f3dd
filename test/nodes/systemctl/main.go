// Command systemctl starts, watches and stops the services of a test's machine, which has no
// systemd: packages' unit files, and kubeadm, call it by that name. It knows of unit files
// what services need: their environment, commands, type and restarts. Dependencies between
// units, resources and everything that isn't a service are left out.
//
// A service's output is in /var/log/NAME.log.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// wants is where enabled services stand.
const wants = "/etc/systemd/system/multi-user.target.wants"

func main() {
	if err := run(os.Args[1:]); err != nil {
		var code exitCode
		if errors.As(err, &code) {
			os.Exit(int(code))
		}
		fmt.Fprintln(os.Stderr, "systemctl:", err)
		os.Exit(1)
	}
}

// exitCode is the end of a command that has said all it had to.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func run(args []string) error {
	var verb string
	var names []string
	now, quiet := false, false
	for _, a := range args {
		switch {
		case a == "--now":
			now = true
		case a == "--quiet" || a == "-q":
			quiet = true
		case strings.HasPrefix(a, "-"): // of how it is shown
		case verb == "":
			verb = a
		default:
			names = append(names, strings.TrimSuffix(a, ".service"))
		}
	}
	if verb == "supervise" && len(names) == 1 {
		return supervise(names[0])
	}
	var do func(name string) error
	switch verb {
	case "daemon-reload", "daemon-reexec", "reset-failed":
		return nil // unit files are read whenever they are needed
	case "start":
		do = start
	case "stop":
		do = stop
	case "restart":
		do = func(name string) error { return errors.Join(stop(name), start(name)) }
	case "try-restart":
		do = func(name string) error {
			if state(name) == inactive {
				return nil
			}
			return errors.Join(stop(name), start(name))
		}
	case "reload", "reload-or-restart":
		do = reload
	case "enable", "unmask":
		do = func(name string) error { return enable(name, now && verb == "enable") }
	case "disable", "mask":
		do = func(name string) error { return disable(name, now) }
	case "is-active":
		do = func(name string) error { return isActive(name, quiet) }
	case "is-enabled":
		do = func(name string) error { return isEnabled(name, quiet) }
	case "status":
		do = status
	default:
		return fmt.Errorf("%q isn't done on this machine: it has no systemd, and services are started, stopped, reloaded, enabled and looked at only", verb)
	}
	if len(names) == 0 {
		return fmt.Errorf("%s: which service?", verb)
	}
	var all error
	for _, name := range names {
		all = errors.Join(all, do(name))
	}
	return all
}

func enable(name string, now bool) error {
	u, err := load(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	link := filepath.Join(wants, name+".service")
	if err := os.Symlink(u.file, link); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if now {
		return start(name)
	}
	return nil
}

func disable(name string, now bool) error {
	err := os.Remove(filepath.Join(wants, name+".service"))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if now {
		err = errors.Join(err, stop(name))
	}
	return err
}

func isActive(name string, quiet bool) error {
	s := state(name)
	if !quiet {
		fmt.Println(s)
	}
	if s != active {
		return exitCode(3)
	}
	return nil
}

func isEnabled(name string, quiet bool) error {
	word := "enabled"
	_, err := os.Lstat(filepath.Join(wants, name+".service"))
	if err != nil {
		word = "disabled"
	}
	if !quiet {
		fmt.Println(word)
	}
	if err != nil {
		return exitCode(1)
	}
	return nil
}

func status(name string) error {
	u, err := load(name)
	if err != nil {
		fmt.Printf("Unit %s.service could not be found.\n", name)
		return exitCode(4)
	}
	s := state(name)
	fmt.Printf("%s.service - %s\n     Loaded: loaded (%s)\n     Active: %s\n", name, u.value("Unit", "Description"), u.file, s)
	if s != active {
		return exitCode(3)
	}
	return nil
}
