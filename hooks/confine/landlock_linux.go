package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Rights on files, as Landlock names them.
const (
	forFiles = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
	reading  = ll.AccessFSReadFile | ll.AccessFSReadDir
	running  = reading | ll.AccessFSExecute
	writing  = running | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer | ll.AccessFSResolveUnix
)

// System is what programs of the system are made of, and need: directories that may be read and
// whose programs may be run.
var System = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}

// settings are the files of the system that libraries and interpreters read, as patterns of
// [filepath.Glob]: Debian's Python reads a file of its version's folder at each start. The rest of
// /etc is not for programs of packages.
var settings = []string{
	"/etc/alternatives", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/debian_version", "/etc/gai.conf", "/etc/group", "/etc/host.conf",
	"/etc/hostname", "/etc/hosts", "/etc/inputrc", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/locale.alias", "/etc/magic",
	"/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/protocols", "/etc/python3", "/etc/python3.*",
	"/etc/resolv.conf", "/etc/services", "/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d", "/etc/ssl/cert.pem", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
	"/etc/terminfo", "/etc/timezone", "/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
}

// withoutProc is what of /proc may be read where the run has none of its own.
var withoutProc = []string{"/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/version", "/proc/sys/kernel", "/proc/sys/vm/overcommit_memory"}

// landlockABI is the version of Landlock that the kernel has, 0 where it has none or it isn't
// enabled.
func landlockABI() int {
	v, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}

// ruleset collects rules before they are in force.
type ruleset struct {
	fd      int
	handled uint64 // rights on files
}

// newRuleset makes the ruleset of the spec: what isn't allowed by it is denied, as far as the
// kernel's version can.
func newRuleset(s *Spec, abi int) (*ruleset, error) {
	attr := ll.RulesetAttr{HandledAccessFS: 1<<15 - 1}
	if abi >= 5 {
		attr.HandledAccessFS |= ll.AccessFSIoctlDev
	}
	if abi >= 9 {
		attr.HandledAccessFS |= ll.AccessFSResolveUnix
	}
	network := abi >= NetworkABI && !s.AnyPort
	if abi >= NetworkABI {
		attr.HandledAccessNet = ll.AccessNetBindTCP
	}
	if network {
		attr.HandledAccessNet |= ll.AccessNetConnectTCP
	}
	if abi >= ScopedABI {
		attr.Scoped = ll.ScopeSignal | ll.ScopeAbstractUnixSocket
	}
	fd, err := ll.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return nil, fmt.Errorf("make a ruleset of Landlock: %w", err)
	}
	r := &ruleset{fd, attr.HandledAccessFS}
	if err := r.allow(s); err != nil {
		return nil, err
	}
	if !network {
		return r, nil
	}
	for _, port := range s.Ports {
		rule := ll.NetPortAttr{AllowedAccess: ll.AccessNetConnectTCP, Port: uint64(port)}
		if err := ll.LandlockAddNetPortRule(fd, &rule, 0); err != nil {
			return nil, fmt.Errorf("let Landlock allow port %d: %w", port, err)
		}
	}
	return r, nil
}

// present are the paths that the patterns, which are constant, match.
func present(patterns []string) (paths []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		paths = append(paths, found...)
	}
	return paths
}

// allow adds the rules about files. What of the system isn't there needs no rule; what is the
// run's own must be there.
func (r *ruleset) allow(s *Spec) error {
	for _, group := range []struct {
		paths  []string
		rights uint64
		must   bool
	}{
		{System, running, false},
		{present(settings), reading, false},
		{[]string{"/dev/null", "/dev/zero", "/dev/full"}, reading | ll.AccessFSWriteFile, false},
		{[]string{"/dev/random", "/dev/urandom"}, reading, false},
		{s.Read, running, true},
		{s.Write, writing, true},
	} {
		for _, path := range group.paths {
			if err := r.add(path, group.rights); err != nil && (group.must || !errors.Is(err, os.ErrNotExist)) {
				return err
			}
		}
	}
	proc := withoutProc
	if s.Namespaces {
		proc = []string{"/proc"}
		for _, path := range s.Devices {
			if err := r.add(path, writing|ll.AccessFSIoctlDev); err != nil {
				return err
			}
		}
	}
	for _, path := range proc {
		if err := r.add(path, reading); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// add allows the rights on all below the path, which is where a symbolic link leads to.
func (r *ruleset) add(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= forFiles
	}
	rule := ll.PathBeneathAttr{AllowedAccess: rights & r.handled, ParentFd: fd}
	if err := ll.LandlockAddPathBeneathRule(r.fd, &rule, 0); err != nil {
		return fmt.Errorf("let Landlock allow %s: %w", path, err)
	}
	return nil
}

// enforce puts the rules in force for this thread and all that it starts, for good.
func (r *ruleset) enforce() error {
	if err := ll.LandlockRestrictSelf(r.fd, 0); err != nil {
		return fmt.Errorf("enforce the rules of Landlock: %w", err)
	}
	return nil
}
