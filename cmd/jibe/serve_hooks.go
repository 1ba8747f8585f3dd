package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
)

// hookFlags are what the host says of the hooks of packages.
func hookFlags(f *pflag.FlagSet, o *app.Options) {
	f.Var(&o.AllowHooks, "allow-hooks", "run hooks of the packages of these repositories, where repositories.yaml says hooks: true, too; without names, of all; may be repeated. With --remote each as NAME=URL#BRANCH, NAME=URL#tags:PATTERN or NAME=URL#HEAD")
	f.Lookup("allow-hooks").NoOptDefVal = hooks.AllHooks
	f.StringVar(&o.HookUser, "hook-user", "", "user that hooks of packages run as where Jibe is root: a name, a number, or FIRST-LAST, numbers of which each run has one for itself (default "+hooks.DefaultUsers+")")
	confinementFlags(f, &o.Confinement)
}

// confinementFlags say how hooks are kept apart from the machine.
func confinementFlags(f *pflag.FlagSet, c *hooks.Confinement) {
	f.BoolVar(&c.Unconfined, "unconfined-hooks", false, "give hooks of packages all the rights of their user, as where the kernel can't confine them")
	f.StringArrayVar(&c.Paths, "hook-path", nil, "directory that hooks may read, and run programs of, beside those of the system; may be repeated")
	f.Var((*hookPorts)(c), "hook-port", "TCP port that hooks may connect to, beside those of their VIMs, 22, 53, 443, 830 and 6443; may be repeated; any allows all")
	f.Var((*hookLimits)(&c.Limits), "hook-limit", "what one run of a hook may use: memory=1Gi, scratch=1Gi, processes=512 or files=1024 for each process, 8 times as many for all (the defaults); may be repeated, or hold several with commas")
}

// hookPorts is the flag --hook-port.
type hookPorts hooks.Confinement

// Set implements pflag.Value.
func (p *hookPorts) Set(text string) error {
	if text == "any" {
		p.AnyPort = true
		return nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("%q: want a port from 1 to 65535, or any", text)
	}
	p.Ports = append(p.Ports, uint16(port))
	return nil
}

// String implements pflag.Value.
func (p *hookPorts) String() string {
	if p.AnyPort {
		return "any"
	}
	return strings.Trim(fmt.Sprint(p.Ports), "[]")
}

// Type implements pflag.Value: it is what the help calls the value.
func (p *hookPorts) Type() string { return "PORT" }

// hookLimits is the flag --hook-limit.
type hookLimits confine.Limits

// Set implements pflag.Value: a bad entry refuses all of text.
func (l *hookLimits) Set(text string) error {
	next := *l
	for entry := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		to := map[string]*uint64{"memory": &next.Memory, "scratch": &next.Scratch, "processes": &next.Processes, "files": &next.Files}[name]
		if to == nil {
			return fmt.Errorf("%q: want memory, scratch, processes or files, as memory=2Gi", entry)
		}
		q, err := resource.ParseQuantity(value)
		if err != nil || q.Value() <= 0 {
			return fmt.Errorf("%q: want a number above zero, as 512, 500M or 2Gi", entry)
		}
		*to = uint64(q.Value())
	}
	*l = next
	return nil
}

// String implements pflag.Value.
func (l *hookLimits) String() string {
	var out []string
	for _, x := range []struct {
		name  string
		value uint64
	}{{"memory", l.Memory}, {"scratch", l.Scratch}, {"processes", l.Processes}, {"files", l.Files}} {
		if x.value > 0 {
			out = append(out, fmt.Sprintf("%s=%d", x.name, x.value))
		}
	}
	return strings.Join(out, ",")
}

// Type implements pflag.Value: it is what the help calls the value.
func (l *hookLimits) Type() string { return "NAME=NUMBER" }
