package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// permission is a verb on a resource, in a namespace or, where it is "", in all of them. A name is that of the
// only object that it is for.
type permission struct {
	resource              schema.GroupResource
	verb, namespace, name string
}

// The verbs that the driver uses: it reads from watches and asks again for single objects; what it
// writes is applied, a patch that also creates.
var (
	reading = []string{"get", "list", "watch"}
	writing = []string{"create", "delete", "patch"}
)

// onDemand are kinds whose rights an administrator may withhold as a whole: packages that bring
// them are refused by the API server then, and nothing else is.
var onDemand = []schema.GroupResource{
	{Resource: "secrets"}, {Group: manifest.GroupRBAC, Resource: "roles"}, {Group: manifest.GroupRBAC, Resource: "rolebindings"},
}

// workloads are the kinds by which it is told where VNFs may be.
var workloads = []schema.GroupResource{{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "statefulsets"}, {Resource: "pods"}}

const (
	// sightAtOnce is how many rights are asked for at once.
	sightAtOnce = 8
	// mostNamespaces is in how many namespaces it is asked whether VNFs may be there, and
	// mostExamined in how many of those for all rights.
	mostNamespaces, mostExamined = 500, 10
)

// wanted are the rights that the driver needs for the kinds that packages are usually made of: reads and writes of
// what is in namespaces, and reads of what is in none.
func wanted() (reads, writes, cluster []permission) {
	add := func(list *[]permission, resource schema.GroupResource, verbs ...string) {
		for _, verb := range verbs {
			*list = append(*list, permission{resource: resource, verb: verb})
		}
	}
	for gk, info := range manifest.Kinds {
		if !info.Always {
			continue
		}
		plural, _ := meta.UnsafeGuessKindToResource(gk.WithVersion(""))
		add(&reads, plural.GroupResource(), reading...)
		if gk != manifest.KindSlice { // it only tells where traffic goes
			add(&writes, plural.GroupResource(), writing...)
		}
	}
	add(&reads, schema.GroupResource{Resource: "events"}, "list", "watch") // why something isn't ready
	add(&cluster, namespaceResource, "get")                                // which cluster it is
	add(&cluster, schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, "list", "watch")
	add(&cluster, schema.GroupResource{Group: manifest.KindStorage.Group, Resource: "storageclasses"}, "list", "watch") // which claims wait for a pod
	return reads, writes, cluster
}

var namespaceResource = schema.GroupResource{Resource: "namespaces"}

// sightOfRights is how the rights of credentials are looked at.
type sightOfRights struct {
	reviews    authorization.SelfSubjectAccessReviewInterface
	namespaces dynamic.ResourceInterface
}

// look tells of the rights in s, where a kind is watched once for the whole cluster.
func (r sightOfRights) look(ctx context.Context, s *drivers.Sight) error {
	reads, writes, cluster := wanted()
	unread, err := r.missing(ctx, slices.Concat(reads, cluster))
	if err != nil {
		return err
	}
	unwritten, err := r.missing(ctx, writes)
	if err != nil {
		return err
	}
	if mayNothing(unwritten, workloads) { // else it is that one or the other is missing in the whole cluster
		places, known, err := r.places(ctx)
		switch {
		case err != nil:
			return err
		case !known:
			s.Notes = append(s.Notes, "in which namespaces it may write can't be seen, as it may not list them")
		case len(places) > 0:
			s.Notes = append(s.Notes, "it may write in "+some(places)+" alone")
			if unwritten, err = r.missingIn(ctx, unwritten, places[:min(len(places), mostExamined)]); err != nil {
				return err
			}
		}
	}
	withhold(s, unread, unwritten)
	return nil
}

// lookIn tells of the rights in s, where the VIM is used in these namespaces alone.
func (r sightOfRights) lookIn(ctx context.Context, s *drivers.Sight, places []string) error {
	reads, writes, cluster := wanted()
	identity := permission{resource: namespaceResource, verb: "get", name: metav1.NamespaceSystem}
	cluster = slices.DeleteFunc(cluster, func(p permission) bool { return p.resource == namespaceResource })
	cluster = append(cluster, identity)
	for _, place := range places {
		for _, verb := range []string{"list", "watch"} {
			cluster = append(cluster, permission{resource: namespaceResource, verb: verb, name: place})
		}
	}
	s.Notes = append(s.Notes, "it is used in "+some(places)+" alone")

	unread, err := r.missing(ctx, cluster)
	if err != nil {
		return err
	}
	if slices.Contains(unread, identity) {
		s.Notes = append(s.Notes, "which cluster answers can't be seen without a right to get namespace "+metav1.NamespaceSystem+": another one at the address wouldn't be noticed")
	}
	examined := places[:min(len(places), mostExamined)]
	inPlaces, err := r.missingIn(ctx, reads, examined)
	if err != nil {
		return err
	}
	unwritten, err := r.missingIn(ctx, writes, examined)
	if err != nil {
		return err
	}

	everywhere := permission{resource: schema.GroupResource{Resource: "secrets"}, verb: "list"}
	beyond, err := r.missing(ctx, []permission{everywhere})
	if err != nil {
		return err
	}
	if len(beyond) == 0 {
		s.Notes = append(s.Notes, "its credentials may read the Secrets of all namespaces, which isn't needed")
	}
	withhold(s, slices.Concat(unread, inPlaces), unwritten)
	return nil
}

// withhold tells in s of rights that are missing, and, where they are withheld as a whole, of what packages can't bring.
func withhold(s *drivers.Sight, unread, unwritten []permission) {
	var without []string
	for _, resource := range onDemand {
		if mayNothing(unwritten, []schema.GroupResource{resource}) {
			without = append(without, resource.String())
			of := func(p permission) bool { return p.resource == resource }
			unread, unwritten = slices.DeleteFunc(unread, of), slices.DeleteFunc(unwritten, of)
		}
	}
	if len(without) > 0 {
		s.Notes = append(s.Notes, "packages can't bring "+strings.Join(without, ", "))
	}
	s.Lacking, s.Unwritten = told(unread), told(unwritten)
}

// mayNothing says whether no right to write the resources is left anywhere.
func mayNothing(unwritten []permission, resources []schema.GroupResource) bool {
	for _, resource := range resources {
		for _, verb := range writing {
			if !slices.Contains(unwritten, permission{resource: resource, verb: verb}) {
				return false
			}
		}
	}
	return true
}

// places are the namespaces in which the credentials may write workloads, in order. known is false
// where they may not list namespaces.
func (r sightOfRights) places(ctx context.Context) (places []string, known bool, err error) {
	list, err := r.namespaces.List(ctx, metav1.ListOptions{Limit: mostNamespaces})
	if apierrors.IsForbidden(err) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("list namespaces: %w", err)
	}
	var asked []permission
	for i := range list.Items {
		for _, resource := range workloads {
			asked = append(asked, permission{resource: resource, verb: "patch", namespace: list.Items[i].GetName()})
		}
	}
	refused, err := r.missing(ctx, asked)
	if err != nil {
		return nil, false, err
	}
	allowed := map[string]bool{}
	for _, p := range asked {
		if !slices.Contains(refused, p) {
			allowed[p.namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(allowed)), true, nil
}

// missingIn are those of the rights that are missing in the namespaces. One that is missing in each
// is told once, without a namespace.
func (r sightOfRights) missingIn(ctx context.Context, rights []permission, places []string) ([]permission, error) {
	var asked []permission
	for _, p := range rights {
		for _, p.namespace = range places {
			asked = append(asked, p)
		}
	}
	missing, err := r.missing(ctx, asked)
	if err != nil {
		return nil, err
	}
	var out []permission
	for _, p := range rights {
		in := slices.DeleteFunc(slices.Clone(missing), func(m permission) bool { return m.resource != p.resource || m.verb != p.verb })
		if len(in) == len(places) {
			in = []permission{p}
		}
		out = append(out, in...)
	}
	return out, nil
}

// missing asks for the rights, and returns those that the credentials don't have.
func (r sightOfRights) missing(ctx context.Context, rights []permission) ([]permission, error) {
	var mu sync.Mutex
	var missing []permission
	var failed error
	slots := make(chan struct{}, sightAtOnce)
	var asking sync.WaitGroup
	for _, p := range rights {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answer, err := r.reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: p.verb, Group: p.resource.Group, Resource: p.resource.Resource, Namespace: p.namespace, Name: p.name},
			}}, metav1.CreateOptions{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			} else if !answer.Status.Allowed {
				missing = append(missing, p)
			}
		})
	}
	asking.Wait()
	return missing, failed
}

// told are rights for people: by resource and place, with their verbs, in order.
func told(rights []permission) []string {
	verbs := map[string][]string{}
	for _, p := range rights {
		what := p.resource.String()
		if p.name != "" {
			what += " " + p.name
		}
		if p.namespace != "" {
			what += " in namespace " + p.namespace
		}
		verbs[what] = append(verbs[what], p.verb)
	}
	var out []string
	for _, what := range slices.Sorted(maps.Keys(verbs)) {
		slices.Sort(verbs[what])
		out = append(out, what+" ("+strings.Join(verbs[what], ", ")+")")
	}
	return out
}

// some are names for people; not all where they are many.
func some(places []string) string {
	const most = 5
	switch more := len(places) - most; {
	case len(places) == 1:
		return "namespace " + places[0]
	case more > 0:
		return fmt.Sprintf("namespaces %s and %d more", strings.Join(places[:most], ", "), more)
	}
	return "namespaces " + strings.Join(places, ", ")
}
