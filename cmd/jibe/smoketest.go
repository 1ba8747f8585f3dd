package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:embed smoketest
var smokeFiles embed.FS

// smokeTest takes a small VNF through its life.
type smokeTest struct {
	client
	cmd *cobra.Command

	image, namespace string
	command          []string
	given            []string // vnfdIds of packages that are there already
	keep             bool
	limit            time.Duration

	instance string // its id, once it is there
	began    time.Time
}

// newSmokeTest is the command that shows that a server, its VIM and its rights work.
func newSmokeTest() *cobra.Command {
	var s smokeTest
	cmd := &cobra.Command{
		Use:   "smoke-test",
		Short: "Take a small VNF through its life, to see that all works",
		Long: "Take a VNF of one container through its life by the API: two packages are onboarded, then it is\n" +
			"instantiated at the default VIM, scaled out, healed, changed to the other package, scaled in and\n" +
			"terminated; then all of it is removed. Each step is printed with the time that it took. The token\n" +
			"needs the role admin, or operator and packager. The namespace must be there, and mustn't be\n" +
			"that of Jibe.\n\n" +
			"The image is run with --command, and must answer GET / on port 8080; Jibe's own image does with\n" +
			"--command /usr/bin/jibe,smoke-test,pod.\n\n" +
			"Several replicas take no uploads: there, push what \"jibe smoke-test packages\" writes to a package\n" +
			"repository once, and name the two by --packages. They stay.",
		Example: "  jibe smoke-test --namespace vnfs --image registry.example/jibe:1.0 --command /usr/bin/jibe,smoke-test,pod\n" +
			"  jibe smoke-test --namespace vnfs --packages ID,ID",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.cmd = cmd
			if n := len(s.given); n != 0 && n != 2 {
				return fmt.Errorf("--packages names %d packages: name two, by their vnfdIds", n)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), s.limit)
			defer cancel()
			return s.run(ctx)
		},
	}
	s.flags(cmd.Flags())
	f := cmd.Flags()
	s.imageFlags(f)
	f.StringSliceVar(&s.given, "packages", nil, "vnfdIds of the two packages, which are in a package repository already")
	f.StringVar(&s.namespace, "namespace", "default", "namespace of the VNF")
	f.BoolVar(&s.keep, "keep", false, "leave what failed as it is, to look at it")
	f.DurationVar(&s.limit, "timeout", 5*time.Minute, "how long it may take in all")
	cmd.MarkFlagsOneRequired("image", "packages")
	cmd.MarkFlagsMutuallyExclusive("image", "packages")
	cmd.AddCommand(newSmokeTestPod(), newSmokeTestPackages())
	return cmd
}

// imageFlags are those that say what the packages run.
func (s *smokeTest) imageFlags(f *pflag.FlagSet) {
	f.StringVar(&s.image, "image", "", "image of the VNF's container")
	f.StringSliceVar(&s.command, "command", nil, "what the container runs (default: what the image says)")
}

// newSmokeTestPackages writes the packages, for a package repository.
func newSmokeTestPackages() *cobra.Command {
	var s smokeTest
	cmd := &cobra.Command{
		Use:   "packages DIR",
		Short: "Write the two packages of the smoke test, to push them to a package repository",
		Long: "Write the two packages of the smoke test to DIR/smoke-test-1.0 and DIR/smoke-test-2.0, and print their\n" +
			"vnfdIds, which are new each time, as --packages of jibe smoke-test takes them.",
		Example: "  jibe smoke-test packages . --image registry.example/jibe:1.0 --command /usr/bin/jibe,smoke-test,pod",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var ids []string
			for _, version := range smokeVersions {
				id := uuid.NewString()
				dir := filepath.Join(args[0], "smoke-test-"+version)
				if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("%s is there already: name another folder, or remove it: %w", dir, cmp.Or(err, fs.ErrExist))
				}
				if err := s.write(dir, id, version); err != nil {
					return err
				}
				ids = append(ids, id)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(ids, ","))
			return err
		},
	}
	s.imageFlags(cmd.Flags())
	_ = cmd.MarkFlagRequired("image") // it fails only for a flag that isn't there
	return cmd
}

// smokeVersions are those of the packages.
var smokeVersions = [2]string{"1.0", "2.0"}

// newSmokeTestPod is what the container of the VNF may run.
func newSmokeTestPod() *cobra.Command {
	return &cobra.Command{
		Use:     "pod",
		Short:   "Be the container of the smoke test's VNF: answer GET / on port 8080",
		Example: "  jibe smoke-test pod",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }, Handler: http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, os.Getenv("VERSION")) })}
			stop := context.AfterFunc(ctx, func() { _ = server.Close() })
			defer stop()
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
}

// run does it all, and takes away what is left of a run that failed.
func (s *smokeTest) run(ctx context.Context) error {
	s.began = time.Now()
	name := "smoke-test-" + strings.ToLower(rand.Text()[:8])
	packages := s.given
	var own []string // vnfdIds that go with the run
	if len(packages) == 0 {
		for _, version := range smokeVersions {
			id := uuid.NewString()
			if err := s.onboard(ctx, id, version); err != nil {
				return fmt.Errorf("onboard package %s: %w", version, err)
			}
			own = append(own, id)
		}
		packages = own
	}
	err := s.live(ctx, name, packages[1], packages[0])
	if err != nil && s.keep {
		return fmt.Errorf("%w (VNF %s is left as it is)", err, name)
	}
	clear, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if left := s.clear(clear, own); left != nil {
		return errors.Join(err, fmt.Errorf("remove what the test has made (VNF %s, packages %s): %w", name, strings.Join(own, ", "), left))
	}
	if err == nil {
		_, err = fmt.Fprintf(s.cmd.OutOrStdout(), "all works: %s\n", time.Since(s.began).Round(100*time.Millisecond))
	}
	return err
}

// onboard uploads one of the packages.
func (s *smokeTest) onboard(ctx context.Context, vnfdID, version string) error {
	dir, err := os.MkdirTemp("", "jibe-smoke-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := s.write(dir, vnfdID, version); err != nil {
		return err
	}
	return addPackage(ctx, s.cmd, &s.client, dir)
}

// write makes one of the packages, expanded.
func (s *smokeTest) write(dir, vnfdID, version string) error {
	command, err := json.Marshal(s.command)
	if err != nil {
		return err
	}
	if len(s.command) == 0 {
		command = []byte("null") // the image's own
	}
	image, err := json.Marshal(s.image)
	if err != nil {
		return err
	}
	fill := strings.NewReplacer("VNFD_ID", vnfdID, "VERSION", version, "IMAGE", string(image), "COMMAND", string(command))
	meta := "TOSCA-Meta-File-Version: 1.0\nCreated-by: Jibe\nCSAR-Version: 1.1\nEntry-Definitions: Definitions/top.yaml\n"
	for from, to := range map[string]string{"top.yaml": "Definitions/", "types.yaml": "Definitions/", "df.yaml": "Definitions/", "deployment.yaml": "Files/kubernetes/"} {
		text, err := smokeFiles.ReadFile("smoketest/" + from)
		if err != nil {
			return err
		}
		filled := fill.Replace(string(text))
		if from == "deployment.yaml" {
			// The variable's name isn't to be filled in.
			filled = fill.Replace(strings.Replace(string(text), "name: VERSION", "name: @", 1))
			filled = strings.Replace(filled, "name: @", "name: VERSION", 1)
			sum := sha256.Sum256([]byte(filled))
			meta += fmt.Sprintf("\nName: %s%s\nContent-Type: application/yaml\nAlgorithm: SHA-256\nHash: %s\n", to, from, hex.EncodeToString(sum[:]))
		}
		if err := put(filepath.Join(dir, to, from), filled); err != nil {
			return err
		}
	}
	return put(filepath.Join(dir, "TOSCA-Metadata", "TOSCA.meta"), meta)
}

func put(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// live takes the VNF through its life, from its first package to the next.
func (s *smokeTest) live(ctx context.Context, name, next, first string) error {
	var made object
	if _, err := s.do(ctx, http.MethodPost, instancesAPI, object{"vnfdId": first, "vnfInstanceName": name}, &made); err != nil {
		return fmt.Errorf("create VNF %s: %w", name, err)
	}
	s.instance = text(made, "id")
	files := []string{"Files/kubernetes/deployment.yaml"}
	for _, step := range []struct {
		task string
		body object
	}{
		{"instantiate", object{"flavourId": "simple", "additionalParams": object{"namespace": s.namespace, "lcm-kubernetes-def-files": files}}},
		{"scale", object{"type": "SCALE_OUT", "aspectId": "size"}},
		{"heal", object{}},
		{"change_vnfpkg", object{"vnfdId": next, "additionalParams": object{"lcm-kubernetes-def-files": files}}},
		{"scale", object{"type": "SCALE_IN", "aspectId": "size"}},
		{"terminate", object{"terminationType": "FORCEFUL"}},
	} {
		if err := s.step(ctx, step.task, step.body); err != nil {
			return fmt.Errorf("%s VNF %s: %w", step.task, name, err)
		}
	}
	return nil
}

// instancesAPI is the list of VNF instances in the life cycle API.
const instancesAPI = "/vnflcm/v2/vnf_instances"

// step requests one operation, follows it to its end, and says how long it took.
func (s *smokeTest) step(ctx context.Context, task string, body object) error {
	began := time.Now()
	h, err := s.do(ctx, http.MethodPost, instancesAPI+"/"+url.PathEscape(s.instance)+"/"+task, body, nil)
	if err != nil {
		return err
	}
	if err := s.follow(ctx, s.cmd.ErrOrStderr(), path.Base(h.Get("Location"))); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.cmd.OutOrStdout(), "%-14s %s\n", task, time.Since(began).Round(10*time.Millisecond))
	return err
}

// clear removes the VNF, in whatever state it is, and the packages.
func (s *smokeTest) clear(ctx context.Context, packages []string) error {
	if s.instance != "" {
		if err := s.remove(ctx); err != nil {
			return err
		}
	}
	for _, id := range packages {
		var list []pkgInfo
		q := url.Values{"filter": {fmt.Sprintf("(eq,vnfdId,'%s')", id)}}
		if _, err := s.doAs(ctx, packagesHeader(), http.MethodGet, packagesAPI+"?"+q.Encode(), nil, &list); err != nil {
			return err
		}
		for _, p := range list {
			one := packagesAPI + "/" + url.PathEscape(p.ID)
			if _, err := s.doAs(ctx, packagesHeader(), http.MethodPatch, one, object{"operationalState": "DISABLED"}, nil); err != nil {
				return err
			}
			if _, err := s.doAs(ctx, packagesHeader(), http.MethodDelete, one, nil, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove ends what is under way, terminates the VNF where it is instantiated, and deletes it.
func (s *smokeTest) remove(ctx context.Context) error {
	one := instancesAPI + "/" + url.PathEscape(s.instance)
	ops, err := s.list(ctx, "/vnflcm/v2/vnf_lcm_op_occs?filter="+url.QueryEscape(fmt.Sprintf("(eq,vnfInstanceId,'%s')", s.instance)))
	if err != nil {
		return err
	}
	for _, op := range ops {
		at := "/vnflcm/v2/vnf_lcm_op_occs/" + url.PathEscape(text(op, "id"))
		switch state := text(op, "operationState"); state {
		case "STARTING", "PROCESSING", "ROLLING_BACK":
			if _, err := s.do(ctx, http.MethodPost, at+"/cancel", object{"cancelMode": "FORCEFUL"}, nil); err != nil {
				return err
			}
			_ = s.follow(ctx, s.cmd.ErrOrStderr(), text(op, "id")) // it ends with an error, as it is cancelled
			fallthrough
		case "FAILED_TEMP":
			var no *refusal // of one that is over by now
			if _, err := s.do(ctx, http.MethodPost, at+"/fail", nil, nil); err != nil && !errors.As(err, &no) {
				return err
			}
		}
	}
	var now object
	if _, err := s.do(ctx, http.MethodGet, one, nil, &now); err != nil {
		return err
	}
	if text(now, "instantiationState") == "INSTANTIATED" {
		if err := s.step(ctx, "terminate", object{"terminationType": "FORCEFUL"}); err != nil {
			return err
		}
	}
	_, err = s.do(ctx, http.MethodDelete, one, nil, nil)
	return err
}
