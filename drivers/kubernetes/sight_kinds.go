package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

const (
	// sightPage is how many objects are read at once, and sightPages how often.
	sightPage, sightPages = 500, 20
	// mostKinds is how many kinds are looked at, and kindPatience how long one may take.
	mostKinds, kindPatience = 100, 10 * time.Second
)

// sightOfKinds looks whether the kinds that instances have can be listed. The rights for the usual ones are
// looked at by [sightOfRights]; others may also lack what converts or serves them.
type sightOfKinds struct {
	objects metadata.Interface
	mapper  *mapper
	places  []string // the namespaces that the VIM is used in; "" is all
}

func newSightOfKinds(config *rest.Config, client *http.Client, places []string) (sightOfKinds, error) {
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return sightOfKinds{}, err
	}
	objects, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), client)
	if err != nil {
		return sightOfKinds{}, err
	}
	if len(places) == 0 {
		places = []string{metav1.NamespaceAll}
	}
	return sightOfKinds{objects, &mapper{deferred: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))}, places}, nil
}

// look tells in s of kinds that can't be listed.
func (k sightOfKinds) look(ctx context.Context, s *drivers.Sight) error {
	kinds, err := k.kinds(ctx)
	if apierrors.IsForbidden(err) {
		return nil // which is told as a right that is lacking
	}
	if err != nil {
		return fmt.Errorf("list the inventories of instances: %w", err)
	}

	var mu sync.Mutex
	slots := make(chan struct{}, sightAtOnce)
	var asking sync.WaitGroup
	for _, name := range kinds {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if why := k.unlisted(ctx, manifest.ParseKind(name)); why != nil {
				mu.Lock()
				defer mu.Unlock()
				s.Unlisted = append(s.Unlisted, fmt.Sprintf("%s (%v)", name, why))
			}
		})
	}
	asking.Wait()
	slices.Sort(s.Unlisted)
	return nil
}

// kinds are the names of the unusual kinds that instances have, as their inventories say.
func (k sightOfKinds) kinds(ctx context.Context) ([]string, error) {
	var names []string
	configMaps := k.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	for _, place := range k.places {
		page := metav1.ListOptions{LabelSelector: manifest.LabelInstance, Limit: sightPage}
		for range sightPages {
			list, err := configMaps.Namespace(place).List(ctx, page)
			if err != nil {
				return nil, err
			}
			for _, x := range list.Items {
				if listed := x.Annotations[manifest.AnnotationKinds]; listed != "" {
					names = append(names, strings.Split(listed, ",")...)
				}
			}
			slices.Sort(names)
			names = slices.Compact(names)
			if page.Continue = list.Continue; page.Continue == "" {
				break
			}
		}
	}
	return names[:min(len(names), mostKinds)], nil
}

// unlisted is why the kind can't be listed; nil where it can, or isn't there at all.
func (k sightOfKinds) unlisted(ctx context.Context, gk schema.GroupKind) error {
	mapping, err := k.mapper.Find(gk)
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return err
	}

	asking, cancel := context.WithTimeout(watched.Once(ctx), kindPatience)
	defer cancel()
	places := k.places
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		places = []string{metav1.NamespaceAll}
	}
	for _, place := range places {
		_, err = k.objects.Resource(mapping.Resource).Namespace(place).List(asking, metav1.ListOptions{LabelSelector: manifest.LabelInstance, Limit: sightPage})
		if err != nil {
			break
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", kindPatience)
	}
	return err
}
