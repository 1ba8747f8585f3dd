package ha

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"filippo.io/age"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/load"
	"github.com/jibe-vnfm/jibe/test/process"
)

// token lets in as an admin at each replica.
const token = "all-replicas-have-this-one-0123456789"

// readyWait bounds the wait for the replicas to be ready.
const readyWait = 2 * time.Minute

// The repositories on the git server.
const (
	desiredRepository = "desired.git"
	packageRepository = "packages.git"
)

// Options say what a rig consists of.
type Options struct {
	// Dir is an empty folder for all files, with a short path; Binary is the jibe to run.
	Dir, Binary string
	// Replicas is how many there are; Redis how many servers of Redis, of which one is the master;
	// none has the only replica keep its records in its data directory.
	Replicas, Redis int
	// RedisArgs are more of the configuration of Redis.
	RedisArgs []string
	// Kubeconfig is the file of the cluster at which instances run, "" for a simulated one, which
	// replicas don't share.
	Kubeconfig string
	// Args are more flags of each replica.
	Args []string
	// OwnDisks has each data directory be a disk of its own, which is gone with the rig. It needs the
	// rights of root.
	OwnDisks bool
	// Out gets a line for whatever happens; nil is nobody.
	Out io.Writer
}

// Rig is an installation of several replicas, with all that belongs to it.
type Rig struct {
	Options
	// Forge has the repositories; Servers has the balancer, as who works with the replicas sees
	// it; Client reaches the cluster, nil where it is a simulated one.
	Forge    *Forge
	Servers  *process.Mortal
	Client   kubernetes.Interface
	Replicas []*Replica

	redis    *redisSet
	balancer *balancer
	stop     context.CancelFunc
	warden   *exec.Cmd
	alive    io.Closer
	began    time.Time

	mu   sync.Mutex
	told []string
}

// Start starts all of it, and returns when each replica is ready. The caller closes it.
func Start(ctx context.Context, o Options) (_ *Rig, err error) {
	r := &Rig{Options: o, Servers: &process.Mortal{}, began: time.Now()}
	redis.SetLogger(&logging.VoidLogger{}) // what it says is in the errors of calls, too
	ctx, r.stop = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := r.guard(); err != nil {
		return nil, err
	}
	if r.Forge, err = NewForge(ctx, r.folder("forge"), desiredRepository, packageRepository); err != nil {
		return nil, err
	}
	// What a test starts gets its environment.
	if err := os.Setenv("GIT_SSL_CAINFO", r.Forge.CA); err != nil {
		return nil, err
	}
	if err := r.furnish(ctx); err != nil {
		return nil, err
	}
	r.redis = &redisSet{}
	if o.Redis > 0 {
		if r.redis, err = startRedis(ctx, o.Dir, o.Redis, o.RedisArgs...); err != nil {
			return nil, err
		}
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	key := filepath.Join(o.Dir, "identity.age")
	text := fmt.Sprintf("# public key: %s\n%s\n", identity.Recipient(), identity)
	if err := os.WriteFile(key, []byte(text), 0o600); err != nil {
		return nil, err
	}
	var addresses []string
	for i := range o.Replicas {
		x, err := r.newReplica(i)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, x.Address)
	}
	if r.balancer, err = startBalancer(ctx, o.Dir, addresses); err != nil {
		return nil, err
	}
	url := "http://" + r.balancer.address
	for _, x := range r.Replicas {
		x.args = slices.Concat([]string{
			"--listen", x.Address, "--base-url", url, "--remote", r.Forge.URL(desiredRepository), "--poll", "2s",
			"--identity", key, "--secret-dir", r.folder("secrets"), "--trusted-proxies", "127.0.0.1", "--open-webhook",
		}, r.store(x), o.Args)
	}
	r.Tell("%d replicas start", o.Replicas)
	failed := make(chan error)
	for _, x := range r.Replicas {
		go func() { failed <- x.Start(ctx) }()
	}
	for range r.Replicas {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return nil, err
	}
	r.Forge.Webhook(url + "/webhook")
	r.Servers.Serve(&process.Server{URL: url, Token: token})
	return r, r.Ready(ctx)
}

// guard starts a process that sees this one end, however it does, and then ends all processes
// that have a file below the rig's folder in their command line, and takes their disks away.
func (r *Rig) guard() error {
	r.warden = exec.Command("bash", "-c", `cat >/dev/null
		for p in /proc/[0-9]*; do
			if [ "${p#/proc/}" != $$ ] && tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -qF -- "$0/"; then kill -9 "${p#/proc/}" 2>/dev/null; fi
		done
		umount -l "$0"/replica-* 2>/dev/null; exit 0`, r.Dir)
	r.warden.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if r.alive, err = r.warden.StdinPipe(); err != nil {
		return err
	}
	return r.warden.Start()
}

// store are the flags that say where a replica's records are.
func (r *Rig) store(x *Replica) []string {
	switch {
	case len(r.redis.servers) == 0:
		return nil
	case len(r.redis.sentinels) == 0:
		return []string{"--store", "redis://" + x.network.links[0].listener.Addr().String() + "/0"}
	}
	return []string{"--store", "redis+sentinel://" + strings.Join(x.network.sentinels(), ",") + "/0?master=" + masterName, "--redis-wait", "1"}
}

// folder is one of the rig's, which is made.
func (r *Rig) folder(name string) string {
	dir := filepath.Join(r.Dir, name)
	_ = os.MkdirAll(dir, 0o755) // who writes there says what is wrong
	return dir
}

// furnish puts packages, repositories and the VIM on the git server.
func (r *Rig) furnish(ctx context.Context) error {
	vim := "type: sim\ndefault: true\n"
	if r.Kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
		if err != nil {
			return fmt.Errorf("kubeconfig %s: %w", r.Kubeconfig, err)
		}
		config.QPS, config.UserAgent = -1, "people"
		if r.Client, err = kubernetes.NewForConfig(config); err != nil {
			return err
		}
		secret := filepath.Join(r.folder("secrets"), "kubeconfig")
		text, err := os.ReadFile(r.Kubeconfig)
		if err == nil {
			err = os.WriteFile(secret, text, 0o600)
		}
		if err != nil {
			return err
		}
		vim = "type: kubernetes\ndefault: true\nkubeconfig: file:" + secret + "\n"
	}
	packages, desired := r.folder("packages"), r.folder("desired")
	for dir, repository := range map[string]string{packages: packageRepository, desired: desiredRepository} {
		if _, err := process.Git(ctx, dir, "clone", "--quiet", r.Forge.URL(repository), "."); err != nil {
			return err
		}
	}
	if err := os.CopyFS(filepath.Join(packages, "small"), os.DirFS(process.SmallPackage())); err != nil {
		return err
	}
	if err := load.WriteNextPackage(filepath.Join(packages, "small-next")); err != nil {
		return err
	}
	work := &process.Clone{Dir: desired}
	for _, err := range []error{
		work.Write("vims/main.yaml", vim),
		work.Write("repositories.yaml", "- {name: packages, url: "+r.Forge.URL(packageRepository)+", branch: main}\n"),
	} {
		if err != nil {
			return err
		}
	}
	for _, dir := range []string{packages, desired} {
		c := &process.Clone{Dir: dir}
		if _, err := c.Commit(ctx, "Begin"); err != nil {
			return err
		}
		if err := c.Push(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Ready waits until each replica that runs is ready and knows the packages.
func (r *Rig) Ready(ctx context.Context) error {
	return kit.Poll(ctx, readyWait, func() error {
		for _, x := range r.Replicas {
			if x.State() != "serves" {
				continue
			}
			for _, path := range []string{"/readyz", "/jibe/v1/packages"} {
				a, err := r.at(x).Do(ctx, http.MethodGet, path, nil)
				if err == nil && (a.Status != http.StatusOK || path != "/readyz" && !strings.Contains(string(a.Body), load.NextVnfd)) {
					err = fmt.Errorf("%s: %s: %d %s", x.Name, path, a.Status, a.Body)
				}
				if err != nil {
					return err
				}
			}
		}
		return r.balanced(ctx)
	})
}

// balanced says whether the balancer has seen, too, that replicas are ready: it leads to each that runs.
func (r *Rig) balanced(ctx context.Context) error {
	unseen := map[string]bool{}
	for _, x := range r.Replicas {
		if x.State() == "serves" {
			unseen[x.Name] = true
		}
	}
	for range 4 * len(r.Replicas) { // others are led to them, too, by turns
		a, err := r.Servers.Present().Do(ctx, http.MethodGet, "/readyz", nil)
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("the balancer answers %d: %s", a.Status, a.Body)
		}
		if err != nil {
			return err
		}
		delete(unseen, a.Header.Get(replicaHeader))
	}
	if len(unseen) > 0 {
		return fmt.Errorf("the balancer leads nobody to %v", slices.Sorted(maps.Keys(unseen)))
	}
	return nil
}

// at is a replica as who asks it past the balancer sees it.
func (r *Rig) at(x *Replica) *process.Server {
	return &process.Server{URL: "http://" + x.Address, Token: token}
}

// Direct are the replicas as who asks them past the balancer sees them.
func (r *Rig) Direct() (list []*process.Server) {
	for _, x := range r.Replicas {
		list = append(list, r.at(x))
	}
	return list
}

// World is one in which people work with the rig.
func (r *Rig) World() *load.World {
	w := load.New(r.Servers, r.Client, r.Forge.Repository(desiredRepository))
	w.Remote = func(_ *process.Server, rng *rand.Rand) string {
		if rng.IntN(2) == 0 {
			return r.Forge.Repository(desiredRepository)
		}
		return r.Forge.URL(desiredRepository)
	}
	// haproxy says 502 and 504 where a replica went within a request, of which nobody knows more.
	w.Expect.Answers = []int{http.StatusConflict, http.StatusNotFound, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout}
	w.Expect.Held = true
	return w
}

// Clone is a person's clone of the desired repository.
func (r *Rig) Clone(ctx context.Context, name string) (*process.Clone, error) {
	c := &process.Clone{Dir: filepath.Join(r.folder("people"), name)}
	_, err := process.Git(ctx, r.Dir, "clone", "--quiet", "--no-local", r.Forge.Repository(desiredRepository), c.Dir)
	return c, err
}

// Tell notes something that happened, with the time since the start.
func (r *Rig) Tell(format string, args ...any) {
	line := fmt.Sprintf("%6.1fs  %s", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, line)
	if r.Out != nil {
		fmt.Fprintln(r.Out, line)
	}
}

// Told is all that happened.
func (r *Rig) Told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// Holders are the holders of the instances' leases, as they stand in Redis: by instance, of those
// whose session is held. The hashes are those of [github.com/jibe-vnfm/jibe/store/redis]: a lease
// that is renewed is the lines token, end and holder, one that is attached to it the lines token,
// the session's token, the session's name and holder.
func (r *Rig) Holders(ctx context.Context) (map[string]string, error) {
	m := r.redis.master(ctx)
	if m == nil {
		return nil, errors.New("no master is left of Redis")
	}
	c := m.Dial()
	defer c.Close()
	now, err := c.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	leases, err := c.HGetAll(ctx, "{jibe}:leases").Result()
	if err != nil {
		return nil, err
	}
	attached, err := c.HGetAll(ctx, "{jibe}:attached").Result()
	if err != nil {
		return nil, err
	}
	sessions := map[string]string{} // tokens by name
	for name, text := range leases {
		f := strings.SplitN(text, "\n", 3)
		var ends int64
		if len(f) == 3 {
			_, err = fmt.Sscan(f[1], &ends)
		}
		if err != nil || len(f) != 3 {
			return nil, fmt.Errorf("lease %s is %q", name, text)
		}
		if ends > now.UnixMicro() {
			sessions[name] = f[0]
		}
	}
	holders := map[string]string{}
	for name, text := range attached {
		f := strings.SplitN(text, "\n", 4)
		if id, ok := strings.CutPrefix(name, "instance/"); ok && len(f) == 4 && sessions[f[2]] == f[1] {
			holders[id] = f[3]
		}
	}
	return holders, nil
}

// Close ends all of it.
func (r *Rig) Close() {
	r.stop()
	for _, x := range r.Replicas {
		x.close()
	}
	if r.balancer != nil {
		r.balancer.stop()
	}
	if r.redis != nil {
		r.redis.kill()
	}
	if r.Forge != nil {
		r.Forge.Close()
	}
	if r.alive != nil {
		_ = r.alive.Close()
		_ = r.warden.Wait()
	}
}

// EndedByThemselves is how often replicas have ended by themselves, by name.
func (r *Rig) EndedByThemselves() map[string]int {
	ended := map[string]int{}
	for _, x := range r.Replicas {
		x.mu.Lock()
		if x.ended > 0 {
			ended[x.Name] = x.ended
		}
		x.mu.Unlock()
	}
	return maps.Clone(ended)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
