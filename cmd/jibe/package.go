package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/admission/packagecheck"
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
	return files, judgePackage(cmd, dir, files)
}

// judgePackage prints what the server would say of the package. An error is what it would
// refuse.
func judgePackage(cmd *cobra.Command, name string, files fs.FS) error {
	wrong := 0
	for _, p := range packagecheck.Validate(files) {
		fmt.Fprintln(cmd.OutOrStdout(), p.String())
		if p.Severity != vnfd.Warning {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%s in package %s", plantext.Count(wrong, "problem"), name)
	}
	return nil
}

func newPackageValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate DIR|FILE.csar",
		Short: "Check a package: a folder, or an archive (CSAR)",
		Long: "Check a package as the server does when it is uploaded: an expanded package, or an archive\n" +
			"(.csar, .zip), also one inside another next to its signature. Signatures aren't checked. Lines\n" +
			"with \"warning\" are about what works, though hardly as it was meant.",
		Example: "  jibe package validate ./upf-1.0\n  jibe package validate upf-1.0.csar   # an archive",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, done, err := openPackage(args[0])
			if err != nil {
				return err
			}
			defer done()
			if err := judgePackage(cmd, args[0], files); err != nil {
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

// openPackage opens a folder or an archive, or the archive that stands in it next to its
// signature, as the server does. The caller calls done at the end.
func openPackage(name string) (files fs.FS, done func(), err error) {
	if st, err := os.Stat(name); err != nil {
		return nil, nil, err
	} else if st.IsDir() {
		files, err := csar.Dir(name)
		return files, func() {}, err
	}

	outer, err := csar.OpenFile(name, csar.Limits{})
	if err != nil {
		return nil, nil, err
	}
	seal, err := csar.FindSeal(outer)
	if err != nil {
		return nil, nil, errors.Join(err, outer.Close())
	}
	if seal == nil {
		return outer, func() { _ = outer.Close() }, nil // it was only read
	}

	inner, err := innerArchive(outer, seal.Archive)
	if err := errors.Join(err, outer.Close()); err != nil {
		return nil, nil, err
	}
	archive, err := csar.OpenFile(inner, csar.Limits{})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s in %s: %w", seal.Archive, name, err), os.Remove(inner))
	}
	return archive, func() { _, _ = archive.Close(), os.Remove(inner) }, nil
}

// innerArchive writes an archive that stands in another into a temporary file.
func innerArchive(files fs.FS, name string) (temporary string, err error) {
	in, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp("", "jibe-*.csar")
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(out, in); err != nil {
		return "", errors.Join(err, out.Close(), os.Remove(out.Name()))
	}
	return out.Name(), out.Close()
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
