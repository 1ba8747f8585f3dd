package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// packagesAPI is the list of packages in the package management API.
const packagesAPI = "/vnfpkgm/v2/vnf_packages"

func packagesHeader() http.Header { return http.Header{"Version": {"2.1.0"}} }

func newPackageAdd() *cobra.Command {
	var c client
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "add FILE.csar|DIR",
		Short: "Bring a package to the server, and wait until it is onboarded",
		Long: "Bring a package to the server: an archive (CSAR), or an expanded package, which is checked\n" +
			"and archived first. The server checks it again and commits it to the package repository\n" +
			"that is its own (\"onboarding: true\" in repositories.yaml). A package that the server has\n" +
			"already, with the same content, is left alone.",
		Example: "  jibe package add upf-1.0.csar\n" +
			"  jibe package add ./upf-1.0 --timeout 1m   # a folder",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			err := addPackage(ctx, cmd, &c, args[0])
			if err != nil && ctx.Err() != nil && cmd.Context().Err() == nil {
				return fmt.Errorf("the package isn't onboarded after %v (see: jibe get packages; longer: --timeout): %w", limit, err)
			}
			return err
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().DurationVar(&limit, "timeout", 10*time.Minute, "how long it may take in all")
	return cmd
}

func addPackage(ctx context.Context, cmd *cobra.Command, c *client, name string) error {
	st, err := os.Stat(name)
	if err != nil {
		return err
	}
	file := name
	if st.IsDir() {
		files, err := checkPackage(cmd, name)
		if err != nil {
			return err
		}
		if file, err = temporary(files); err != nil {
			return err
		}
		defer os.Remove(file)
	}
	opened, err := csar.OpenFile(file, csar.Limits{})
	if err != nil {
		return err
	}
	defer opened.Close()
	// A package whose VNFD can't be read is the server's to refuse: it may be one inside of its
	// signed archive.
	if pkg, err := vnfd.Load(opened); err == nil {
		id, err := alreadyThere(ctx, c, opened, pkg.VNFD.ID)
		if err != nil {
			return err
		}
		if id != "" {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: the server has it already: vnfdId %s, package %s\n", name, pkg.VNFD.ID, id)
			return err
		}
	}
	return uploadPackage(ctx, cmd, c, name, file)
}

// temporary writes the package as an archive into a temporary file.
func temporary(files fs.FS) (name string, err error) {
	f, err := os.CreateTemp("", "jibe-*.csar")
	if err != nil {
		return "", err
	}
	if err := errors.Join(csar.Build(files, f), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// pkgInfo is what is read of a package in the API.
type pkgInfo struct {
	ID              string `json:"id"`
	VnfdID          string `json:"vnfdId"`
	VnfdVersion     string `json:"vnfdVersion"`
	OnboardingState string `json:"onboardingState"`
	Checksum        struct {
		Hash string `json:"hash"`
	} `json:"checksum"`
	Failure struct {
		Detail string `json:"detail"`
	} `json:"onboardingFailureDetails"`
}

// alreadyThere returns the id under which the server has the same package, "" for none. Another
// one with the same vnfdId is an error.
func alreadyThere(ctx context.Context, c *client, files fs.FS, vnfdID string) (string, error) {
	var list []pkgInfo
	q := url.Values{"filter": {fmt.Sprintf("(eq,vnfdId,'%s')", vnfdID)}, "fields": {"vnfdId,checksum"}}
	if _, err := c.doAs(ctx, packagesHeader(), http.MethodGet, packagesAPI+"?"+q.Encode(), nil, &list); err != nil || len(list) == 0 {
		return "", err
	}
	sum := sha256.New()
	if err := csar.BuildStored(files, sum); err != nil {
		return "", err
	}
	if list[0].Checksum.Hash != hex.EncodeToString(sum.Sum(nil)) {
		return "", fmt.Errorf("the server has another package with the vnfdId %s (%s): give this one another descriptor_id, or delete that one", vnfdID, list[0].ID)
	}
	return list[0].ID, nil
}

// uploadPackage sends the archive and waits until it is onboarded. What the server refuses leaves
// nothing there.
func uploadPackage(ctx context.Context, cmd *cobra.Command, c *client, name, file string) error {
	var p pkgInfo
	if _, err := c.doAs(ctx, packagesHeader(), http.MethodPost, packagesAPI, struct{}{}, &p); err != nil {
		return err
	}
	one := packagesAPI + "/" + url.PathEscape(p.ID)
	err := sendArchive(ctx, c, one, file)
	for pause := 50 * time.Millisecond; err == nil; pause = min(2*pause, time.Second) {
		if _, err = c.doAs(ctx, packagesHeader(), http.MethodGet, one, nil, &p); err != nil {
			break
		}
		switch p.OnboardingState {
		case "ONBOARDED":
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: onboarded: vnfdId %s, version %s, package %s\n", name, p.VnfdID, p.VnfdVersion, p.ID)
			return err
		case "ERROR":
			err = fmt.Errorf("the server refused %s: %s", name, p.Failure.Detail)
		}
		select {
		case <-ctx.Done():
			return ctx.Err() // the server goes on with it
		case <-time.After(pause):
		}
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, derr := c.doAs(undo, packagesHeader(), http.MethodDelete, one, nil, nil); derr != nil {
		err = fmt.Errorf("%w (the empty package %s is left behind: %w)", err, p.ID, derr)
	}
	return err
}

func sendArchive(ctx context.Context, c *client, one, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = c.doAs(ctx, packagesHeader(), http.MethodPut, one+"/package_content", archive{io.Reader(f), st.Size()}, nil)
	return err
}

// packageState is the state of a package in a list for people.
func packageState(o object) string {
	state := text(o, "state")
	if text(o, "inUse") == "true" {
		state += " IN_USE"
	}
	return state
}
