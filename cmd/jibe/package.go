package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/admission/plantext"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

func newPackage() *cobra.Command {
	cmd := &cobra.Command{
		Use: "package", Short: "VNF packages (CSAR)",
		Example: "  jibe package validate ./upf-1.0   whether it can be used\n  jibe package add ./upf-1.0        bring it to the server",
	}
	cmd.AddCommand(newPackageValidate(), newPackageBuild(), newPackageRehash(), newPackageTestHook(), newPackageAdd())
	return cmd
}

// checkPackage opens a package and prints what is wrong with it; warnings alone
// are no error.
func checkPackage(cmd *cobra.Command, dir string) (fs.FS, error) {
	files, err := csar.Dir(dir)
	if err != nil {
		return nil, err
	}
	wrong := 0
	for _, p := range csar.Validate(files) {
		fmt.Fprintln(cmd.OutOrStdout(), p.String())
		if p.Severity != vnfd.Warning {
			wrong++
		}
	}
	if wrong > 0 {
		return nil, fmt.Errorf("%s in package %s", plantext.Count(wrong, "problem"), dir)
	}
	return files, nil
}

func newPackageValidate() *cobra.Command {
	return &cobra.Command{
		Use:     "validate DIR",
		Short:   "Check an expanded package",
		Example: "  jibe package validate ./upf-1.0",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := checkPackage(cmd, args[0])
			if err != nil {
				return err
			}
			pkg, err := vnfd.Load(files)
			if err != nil {
				return err
			}
			d := pkg.VNFD
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: valid: %s %s %s, vnfdId %s\n", args[0], d.Provider, d.ProductName, d.Version, d.ID)
			return err
		},
	}
}

func newPackageBuild() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:     "build DIR",
		Short:   "Make a CSAR (zip) of an expanded package",
		Example: "  jibe package build ./upf-1.0 -o upf-1.0.csar",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := checkPackage(cmd, args[0])
			if err != nil {
				return err
			}
			abs, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if out == "" {
				out = filepath.Base(abs) + ".csar"
			}
			if inside(abs, out) {
				return fmt.Errorf("%s would stand in the package itself: name a file outside of it with --output", out)
			}
			// It is written beside its place first, so that a build that fails leaves an older
			// archive alone.
			f, err := os.CreateTemp(filepath.Dir(out), ".csar-")
			if err != nil {
				return err
			}
			defer os.Remove(f.Name())
			if err := errors.Join(csar.Build(files, f), f.Chmod(0o644), f.Close()); err != nil {
				return fmt.Errorf("build %s: %w", out, err)
			}
			if err := os.Rename(f.Name(), out); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), out)
			return err
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write (default: the directory's name and .csar, here)")
	return cmd
}

// inside says whether a file stands below a folder.
func inside(folder, file string) bool {
	abs, err := filepath.Abs(file)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(folder, abs)
	return err == nil && filepath.IsLocal(rel)
}

func newPackageRehash() *cobra.Command {
	return &cobra.Command{
		Use:     "rehash DIR",
		Short:   "Bring the hashes in TOSCA.meta up to date",
		Example: "  jibe package rehash ./upf-1.0",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return csar.Rehash(args[0]) },
	}
}
