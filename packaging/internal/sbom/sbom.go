// Package sbom writes of what a binary and an image are made, as a CycloneDX document: the
// modules that the binary says it was compiled of, Go itself, and Debian's packages.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/packaging/internal/build"
	"github.com/jibe-vnfm/jibe/packaging/internal/debian"
	"github.com/jibe-vnfm/jibe/packaging/internal/licences"
)

// Of describes a binary, and the packages of Debian that stand beside it in an image (none
// outside of one), as JSON. For the same input it is the same, byte for byte.
func Of(release build.Release, arch, binary string, modules []licences.Module, packages []debian.Package) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("%s doesn't say of what it was compiled: %w", binary, err)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	known := map[string][]string{}
	for _, m := range modules {
		known[m.Path] = m.Licences
	}
	main := cyclonedx.Component{
		BOMRef: "jibe", Type: cyclonedx.ComponentTypeApplication, Name: "jibe", Version: release.Version,
		Description: "GitOps VNF manager, linux/" + arch,
		PackageURL:  golang(info.Main.Path, release.Version),
		Licenses:    choices("Apache-2.0"),
		Hashes:      &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
	components := []cyclonedx.Component{{
		BOMRef: licences.Standard, Type: cyclonedx.ComponentTypeLibrary, Name: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PackageURL: golang("stdlib", strings.TrimPrefix(info.GoVersion, "go")), Licenses: choices(known[licences.Standard]...),
	}}
	refs := []string{licences.Standard}
	for _, m := range info.Deps {
		path := m.Path
		if m.Replace != nil {
			m = m.Replace
		}
		purl := golang(m.Path, m.Version)
		components = append(components, cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			PackageURL: purl, Licenses: choices(known[path]...)})
		refs = append(refs, purl)
	}
	for _, p := range packages {
		components = append(components, cyclonedx.Component{BOMRef: p.Purl(), Type: cyclonedx.ComponentTypeLibrary, Name: p.Name, Version: p.Version,
			PackageURL: p.Purl(), Properties: &[]cyclonedx.Property{{Name: "jibe:debian:source", Value: p.Source + " " + p.SourceVersion}}})
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: release.Date.UTC().Format(time.RFC3339),
		Component: &main,
		Tools: &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{{
			Type: cyclonedx.ComponentTypeApplication, Name: "jibe make release", Version: release.Version}}},
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: "jibe", Dependencies: &refs}}
	write := func() ([]byte, error) {
		var b bytes.Buffer
		enc := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true)
		if err := enc.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
			return nil, fmt.Errorf("write the SBOM: %w", err)
		}
		return b.Bytes(), nil
	}
	plain, err := write()
	if err != nil {
		return nil, err
	}
	// A number of its own for each content, which no chance is in.
	bom.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceOID, plain).String()
	return write()
}

func golang(path, version string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "pkg:golang/" + strings.Join(parts, "/") + "@" + url.PathEscape(version)
}

func choices(ids ...string) *cyclonedx.Licenses {
	if len(ids) == 0 {
		return nil
	}
	var l cyclonedx.Licenses
	for _, id := range ids {
		l = append(l, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &l
}
