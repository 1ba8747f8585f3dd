package vnfpkgm

import (
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/filter"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// The onboarding states (PackageOnboardingStateType), and those of use and operation.
const (
	created    = "CREATED"
	uploading  = "UPLOADING"
	processing = "PROCESSING"
	onboarded  = "ONBOARDED"
	failed     = "ERROR"

	enabled  = "ENABLED"
	disabled = "DISABLED"
	inUse    = "IN_USE"
	notInUse = "NOT_IN_USE"
)

// Info is VnfPkgInfo (SOL003 clause 10.5.2.2).
type Info struct {
	ID                string              `json:"id"`
	VnfdID            string              `json:"vnfdId,omitempty"`
	Provider          string              `json:"vnfProvider,omitempty"`
	ProductName       string              `json:"vnfProductName,omitempty"`
	SoftwareVersion   string              `json:"vnfSoftwareVersion,omitempty"`
	VnfdVersion       string              `json:"vnfdVersion,omitempty"`
	Checksum          *Checksum           `json:"checksum,omitempty"`
	SecurityOption    string              `json:"packageSecurityOption,omitempty"`
	SoftwareImages    []Image             `json:"softwareImages,omitempty"`
	Artifacts         []Artifact          `json:"additionalArtifacts,omitempty"`
	OnboardingState   string              `json:"onboardingState"`
	OperationalState  string              `json:"operationalState"`
	UsageState        string              `json:"usageState"`
	VnfmInfo          []string            `json:"vnfmInfo,omitzero"`
	UserDefinedData   map[string]any      `json:"userDefinedData,omitempty"`
	OnboardingFailure *lcm.ProblemDetails `json:"onboardingFailureDetails,omitempty"`
	Links             map[string]link     `json:"_links"`
}

type link struct {
	Href string `json:"href"`
}

// Checksum is Checksum of SOL003 clause 4.4.1.7a.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Hash      string `json:"hash"`
}

// Artifact is VnfPackageArtifactInfo (clause 10.5.3.3).
type Artifact struct {
	Path           string            `json:"artifactPath,omitempty"`
	URI            []string          `json:"artifactURI,omitempty"`
	Checksum       *Checksum         `json:"checksum,omitempty"`
	IsEncrypted    bool              `json:"isEncrypted"`
	Classification string            `json:"artifactClassification,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
}

// Image is VnfPackageSoftwareImageInfo (clause 10.5.3.2).
type Image struct {
	ID              string    `json:"id"`
	Name            string    `json:"name"`
	Provider        string    `json:"provider"`
	Version         string    `json:"version"`
	Checksum        *Checksum `json:"checksum,omitempty"`
	IsEncrypted     bool      `json:"isEncrypted"`
	ContainerFormat string    `json:"containerFormat"`
	DiskFormat      string    `json:"diskFormat"`
	CreatedAt       string    `json:"createdAt"`
	MinDisk         int64     `json:"minDisk"`
	MinRAM          int64     `json:"minRam"`
	Size            int64     `json:"size"`
	Path            string    `json:"imagePath,omitempty"`
}

// resource says what selectors may leave out of the list (clause 10.4.2.3.2).
func resource() rest.Resource {
	def := []string{"softwareImages", "additionalArtifacts", "userDefinedData", "checksum", "onboardingFailureDetails"}
	more := filter.More{
		reflect.TypeFor[Info]():     {"compatibleSpecificationVersions", "signingCertificate"},
		reflect.TypeFor[Artifact](): {"nonManoArtifactSetId"},
		reflect.TypeFor[Image]():    {"imageUri", "userMetadata"},
	}
	return rest.Resource{Schema: filter.SchemaOf(Info{}, more), Shape: &filter.Shape{Default: def, Optional: append([]string{
		"vnfdId", "vnfProvider", "vnfProductName", "vnfSoftwareVersion", "vnfdVersion",
	}, def...)}}
}

// state is the onboarding state.
func (s *Service) state(o *packages.Onboarded) string {
	busy := s.working(o.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case busy != "":
		return busy
	case o.Problem != nil, s.failed[o.ID] != nil, o.Record != nil && (o.Record.Failure != nil || o.Record.VnfdID != "" && o.Entry == nil):
		return failed
	case o.Entry != nil:
		return onboarded
	}
	return created
}

// failure says why a package isn't onboarded.
func (s *Service) failure(o *packages.Onboarded) *lcm.ProblemDetails {
	why := &packages.Failure{Status: http.StatusUnprocessableEntity}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed[o.ID] != nil:
		why = s.failed[o.ID]
	case o.Problem != nil:
		why.Detail = o.Problem.Error()
	case o.Record.Failure != nil:
		why = o.Record.Failure
	default:
		why.Detail = "its content has left the package repositories: push it again, or delete the package"
	}
	return &lcm.ProblemDetails{Title: http.StatusText(why.Status), Status: why.Status, Detail: why.Detail}
}

// info makes the representation of a package; wants says which attributes are asked for.
func (e edition) info(ctx context.Context, o *packages.Onboarded, used func(string) bool, wants func(string) bool) (*Info, error) {
	i := &Info{ID: o.ID, OnboardingState: e.state(o), OperationalState: disabled, UsageState: notInUse}
	if !e.old {
		i.SecurityOption, i.VnfmInfo = "OPTION_1", []string{}
	}
	i.Links = map[string]link{"self": {e.Link("vnf_packages", o.ID)}, "packageContent": {e.Link("vnf_packages", o.ID, "package_content")}}
	if o.Record != nil {
		if wants("userDefinedData") {
			i.UserDefinedData = o.Record.UserDefinedData
		}
		if o.Record.Sealed && !e.old {
			i.SecurityOption = "OPTION_2"
		}
	}
	switch i.OnboardingState {
	case failed:
		i.OnboardingFailure = e.failure(o)
		return i, nil
	case onboarded:
	default:
		return i, nil
	}
	i.Links["vnfd"] = link{e.Link("vnf_packages", o.ID, "vnfd")}
	about := o.Entry.About
	i.VnfdID, i.VnfdVersion = o.Entry.VnfdID, o.Entry.Version
	i.Provider, i.ProductName, i.SoftwareVersion = about.Provider, about.ProductName, about.SoftwareVersion
	if !e.old {
		i.VnfmInfo = append(i.VnfmInfo, about.VnfmInfo...)
	}
	if !o.Disabled {
		i.OperationalState = enabled
	}
	if used(i.VnfdID) {
		i.UsageState = inUse
	}
	if !wants("softwareImages") && !wants("additionalArtifacts") && !wants("checksum") {
		return i, nil
	}
	pkg, err := e.Catalogue.Open(ctx, o.Entry.Tree)
	if err != nil {
		return nil, err
	}
	if wants("softwareImages") {
		i.SoftwareImages = images(pkg)
	}
	if wants("additionalArtifacts") {
		if i.Artifacts, err = artifacts(pkg); err != nil {
			return nil, err
		}
	}
	if wants("checksum") {
		sum, err := e.checksum(pkg)
		if err != nil {
			return nil, err
		}
		i.Checksum = &Checksum{"SHA-256", hex.EncodeToString(sum)}
	}
	return i, nil
}

// formats that SOL003 names; others are shown as BARE and RAW.
var (
	containerFormats = []string{"AKI", "AMI", "ARI", "BARE", "DOCKER", "OVA", "OVF"}
	diskFormats      = []string{"AKI", "AMI", "ISO", "QCOW2", "RAW", "VDI", "VHD", "VHDX", "VMDK"}
)

func images(pkg *vnfd.Package) []Image {
	var list []Image
	for _, i := range pkg.Images {
		one := Image{ID: i.ID, Name: i.Name, Provider: i.Provider, Version: i.Version, ContainerFormat: strings.ToUpper(i.ContainerFormat), DiskFormat: strings.ToUpper(i.DiskFormat),
			CreatedAt: "1970-01-01T00:00:00Z", MinDisk: vnfd.Bytes(i.MinDisk), MinRAM: vnfd.Bytes(i.MinRAM), Size: vnfd.Bytes(i.Size)}
		if one.Provider == "" {
			one.Provider = pkg.VNFD.Provider
		}
		if !slices.Contains(containerFormats, one.ContainerFormat) {
			one.ContainerFormat = "BARE"
		}
		if !slices.Contains(diskFormats, one.DiskFormat) {
			one.DiskFormat = "RAW"
		}
		if i.Hash != "" {
			one.Checksum = &Checksum{strings.ToUpper(i.Algorithm), i.Hash}
		}
		if st, err := fs.Stat(pkg.Files, i.File); i.File != "" && err == nil && st.Mode().IsRegular() {
			one.Path = i.File
			if one.Size == 0 {
				one.Size = st.Size()
			}
		}
		list = append(list, one)
	}
	return list
}

// additional are the listed artifacts that are neither images nor parts of the VNFD.
func additional(pkg *vnfd.Package) ([]vnfd.Artifact, error) {
	meta, err := vnfd.ReadMeta(pkg.Files)
	if err != nil {
		return nil, err
	}
	parts := append(pkg.Definitions(), vnfd.MetaFile, meta.Manifest)
	for _, i := range pkg.Images {
		parts = append(parts, i.File)
	}
	var list []vnfd.Artifact
	at := map[string]int{}
	for _, a := range meta.Artifacts {
		if slices.Contains(parts, a.Path) {
			continue
		}
		if i, twice := at[a.Path]; twice {
			if list[i].Hash == "" {
				list[i] = a
			}
			continue
		}
		at[a.Path] = len(list)
		list = append(list, a)
	}
	return list, nil
}

func artifacts(pkg *vnfd.Package) ([]Artifact, error) {
	listed, err := additional(pkg)
	if err != nil {
		return nil, err
	}
	var list []Artifact
	for _, a := range listed {
		one := Artifact{Path: a.Path}
		switch {
		case a.Hash != "":
			one.Checksum = &Checksum{a.Algorithm, a.Hash}
		case !a.Remote(): // the package gives none
			h, _ := vnfd.Hash("SHA-256")
			sum, err := vnfd.Sum(pkg.Files, a.Path, h)
			if err != nil {
				return nil, fmt.Errorf("artifact %s: %w", a.Path, err)
			}
			one.Checksum = &Checksum{"SHA-256", sum}
		}
		if a.Remote() {
			one.Path, one.URI = "", []string{a.Path}
		}
		if a.ContentType != "" {
			one.Metadata = map[string]string{"Content-Type": a.ContentType}
		}
		switch first, _, _ := strings.Cut(path.Clean(a.Path), "/"); strings.ToLower(first) {
		case "licenses":
			one.Classification = "LICENSE"
		case "tests", "testing":
			one.Classification = "TESTING"
		}
		list = append(list, one)
	}
	return list, nil
}
