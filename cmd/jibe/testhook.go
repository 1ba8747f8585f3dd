package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func newPackageTestHook() *cobra.Command {
	var (
		flavour, input, user, program string
		timeout                       time.Duration
		confinement                   hooks.Confinement
	)
	cmd := &cobra.Command{
		Use:   "test-hook DIR HOOK",
		Short: "Run a hook of a package here, as jibe serve would",
		Long: "Run what the VNFD of the expanded package DIR names for HOOK (scale_start, instantiate_end, …)\n" +
			"on this machine, as jibe serve would: with a clean environment, its input as JSON, a time limit, confined,\n" +
			"and as another user where this is root. Its input is made up from the VNFD: one VNFC of each VDU that the operation\n" +
			"would add or remove. A file given with --input says it better: attributes that it has take the place of those.",
		Example: "  jibe package test-hook ./my-package scale_start\n" +
			"  jibe package test-hook ./my-package coordinate_new --program Scripts/coordinate.py --input input.json",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := checkPackage(cmd, args[0])
			if err != nil {
				return err
			}
			pkg, err := vnfd.Load(files)
			if err != nil {
				return err
			}
			pkg.Tree = "local"
			f, err := flavourOf(pkg.VNFD, flavour)
			if err != nil {
				return err
			}
			if program == "" {
				if program = f.Hooks[args[1]]; program == "" {
					return fmt.Errorf("flavour %s of the VNFD has no hook %s; it has %s (name a file with --program)", f.ID, args[1], hookList(f))
				}
			}
			in := sampleInput(pkg, f, args[1])
			if input != "" {
				if err := readInput(cmd.InOrStdin(), input, &in); err != nil {
					return err
				}
			}
			if !cmd.Flags().Changed("timeout") {
				timeout = cmp.Or(f.HookTimeouts[args[1]], timeout)
			}
			cluster := hooks.ClusterDriver(pkg, program, in.Params)
			return runHook(cmd, hooks.Call{Package: pkg, Path: program, Cluster: cluster, Input: in, Timeout: timeout}, user, confinement)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&flavour, "flavour", "", "deployment flavour, where the VNFD has several")
	flags.StringVar(&input, "input", "", "file with attributes of the input, as JSON; - is standard input")
	flags.StringVar(&program, "program", "", "path of the hook in the package, instead of the VNFD's")
	flags.StringVar(&user, "user", "", "user that the hook runs as where this is root (default one of "+hooks.DefaultUsers+")")
	confinementFlags(flags, &confinement)
	flags.DurationVar(&timeout, "timeout", 10*time.Minute, "how long it may take, where the VNFD doesn't say")
	return cmd
}

func flavourOf(d *vnfd.VNFD, id string) (*vnfd.Flavour, error) {
	var ids []string
	for i := range d.Flavours {
		if f := &d.Flavours[i]; f.ID == id || id == "" && len(d.Flavours) == 1 {
			return f, nil
		}
		ids = append(ids, d.Flavours[i].ID)
	}
	return nil, fmt.Errorf("name one of the VNFD's flavours with --flavour: %s", strings.Join(ids, ", "))
}

func hookList(f *vnfd.Flavour) string {
	if len(f.Hooks) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(f.Hooks)), ", ")
}

// sampleInput is the hook's input where the author gives none: an operation that adds or
// removes one VNFC of each VDU.
func sampleInput(pkg *vnfd.Package, f *vnfd.Flavour, hook string) hooks.Input {
	const instance, operation = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	base, _, rollback := strings.Cut(hook, "_rollback")
	base = strings.TrimSuffix(strings.TrimSuffix(base, "_start"), "_end")
	d := pkg.VNFD
	in := hooks.Input{
		Version: hooks.Version, Hook: hook, Rollback: rollback || hook == "coordinate_rollback",
		Operation: hooks.Operation{ID: operation, Type: operationType(base), Attempt: 1},
		Instance: hooks.Instance{ID: instance, Name: "test", VnfdID: d.ID, State: desired.Instantiated,
			Flavour: f.ID, Levels: map[string]int{}},
		After: &hooks.Package{VnfdID: d.ID, VnfdVersion: d.Version, Provider: d.Provider, ProductName: d.ProductName,
			SoftwareVersion: d.SoftwareVersion, Tree: pkg.Tree},
		Grant: hooks.Grant{Instance: instance, Operation: operation},
		VIM:   hooks.VIM{Name: "test", Type: desired.VIMKubernetes},
	}
	if base != "instantiate" {
		was := in.Instance
		in.InstanceBefore, in.Before = &was, in.After
	}
	for i, v := range f.VDUs {
		u := hooks.Unit{ID: fmt.Sprintf("unit-%d", i+1), Name: fmt.Sprintf("unit-%d", i+1), Ready: true, Address: "127.0.0.1"}
		t := hooks.Target{VduID: v.ID, Unit: u, Address: u.Address}
		vdu := hooks.VDU{ID: v.ID, Old: []hooks.Unit{u}}
		switch base {
		case "instantiate":
			in.Added, vdu.Old, vdu.New = append(in.Added, t), nil, []hooks.Unit{u}
		case "terminate", "heal", "scale":
			in.Removed = append(in.Removed, t)
		}
		in.VDUs = append(in.VDUs, vdu)
	}
	return in
}

func operationType(base string) string {
	types := map[string]string{
		"change_current_package": "CHANGE_VNFPKG", "change_external_connectivity": "CHANGE_EXT_CONN", "modify_information": "MODIFY_INFO",
		"coordinate_new": "CHANGE_VNFPKG", "coordinate_old": "CHANGE_VNFPKG", "coordinate": "CHANGE_VNFPKG",
	}
	if t := types[base]; t != "" {
		return t
	}
	return strings.ToUpper(base)
}

// readInput reads attributes of a file into in, and keeps those that the file hasn't.
func readInput(stdin io.Reader, name string, in *hooks.Input) error {
	var data []byte
	var err error
	if name == "-" {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(in); err != nil {
		return fmt.Errorf("%s: %w (docs/schema/program-input.schema.json says what there is)", name, err)
	}
	return nil
}

// runHook runs the hook, and prints what it wrote.
func runHook(cmd *cobra.Command, c hooks.Call, user string, confinement hooks.Confinement) error {
	dir, err := os.MkdirTemp("", "jibe-test-hook-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	c.Started = func(hooks.Process) error { return nil }
	self, err := os.Executable()
	if err != nil {
		return err
	}
	confinement.Launcher = []string{self, confine.Command}
	if err := confinement.Check(); err != nil {
		return err
	}
	r := &hooks.Runner{Dir: filepath.Join(dir, "run"), User: user, Tool: self, Confinement: confinement, Log: func(_ hooks.Input, program, line string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", program, line)
	}}
	out, err := r.Run(cmd.Context(), c)
	var failed *hooks.FailedError
	if errors.As(err, &failed) {
		return fmt.Errorf("%s failed: %s; the operation would be FAILED_TEMP", failed.Path, failed.Reason)
	}
	if err != nil {
		return err
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
