package netns

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // the programs that make a host
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed machine.sh
var machineScript string

//go:embed setup.sh
var setupScript string

//go:embed web.py
var webProgram []byte

// WebPort is where a host's application answers.
const WebPort = 8080

// Spec says what a host is.
type Spec struct {
	// Name is its host name.
	Name string
	// Addrs are its addresses in the lab's subnet, the first of which names it.
	Addrs []netip.Addr
	// Users may log in over SSH with their passwords, and become root with sudo; none
	// is [DefaultUser] alone.
	Users []User
	// Labels are what its application tells of it: server id, version, ….
	Labels map[string]string
	// Files are written before anything is started.
	Files map[string]File
	// Mounts are files and directories of this machine that the host has too, read-only: the
	// place on the host, absolute, and the one here. A host else sees nothing of what is
	// below this machine's /home, /root, /run and /tmp.
	Mounts map[string]string
	// Containers lets the host run a container runtime and a kubelet: it has a tree of cgroups
	// of its own, and /var/lib/containerd and /var/lib/kubelet are in memory. It needs the
	// controllers of cgroups version 1, each mounted below /sys/fs/cgroup.
	Containers bool
	// Boot is a script of bash that root runs once the files are there, before one can log in.
	Boot string
	// NoWeb leaves out the application, which else answers at [WebPort] with an [Answer].
	NoWeb bool
}

// Lend adds mounts and files to the host. What it has itself stands.
func (s *Spec) Lend(mounts map[string]string, files map[string]File) {
	mounts, files = maps.Collect(maps.All(mounts)), maps.Collect(maps.All(files)) // the caller's stay as they are
	maps.Copy(mounts, s.Mounts)
	maps.Copy(files, s.Files)
	s.Mounts, s.Files = mounts, files
}

// User is an account.
type User struct{ Name, Password string }

// DefaultUser is the account of hosts whose Spec names none.
var DefaultUser = User{Name: "ubuntu", Password: "ubuntu"}

// File is the content of one, root's; mode 0 is 0644.
type File struct {
	Data []byte
	Mode os.FileMode
}

// Host is a machine that runs. Its methods may be called from any goroutine.
type Host struct {
	Spec Spec
	lab  *Lab
	init *process
	dir  string
	// cgroup is the host's path in all hierarchies, "" for one without a tree of its own.
	cgroup string
	log    output // of services
	up     bool   // guarded by lab.mu
}

// Add makes a host and waits until one can log in to it.
func (l *Lab) Add(ctx context.Context, spec Spec) (_ *Host, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("host %s (%v): %w", spec.Name, spec.Addrs, err)
		}
	}()
	if len(spec.Users) == 0 {
		spec.Users = []User{DefaultUser}
	}
	h := &Host{Spec: spec, lab: l}
	if err := l.take(h); err != nil {
		return nil, err
	}
	// The addresses are spoken for; nobody sees the host before it is one.
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err := h.start(ctx); err != nil {
		h.end()
		l.release(h)
		return nil, err
	}
	return h, l.admit(h)
}

// take speaks for the host's addresses.
func (l *Lab) take(h *Host) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		return errors.New("the lab is closed")
	}
	if len(h.Spec.Addrs) == 0 {
		return errors.New("it has no address")
	}
	for _, a := range h.Spec.Addrs {
		switch other := l.hosts[a]; {
		case !l.Subnet.Contains(a):
			return fmt.Errorf("%s isn't in the lab's subnet %s", a, l.Subnet)
		case a == l.Gateway:
			return fmt.Errorf("%s is this machine's address in the lab", a)
		case other != nil:
			return fmt.Errorf("%s is the address of host %s", a, other.Spec.Name)
		}
	}
	for _, a := range h.Spec.Addrs {
		l.hosts[a] = h
	}
	l.number++
	h.dir = filepath.Join(l.dir, strconv.Itoa(l.number))
	return nil
}

func (l *Lab) release(h *Host) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range h.Spec.Addrs {
		if l.hosts[a] == h {
			delete(l.hosts, a)
		}
	}
}

// admit lets others see the host, unless the lab was closed meanwhile.
func (l *Lab) admit(h *Host) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		h.end()
		return errors.New("the lab was closed meanwhile")
	}
	h.up = true
	return nil
}

func (h *Host) start(ctx context.Context) error {
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return err
	}
	if h.Spec.Containers {
		if err := ContainersAble(); err != nil {
			return err
		}
		h.cgroup = filepath.Join(cgroupPrefix+h.lab.link, filepath.Base(h.dir))
	}
	argv := []string{"bash", "-c", machineScript, "machine.sh", h.dir, h.Spec.Name, h.cgroup}
	for _, place := range slices.Sorted(maps.Keys(h.Spec.Mounts)) {
		argv = append(argv, place, h.Spec.Mounts[place])
	}
	var err error
	h.init, err = startProcess(
		syscall.CLONE_NEWNS|syscall.CLONE_NEWPID|syscall.CLONE_NEWNET|syscall.CLONE_NEWUTS|syscall.CLONE_NEWIPC, argv...)
	if err != nil {
		return err
	}
	if line, err := bufio.NewReader(h.init.stdout).ReadString('\n'); err != nil {
		h.init.kill()
		return fmt.Errorf("its first process said %q: %w: %s", line, err, h.init.stderr)
	}
	if err := h.connect(ctx); err != nil {
		return err
	}
	for name, f := range h.Spec.Files {
		if err := h.WriteFile(name, f.Data, f.Mode); err != nil {
			return err
		}
	}
	if h.Spec.Boot != "" {
		if _, err := h.Run(ctx, nil, "bash", "-ec", h.Spec.Boot); err != nil {
			return err
		}
	}
	var accounts bytes.Buffer
	for _, u := range h.Spec.Users {
		fmt.Fprintf(&accounts, "%s:%s\n", u.Name, u.Password)
	}
	if _, err := h.Run(ctx, &accounts, "bash", "-c", setupScript); err != nil {
		return err
	}
	if err := h.await(ctx, 22); err != nil || h.Spec.NoWeb {
		return err
	}
	if err := h.SetLabels(h.Spec.Labels); err != nil {
		return err
	}
	if err := h.WriteFile("/run/web.py", webProgram, 0); err != nil {
		return err
	}
	if err := h.Serve("python3", "/run/web.py", strconv.Itoa(WebPort)); err != nil {
		return err
	}
	return h.await(ctx, WebPort)
}

// connect lays a wire from the lab's bridge to the host.
func (h *Host) connect(ctx context.Context) error {
	// The hardware address follows from the first address, so that no neighbour
	// remembers another one of a host that was there before.
	raw := h.Addr().As4()
	name := h.wire()
	mac := fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", raw[0], raw[1], raw[2], raw[3])
	// The wire of a host that has just gone may still be there.
	_ = ip(ctx, h.lab.bridge, "link delete "+name)
	err := ip(ctx, h.lab.bridge,
		fmt.Sprintf("link add %s type veth peer name eth0 address %s netns %d", name, mac, h.init.pid()),
		fmt.Sprintf("link set %s master bridge up", name))
	if err != nil {
		return err
	}
	lines := []string{"link set lo up"}
	for _, a := range h.Spec.Addrs {
		lines = append(lines, fmt.Sprintf("address add %s/%d dev eth0", a, h.lab.Subnet.Bits()))
	}
	return ip(ctx, h.init, append(lines, "link set eth0 up", "route add default via "+h.lab.Gateway.String())...)
}

// wire is the name of the bridge's end of the host's wire.
func (h *Host) wire() string {
	raw := h.Addr().As4()
	return fmt.Sprintf("h%02x%02x%02x%02x", raw[0], raw[1], raw[2], raw[3])
}

// await waits until the port is listened to.
func (h *Host) await(ctx context.Context, port int) error {
	for {
		dialer := net.Dialer{Timeout: time.Second}
		c, err := dialer.DialContext(ctx, "tcp", h.At(port))
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nothing answers at port %d: %w: %s", port, err, &h.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Addr is the host's first address.
func (h *Host) Addr() netip.Addr { return h.Spec.Addrs[0] }

// At is a port of the host's, as net.Dial takes it.
func (h *Host) At(port int) string { return netip.AddrPortFrom(h.Addr(), uint16(port)).String() }

// Run runs a command on the host as root, and returns what it wrote to standard output.
// The error tells what it wrote to standard error. stdin may be nil.
func (h *Host) Run(ctx context.Context, stdin io.Reader, argv ...string) (string, error) {
	cmd := h.command(ctx, argv...)
	// Its background processes may keep these open: who reads from a pipe would never know whether
	// more is to come, or not in time that what came is all.
	stdout, err := nameless()
	if err != nil {
		return "", err
	}
	defer stdout.Close()
	stderr, err := nameless()
	if err != nil {
		return "", err
	}
	defer stderr.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = time.Second // for what it doesn't read of stdin
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return content(stdout), fmt.Errorf("%s on host %s: %w: %s", argv[0], h.Spec.Name, err, strings.TrimSpace(content(stderr)))
	}
	return content(stdout), nil
}

// nameless is a file that goes when it is closed.
func nameless() (*os.File, error) {
	f, err := os.CreateTemp("", "jibe-netns-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// content is what was written to a file so far. Who writes there goes on where it was.
func content(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Serve starts a program that runs until it ends itself, or the host goes. What it writes
// is in [Host.Log].
func (h *Host) Serve(argv ...string) error {
	cmd := h.command(context.Background(), argv...)
	cmd.Stdout, cmd.Stderr = &h.log, &h.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s on host %s: %w", argv[0], h.Spec.Name, err)
	}
	go func() {
		// It is killed with the host: how it ended is of no interest.
		_ = cmd.Wait()
	}()
	return nil
}

func (h *Host) command(ctx context.Context, argv ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(h.init.pid()), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "--"}
	name := "nsenter"
	if h.cgroup != "" {
		// Who enters the host's namespaces stays in the cgroups that it came from.
		name, enter = "bash", append([]string{"-c", enterCgroups, h.cgroup, "--cgroup"}, enter...)
	}
	cmd := exec.CommandContext(ctx, name, append(enter, argv...)...)
	cmd.Env = []string{"PATH=" + searchPath, "LANG=C.UTF-8", "HOME=/root"}
	return cmd
}

// Log is what the host's services wrote.
func (h *Host) Log() string { return h.log.String() }

// SetLabels changes what the host's application tells of it.
func (h *Host) SetLabels(labels map[string]string) error {
	data, err := json.Marshal(labels)
	if err != nil {
		return err
	}
	return h.WriteFile("/run/machine.json", data, 0)
}

// WriteFile writes a file on the host, for root; mode 0 is 0644. Directories that are
// missing are made. Readers see the former content or the new one.
func (h *Host) WriteFile(name string, data []byte, mode os.FileMode) error {
	return h.within(func(root *os.Root) error {
		name := rooted(name)
		if mode == 0 {
			mode = 0o644
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		part := name + ".part"
		if err := root.WriteFile(part, data, mode); err != nil {
			return err
		}
		if err := root.Chmod(part, mode); err != nil {
			return err
		}
		return root.Rename(part, name)
	})
}

// ReadFile reads a file on the host; where there is none, the error is fs.ErrNotExist.
func (h *Host) ReadFile(name string) (data []byte, err error) {
	err = h.within(func(root *os.Root) error {
		data, err = root.ReadFile(rooted(name))
		return err
	})
	return data, err
}

func rooted(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// within gives the file system of the host, as its first process sees it.
func (h *Host) within(do func(*os.Root) error) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/%d/root", h.init.pid()))
	if err == nil {
		defer root.Close()
		err = do(root)
	}
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Spec.Name, err)
	}
	return nil
}

// Remove takes the host away, as a machine that loses its power: its connections get no
// answer any more. It may be called again.
func (h *Host) Remove() {
	// Its processes end one after the other, and those that are left would refuse what the others took.
	h.lab.mu.Lock()
	there := h.lab.hosts[h.Addr()] == h // and not another one with its address
	h.lab.mu.Unlock()
	if there {
		_ = ip(context.Background(), h.lab.bridge, "link delete "+h.wire())
	}
	h.end()
	h.lab.release(h)
}

func (h *Host) end() {
	if h.init != nil {
		h.init.kill()
	}
	_ = os.RemoveAll(h.dir)
	if h.cgroup != "" {
		removeCgroups(h.cgroup)
	}
}

// Answer is what a host's application tells.
type Answer struct {
	Host   string            `json:"host"`
	Labels map[string]string `json:"labels"`
	// Config is what stands in /etc/vnf.json on the host.
	Config map[string]any `json:"config"`
}

// Ask asks an application for its [Answer], with a connection of its own. It is for who asks again where none comes
// in ten seconds.
func Ask(ctx context.Context, url string) (Answer, error) { return ask(ctx, url, 10*time.Second) }

// AskOnce is [Ask] for whom a request without an answer is a failure: a machine that stalls makes none of one that is late.
func AskOnce(ctx context.Context, url string) (Answer, error) { return ask(ctx, url, time.Minute) }

func ask(ctx context.Context, url string, patience time.Duration) (Answer, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return Answer{}, fmt.Errorf("GET %s: %s: %s", url, resp.Status, bytes.TrimSpace(data))
	}
	var a Answer
	if err := json.Unmarshal(data, &a); err != nil {
		return Answer{}, fmt.Errorf("GET %s: %w", url, err)
	}
	return a, nil
}

// URL is where the host's application answers.
func (h *Host) URL() string { return "http://" + h.At(WebPort) + "/" }
