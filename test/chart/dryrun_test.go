package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// server is an API server that objects are shown to.
type server struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func clientOf(t *testing.T, kubeconfig string) *server {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &server{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))}
}

// dryRun has the API server check the object, with unknown fields refused, and keep nothing.
func (s *server) dryRun(ctx context.Context, obj *unstructured.Unstructured) error {
	gvk := obj.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return err
	}
	api := s.client.Resource(mapping.Resource)
	o := metav1.PatchOptions{FieldManager: "test", DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	at := dynamic.ResourceInterface(api)
	if ns := obj.GetNamespace(); ns != "" {
		at = api.Namespace(ns)
	}
	is, err := at.Patch(ctx, obj.GetName(), types.ApplyPatchType, data, o)
	if err != nil {
		return err
	}
	if is.GetName() != obj.GetName() || !strings.EqualFold(is.GetKind(), obj.GetKind()) {
		return fmt.Errorf("the answer is %s %s", is.GetKind(), is.GetName())
	}
	return nil
}
