// Command bench prints the figures of the whole: how long it takes from a push, or a
// request, until Kubernetes shows what was wanted, what Jibe adds to the cluster's own
// time, how soon it repairs what broke or was changed by hand, how many durable
// writes it does, and what it costs at rest. Each figure stands
// beside its peer (a bare client, plain git) measured in the same run, as the figures of
// one machine say nothing about another's.
//
// It starts processes of its own on folders of its own, and decides nothing: a target
// that is missed is printed as such and is no error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/lab"
	"github.com/jibe-vnfm/jibe/test/osenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

// options are the sizes of what is measured.
type options struct {
	only      []string // parts
	sizes     []int    // instances in the repository while one is pushed
	grown     []int    // sizes that stand side by side, in instances
	laid      []string // what sizes measures: words of layouts, and filledWord
	commits   int      // of the history at each of these
	samples   int      // pushes, requests and scalings, each
	batches   []int    // new instances in one push
	stacks    int      // at Heat, one after the other
	instances int      // in the repository of the writes and of the rest
	writes    int      // requests of all clients together
	clients   int
	upload    int           // MiB of the package that is uploaded
	recorded  int           // operations in the store while lists are asked for
	upgraded  int           // instances in one commit
	rolled    int           // instances of a rollout
	soaked    int           // instances in the soak
	soakFor   time.Duration // how long it takes
	many      int           // operations later
	keep      string        // --keep-operations meanwhile
	standing  int           // instances on the cluster at rest
	idleFor   time.Duration // how long those are left alone
	binary    string
	profiles  string // folder, "" for none
	page      string // file for the page of the docs, "" for none
}

// bench is one run.
type bench struct {
	options
	*report
	tmp     string
	cluster *cluster // nil where there is none
	cloud   *cloud   // nil where there is none
	// part is the name of the one that is measured, and profiled are the profiles of its
	// servers, without their endings.
	part     string
	profiled []string
}

// part is one group of figures; those of what isn't there are left out.
type part struct {
	name, title string
	needs       needs
	run         func(*bench, context.Context) error
	// long parts are run only where they are named.
	long bool
}

// needs is what a part is measured on.
type needs int

const (
	onNothing needs = iota
	onCluster       // a control plane
	onCloud         // a cloud
)

func parts() []part {
	return []part{
		{name: "rest", title: "Instances at rest in the simulator", run: (*bench).rest},
		{name: "sizes", title: "Starts, pushes, commits, writes and lists, by the size of the repository", run: (*bench).bySize},
		{name: "writes", title: "Durable writes through the API", run: (*bench).durable},
		{name: "replicas", title: "One and three replicas on Redis", run: (*bench).replicas},
		{name: "takeover", title: "Instances taken over from a replica that is killed", run: (*bench).takeover},
		{name: "contended", title: "Writes while somebody else pushes to the same branch", run: (*bench).contended},
		{name: "uploads", title: "A large package onboarded by API", run: (*bench).uploads},
		{name: "operations", title: "Operations of many clients", run: (*bench).operations},
		{name: "cost", title: "What metrics and traces cost", run: (*bench).cost},
		{name: "notifications", title: "Notifications to many subscribers, one dead and one slow", run: (*bench).notifications},
		{name: "rollout", title: "A rollout of many sites in waves", run: (*bench).rollout},
		{name: "lists", title: "Lists, by what people filter by", run: (*bench).lists},
		{name: "push", title: "From a push, or a request, to the API server", needs: onCluster, run: (*bench).push},
		{name: "share", title: "Jibe's own share of an operation", needs: onCluster, run: (*bench).share},
		{name: "newer", title: "A push that takes the place of an operation that waits", needs: onCluster, run: (*bench).newer},
		{name: "heal", title: "Jibe's own share of a heal", needs: onCluster, run: (*bench).heal},
		{name: "drift", title: "Changes by hand, repaired", needs: onCluster, run: (*bench).drift},
		{name: "upgrade", title: "Jibe's own share of a change of package, and many in one commit", needs: onCluster, run: (*bench).upgrade},
		{name: "batch", title: "Many new instances in one push", needs: onCluster, run: (*bench).batch},
		{name: "atrest", title: "Instances at rest on the cluster, and some of them broken at once", needs: onCluster, run: (*bench).atRest},
		{name: "openstack", title: "Jibe's own share of operations on virtual machines", needs: onCloud, run: (*bench).machines},
		{name: "soak", title: "Everything at once, for long", run: (*bench).soaking, long: true},
		{name: "million", title: "A million operations later", run: (*bench).million, long: true},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) > 1 && os.Args[1] == lab.Verb {
		err = lab.Serve(ctx, os.Args[2:])
	} else {
		err = run(ctx, os.Args[1:])
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	// The clients are many, and none should pay for a new connection each time.
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 2 * o.clients
	b := &bench{options: o, report: &report{w: os.Stdout}}
	if b.tmp, err = os.MkdirTemp("", "jibe-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.tmp)) }()
	if b.profiles != "" {
		if err := os.MkdirAll(b.profiles, 0o755); err != nil {
			return err
		}
		if b.profiles, err = filepath.Abs(b.profiles); err != nil {
			return err
		}
	}
	if b.binary == "" {
		if b.binary, err = build(ctx, b.tmp); err != nil {
			return err
		}
	}
	if kubeconfig := os.Getenv(kubeenv.EnvKubeconfig); kubeconfig != "" {
		if b.cluster, err = newCluster(kubeconfig); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.cluster.clean(context.WithoutCancel(ctx))) }()
	}
	if c, err := osenv.FindCloud(); err == nil {
		if b.cloud, err = newCloud(ctx, c); err != nil {
			return err
		}
	}
	if b.options.page != "" {
		if b.report.page, err = newPage(ctx, b.binary, args); err != nil {
			return err
		}
	}
	start := time.Now()
	for _, p := range parts() {
		if !slices.Contains(b.only, p.name) {
			continue
		}
		b.section(p.title)
		b.part, b.profiled = p.name, nil
		switch {
		case p.needs == onCluster && b.cluster == nil:
			b.note("left out: it needs a control plane, and %s is not set (make bench starts one)", kubeenv.EnvKubeconfig)
			continue
		case p.needs == onCloud && b.cloud == nil:
			b.note("left out: it needs an OpenStack, and %s is not set (make bench starts one)", osenv.EnvCloud)
			continue
		}
		began := time.Now()
		if err := p.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		b.progress("%s took %s", p.name, short(time.Since(began)))
		b.tops(ctx)
	}
	total := b.total(time.Since(start))
	if b.report.page != nil {
		return b.report.page.write(b.options.page, total)
	}
	return nil
}

func parse(args []string) (options, error) {
	var names, usual []string
	for _, p := range parts() {
		names = append(names, p.name)
		if !p.long {
			usual = append(usual, p.name)
		}
	}
	o := options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	short := f.Bool("short", false, "small sizes: some minutes, to see that it works")
	only := f.String("only", strings.Join(usual, ","), "the parts to run, of "+strings.Join(names, ", "))
	sizes := f.String("sizes", "1,100,300,10000", "instances in the repository while one of them is changed, ascending")
	grown := f.String("grown", "1000,10000,50000,100000", "numbers of instances that are measured side by side, ascending")
	laid := f.String("laid", "api,folders,flat,"+filledWord, "which figures sizes takes: of directories as the API makes them, in a hundred folders, all in one; and of instances that all run")
	f.IntVar(&o.commits, "commits", 0, "commits of one file each, in the history before the first start of each of these")
	batches := f.String("n", "100,300,1000", "new instances, healed and scaled ones in one push, each")
	f.IntVar(&o.upload, "upload", 200, "MiB of the package that is uploaded")
	f.IntVar(&o.samples, "samples", 30, "samples of each latency")
	f.IntVar(&o.stacks, "stacks", 8, "stacks at Heat that go through all operations, and as many of a bare client")
	f.IntVar(&o.instances, "instances", 10_000, "instances in the repository of the writes, and at rest")
	f.IntVar(&o.writes, "writes", 6_000, "writes of all clients together, at most one an instance")
	f.IntVar(&o.clients, "clients", 64, "clients that write at once")
	f.IntVar(&o.recorded, "recorded", 0, "operations in the store while lists are asked for; least is one an instance")
	f.IntVar(&o.upgraded, "upgraded", 1000, "instances upgraded by one commit")
	f.IntVar(&o.rolled, "rolled", 3000, "sites of the simulator that a rollout upgrades")
	f.IntVar(&o.standing, "standing", 1000, "instances on the cluster at rest, with 5 pods each")
	f.DurationVar(&o.idleFor, "resting", 5*time.Minute, "how long those are left alone")
	f.IntVar(&o.soaked, "soaked", 50_000, "instances in the soak")
	f.IntVar(&o.many, "operations", 1_000_000, "operations after which a server is compared with what it was after 10,000")
	f.StringVar(&o.keep, "keep", "1s,20", "which of these the server keeps (its --keep-operations); \"\" leaves the option out")
	f.DurationVar(&o.soakFor, "soak", time.Hour, "how long the soak takes")
	f.StringVar(&o.binary, "jibe", "", "binary to measure instead of one built from this tree")
	f.StringVar(&o.profiles, "profile", "", "folder for profiles of the servers of each part, which are then this tree's; the first ten functions are printed")
	f.StringVar(&o.page, "page", "", "file that the figures are written to as a page of the docs, with a picture: docs/benchmarks.md")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if *short {
		given := map[string]bool{}
		f.Visit(func(x *flag.Flag) { given[x.Name] = true })
		for name, value := range map[string]string{"sizes": "1,100", "grown": "1000,3000", "n": "20", "samples": "8", "instances": "1000", "writes": "900", "upgraded": "20", "rolled": "300",
			"standing": "100", "upload": "50", "resting": "20s", "stacks": "2"} {
			if !given[name] {
				if err := f.Set(name, value); err != nil {
					return o, err
				}
			}
		}
	}
	if o.binary != "" && o.profiles != "" {
		return o, errors.New("-profile is of this tree's server, which -jibe isn't")
	}
	o.only, o.laid = strings.Split(*only, ","), strings.Split(*laid, ",")
	for _, name := range []string{"soak", "cost", "rollout"} {
		if o.binary != "" && slices.Contains(o.only, name) {
			return o, fmt.Errorf("the part %s is of this tree's server, which -jibe isn't: leave one of them out (-only)", name)
		}
	}
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return o, fmt.Errorf("-only %q: the parts are %s", name, strings.Join(names, ", "))
		}
	}
	var err1, err2, err3 error
	o.sizes, err1 = numbers(*sizes)
	o.batches, err2 = numbers(*batches)
	o.grown, err3 = numbers(*grown)
	o.writes = min(o.writes, o.instances)
	return o, errors.Join(err1, err2, err3)
}

func numbers(list string) ([]int, error) {
	var out []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q: want numbers from 1, with commas between", list)
		}
		out = append(out, n)
	}
	return out, nil
}

// build makes the binary that is measured.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "jibe")
	version := "devel"
	if described, err := process.Git(ctx, process.Root(), "describe", "--tags", "--always", "--dirty"); err == nil {
		version = described // sources without git have none
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-X main.version="+version, "-o", binary, "./cmd/jibe")
	cmd.Dir = process.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build jibe: %w\n%s", err, out)
	}
	return binary, nil
}
