package published

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// operationOccurrence is the kind of notification that tells of operations.
const operationOccurrence = "VnfLcmOperationOccurrenceNotification"

// notificationBodies are the schemas of the bodies of notifications, by standard and
// notificationType; nil where they aren't there.
func notificationBodies() (map[string]map[string]*openapi3.Schema, error) {
	if missing() != nil {
		return nil, nil
	}
	all := map[string]map[string]*openapi3.Schema{}
	lifecycle := []string{operationOccurrence, "VnfIdentifierCreationNotification", "VnfIdentifierDeletionNotification"}
	packages := []string{"VnfPackageOnboardingNotification", "VnfPackageChangeNotification"}
	for standard, kinds := range map[string]map[Interface][]string{
		"SOL002": {Lifecycle: lifecycle},
		"SOL003": {Lifecycle: lifecycle, Packages: packages},
	} {
		// Their definitions alone: the paths lead to those of all other resources.
		doc := openapi3.T{OpenAPI: "3.0.2", Paths: openapi3.NewPaths(), Components: &openapi3.Components{Schemas: openapi3.Schemas{}}}
		for i, names := range kinds {
			for _, kind := range names {
				file := string(i) + "Notification/definitions/" + standard + string(i) + "Notification_def.yaml"
				doc.Components.Schemas[kind] = openapi3.NewSchemaRef(file+"#/definitions/"+kind, nil)
			}
		}
		at := &url.URL{Path: filepath.ToSlash(filepath.Join(folder(), edition371, standard)) + "/"}
		if err := loader().ResolveRefsIn(&doc, at); err != nil {
			return nil, fmt.Errorf("published definitions of notifications in %s: %w", at.Path, err)
		}
		repair371(&doc)
		all[standard] = map[string]*openapi3.Schema{}
		for kind, schema := range doc.Components.Schemas {
			all[standard][kind] = schema.Value
		}
	}
	return all, nil
}

// Notification holds the body of a notification against the published definitions, and
// against what they say in words of its attributes. It is nil for any body where the
// definitions aren't there.
func Notification(body []byte) error {
	all, err := bodies()
	if all == nil {
		return err
	}
	var n map[string]any
	if err := json.Unmarshal(body, &n); err != nil {
		return fmt.Errorf("a notification that isn't JSON: %w", err)
	}
	kind, _ := n["notificationType"].(string)
	var errs []error
	unknowns := map[string]int{}
	held := 0
	for _, standard := range []string{"SOL002", "SOL003"} {
		schema := all[standard][kind]
		if schema == nil {
			continue
		}
		held++
		if err := Holds(schema, n, openapi3.EnableFormatValidation()); err != nil {
			errs = append(errs, fmt.Errorf("%s v3.7.1: %w", standard, err))
		}
		for _, name := range Unknown(schema, n) {
			unknowns[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unknowns)) {
		// One interface serves both; an element manager learns nothing of VIMs by SOL002.
		if unknowns[name] == held {
			errs = append(errs, fmt.Errorf("neither SOL002 nor SOL003 v3.7.1 knows %s", name))
		}
	}
	if held == 0 {
		errs = append(errs, fmt.Errorf("no notification of SOL002 or SOL003 is a %q", kind))
	}
	if kind == operationOccurrence {
		errs = append(errs, inWords(n))
	}
	return errors.Join(errs...)
}

// results are the attributes that only the notification of a result has, in full.
var results = []string{"affectedVnfcs", "affectedVirtualLinks", "affectedExtLinkPorts", "affectedVirtualStorages", "affectedVipCps",
	"changedInfo", "changedExtConnectivity", "modificationsTriggeredByVnfPkgChange"}

// inWords holds a VnfLcmOperationOccurrenceNotification against what its definition (of
// SOL003, whose words are the younger ones) can only say in words.
func inWords(n map[string]any) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if n["notificationStatus"] != "RESULT" || n["verbosity"] == "SHORT" {
		for _, name := range results {
			if _, there := n[name]; there {
				fail("%s shall be absent: notificationStatus is %v, verbosity is %v", name, n["notificationStatus"], n["verbosity"])
			}
		}
	}
	_, info := n["changedInfo"]
	_, pkg := n["modificationsTriggeredByVnfPkgChange"]
	if info && (pkg || n["operation"] == "CHANGE_VNFPKG") || pkg && n["operation"] != "CHANGE_VNFPKG" {
		fail("of a %v there shall not be changedInfo (%v) or modificationsTriggeredByVnfPkgChange (%v)", n["operation"], info, pkg)
	}
	failed := slices.Contains([]any{"FAILED_TEMP", "FAILED", "ROLLED_BACK"}, n["operationState"])
	if _, there := n["error"]; there != failed {
		fail("error shall be there in FAILED_TEMP, FAILED and ROLLED_BACK alone: %v in %v", there, n["operationState"])
	}
	for link, attribute := range map[string]string{"vnfInstance": "vnfInstanceId", "vnfLcmOpOcc": "vnfLcmOpOccId", "subscription": "subscriptionId"} {
		links, _ := n["_links"].(map[string]any)
		to, _ := links[link].(map[string]any)
		href, _ := to["href"].(string)
		if id, _ := n[attribute].(string); !strings.HasSuffix(href, "/"+id) {
			fail("the link %s is %q and not that of %s %s", link, href, attribute, id)
		}
	}
	return errors.Join(errs...)
}
