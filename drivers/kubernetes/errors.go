package kubernetes

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

// classify distinguishes what the API server will never accept (a [*drivers.RefusedError]
// that names the object) from what it may accept later (it wraps [drivers.ErrUnavailable]).
func classify(key string, err error) error {
	var refused *drivers.RefusedError
	switch {
	case err == nil, errors.As(err, &refused), errors.Is(err, drivers.ErrUnavailable):
		return err
	case deniedByWebhook(err):
		return &drivers.RefusedError{Object: key, Reason: err.Error(), MayPass: true}
	case meta.IsNoMatchError(err):
		return &drivers.RefusedError{Object: key, Reason: fmt.Sprintf("the cluster doesn't know this kind (%v): install its definition first", err), Awaited: true}
	case apierrors.IsInvalid(err) && comesLater(err):
		return watched.Unavailable(err)
	case apierrors.IsForbidden(err):
		if lacksRight(err) || comesLater(err) {
			return watched.Unavailable(err)
		}
		// A quota still counts what has just gone, for as long as its controller takes to notice.
		return &drivers.RefusedError{Object: key, Reason: err.Error(), MayPass: overQuota(err)}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err),
		apierrors.IsRequestEntityTooLargeError(err), apierrors.IsNotAcceptable(err), apierrors.IsUnsupportedMediaType(err):
		return &drivers.RefusedError{Object: key, Reason: err.Error()}
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return watched.Unavailable(err)
	case apierrors.IsNotFound(err):
		// An apply makes the object if it is missing: only the namespace or the kind can be.
		return &drivers.RefusedError{Object: key, Reason: err.Error() + ": create it, or add it to the package's manifests", Awaited: true}
	}
	var s apierrors.APIStatus
	if errors.As(err, &s) && strings.Contains(s.Status().Message, "failed to create typed patch object") {
		// A field that the kind doesn't have; the server calls it an internal error.
		return &drivers.RefusedError{Object: key, Reason: s.Status().Message}
	}
	return watched.Unavailable(err)
}

// moved are the kinds that went from one built-in group to another. Which versions a group
// serves the API server says itself.
var moved = map[schema.GroupKind]string{
	{Group: "extensions", Kind: "DaemonSet"}:     "apps",
	{Group: "extensions", Kind: "Deployment"}:    "apps",
	{Group: "extensions", Kind: "ReplicaSet"}:    "apps",
	{Group: "extensions", Kind: "Ingress"}:       "networking.k8s.io",
	{Group: "extensions", Kind: "NetworkPolicy"}: "networking.k8s.io",
}

// retired explains that the API server doesn't know the kind in the manifest's version, where
// it serves the kind in another one: there is no definition to install. It leaves other errors
// as they are.
func (d *Driver) retired(gk schema.GroupKind, key string, err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	now := gk
	if group, ok := moved[gk]; ok {
		now.Group = group
	}
	mapping, failed := d.mapper.Find(now)
	if failed != nil {
		return err
	}
	// A definition can come that has the version; a kind that is built in stays as it is.
	_, builtIn := manifest.Kinds[now]
	return &drivers.RefusedError{Object: key, Awaited: !builtIn, Reason: fmt.Sprintf("the cluster doesn't serve this kind in the manifest's version (%v): it serves %s; change apiVersion in the package's manifest, "+
		"and the fields that differ", err, mapping.GroupVersionKind.GroupVersion())}
}

// deniedByWebhook says whether an admission webhook refused, whatever status it gave. One
// that can't be called is another matter.
func deniedByWebhook(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s) && webhookDenial.MatchString(s.Status().Message)
}

var webhookDenial = regexp.MustCompile(`^admission webhook "[^"]*" denied the request`)

var rbacDenial = regexp.MustCompile(`User "[^"]*" cannot `)

// lacksRight says whether the credentials may not do this. The API server says "forbidden"
// also of an object that isn't admitted (quota, webhook, pod security).
func lacksRight(err error) bool { return rbacDenial.MatchString(err.Error()) }

// comesLater is a refusal that ends by itself: a new namespace has no default
// ServiceAccount for a moment, and an API server that was just started can't give addresses yet.
func comesLater(err error) bool {
	return strings.Contains(err.Error(), "allocator not ready") || strings.Contains(err.Error(), `serviceaccount "default" not found`) ||
		strings.Contains(err.Error(), "because it is being terminated")
}

// taken explains a refusal because somebody else has by now what was to be taken over. It
// leaves other errors as they are.
func taken(key, kept string, err error) error {
	var refused *drivers.RefusedError
	if kept == "" || !errors.As(err, &refused) || !isTaken(err) {
		return err
	}
	// A cluster whose API server died may take minutes to notice that an address is free.
	return &drivers.RefusedError{Object: key, MayPass: true, Reason: fmt.Sprintf(
		"an address or port of its predecessor, which it should take over, was taken by another Service meanwhile, or isn't free yet: free it and retry, or give others in the manifest (%s)", refused.Reason)}
}

// isTaken says whether the server refused an address or port that it gave to
// another Service. It has no reason of its own for that.
func isTaken(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "already allocated") || strings.Contains(err.Error(), "already in use"))
}
