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
	"github.com/jibe-vnfm/jibe/test/process"
)

// options are the sizes of what is measured.
type options struct {
	only      []string // parts
	sizes     []int    // instances in the repository while one is pushed
	samples   int      // pushes, requests and scalings, each
	batches   []int    // new instances in one push
	instances int      // in the repository of the writes, lists and starts
	writes    int      // requests of all clients together
	clients   int
	rolled    int           // instances of a rollout
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
	// part is the name of the one that is measured, and profiled are the profiles of its
	// servers, without their endings.
	part     string
	profiled []string
}

// part is one group of figures. Those of what isn't there are left out.
type part struct {
	name, title string
	// onCluster is set where it needs a control plane.
	onCluster bool
	run       func(*bench, context.Context) error
}

func parts() []part {
	return []part{
		{"start", "Starts with many instances", false, (*bench).starts},
		{"writes", "Durable writes through the API", false, (*bench).durable},
		{"lists", "Lists, by what people filter by", false, (*bench).lists},
		{"rollout", "A rollout of many sites in waves", false, (*bench).rollout},
		{"replicas", "One and three replicas on Redis", false, (*bench).replicas},
		{"push", "From a push, or a request, to the API server", true, (*bench).push},
		{"share", "Jibe's own share of an operation", true, (*bench).share},
		{"drift", "Changes by hand, repaired", true, (*bench).drift},
		{"batch", "Many new instances in one push", true, (*bench).batch},
		{"atrest", "Instances at rest on the cluster, and some of them broken at once", true, (*bench).atRest},
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
		if p.onCluster && b.cluster == nil {
			b.note("left out: it needs a control plane, and %s is not set (make bench starts one)", kubeenv.EnvKubeconfig)
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
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	o := options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	short := f.Bool("short", false, "small sizes: some minutes, to see that it works")
	only := f.String("only", strings.Join(names, ","), "the parts to run, of "+strings.Join(names, ", "))
	sizes := f.String("sizes", "1,100,300,10000", "instances in the repository while one of them is changed, ascending")
	batches := f.String("n", "100,300,1000", "new instances in one push, each")
	f.IntVar(&o.samples, "samples", 30, "samples of each latency")
	f.IntVar(&o.instances, "instances", 10_000, "instances in the repository of the starts, writes and lists")
	f.IntVar(&o.writes, "writes", 6_000, "writes of all clients together, at most one an instance")
	f.IntVar(&o.clients, "clients", 64, "clients that write at once")
	f.IntVar(&o.rolled, "rolled", 3000, "sites of the simulator that a rollout upgrades")
	f.IntVar(&o.standing, "standing", 1000, "instances on the cluster at rest, with 5 pods each")
	f.DurationVar(&o.idleFor, "resting", 5*time.Minute, "how long those are left alone")
	f.StringVar(&o.binary, "jibe", "", "binary to measure instead of one built from this tree")
	f.StringVar(&o.profiles, "profile", "", "folder for profiles of the servers of each part, which are then this tree's; the first ten functions are printed")
	f.StringVar(&o.page, "page", "", "file that the figures are written to as a page of the docs, with a picture: docs/benchmarks.md")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if *short {
		given := map[string]bool{}
		f.Visit(func(x *flag.Flag) { given[x.Name] = true })
		for name, value := range map[string]string{"sizes": "1,100", "n": "20", "samples": "8", "instances": "1000", "writes": "900", "rolled": "300", "standing": "100", "resting": "20s"} {
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
	o.only = strings.Split(*only, ",")
	if o.binary != "" && slices.Contains(o.only, "rollout") {
		return o, errors.New("the part rollout is of this tree's server, which -jibe isn't: leave one of them out (-only)")
	}
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return o, fmt.Errorf("-only %q: the parts are %s", name, strings.Join(names, ", "))
		}
	}
	var err1, err2 error
	o.sizes, err1 = numbers(*sizes)
	o.batches, err2 = numbers(*batches)
	o.writes = min(o.writes, o.instances)
	return o, errors.Join(err1, err2)
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
