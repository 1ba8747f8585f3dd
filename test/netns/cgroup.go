package netns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// cgroupRoot is where this machine has its hierarchies of cgroups.
const cgroupRoot = "/sys/fs/cgroup"

// cgroupPrefix begins the names of labs' cgroups, in all hierarchies.
const cgroupPrefix = "jibe-"

// enterCgroups takes a process to the cgroups of $0 in all hierarchies, before it becomes
// nsenter.
const enterCgroups = `for c in ` + cgroupRoot + `/*/"$0"/cgroup.procs; do echo $$ >"$c" || exit; done; exec nsenter "$@"`

// ContainersAble says why this machine can't have hosts that run containers; nil if it can.
func ContainersAble() error {
	if err := able(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(cgroupRoot, "memory", "notify_on_release")); err != nil {
		return errors.New("this machine hasn't the controllers of cgroups version 1 mounted below " + cgroupRoot + ": hosts that run containers aren't made for others")
	}
	return nil
}

// cgroupWait bounds the wait for the kernel to be done with the processes of a cgroup.
const cgroupWait = 30 * time.Second

// removeCgroups removes a cgroup and all below it, in all hierarchies. Their processes
// must have been killed: the kernel keeps a cgroup until these are gone.
func removeCgroups(name string) {
	tops, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", name)) // the pattern is a good one
	for until := time.Now().Add(cgroupWait); len(tops) > 0 && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		tops = slices.DeleteFunc(tops, func(top string) bool {
			var dirs []string
			_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil // one that is gone is none
			})
			for _, dir := range slices.Backward(dirs) {
				_ = os.Remove(dir)
			}
			_, err := os.Stat(top)
			return errors.Is(err, fs.ErrNotExist)
		})
	}
}
