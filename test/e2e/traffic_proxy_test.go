package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// behind is how long the proxy gathers changes before it follows them, as kube-proxy does.
const behind = time.Second

// proxied is a client of the Service "front" where no kubelet and no kube-proxy run: each pod
// that is Ready has an HTTP server here, which ends as soon as the pod is to end, and requests are sent
// to the pods that the EndpointSlices of the real control plane named a second ago.
type proxied struct {
	mu      sync.Mutex
	servers map[string]*podServer // by the pod's name
	slices  map[string][]string   // the pods that are ready, by slice
	targets []string              // where requests go now
}

// podServer is the server of one pod.
type podServer struct {
	*http.Server
	address string
}

// client begins to ask the Service.
func (b *bench) client() *clients {
	b.Helper()
	p := &proxied{servers: map[string]*podServer{}, slices: map[string][]string{}}
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	b.Cleanup(func() {
		cancel()
		all.Wait()
		for _, s := range p.servers {
			_ = s.Close()
		}
	})
	pods, err := b.api.CoreV1().Pods(b.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	parts, err := b.api.DiscoveryV1().EndpointSlices(b.namespace).Watch(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=front"})
	if err != nil {
		b.Fatal(err)
	}
	all.Go(func() {
		for e := range pods.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				p.pod(b, e.Type, pod)
			}
		}
	})
	all.Go(func() {
		for e := range parts.ResultChan() {
			if slice, ok := e.Object.(*discoveryv1.EndpointSlice); ok {
				p.slice(e.Type, slice)
			}
		}
	})
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: kit.Patience}
	return b.clients(func(context.Context) (string, error) {
		address := p.target()
		if address == "" {
			return "", fmt.Errorf("the Service leads nowhere")
		}
		return answerOf(web, "http://"+address+"/")
	})
}

// target is the address of a pod's server to which a request goes now, "" where there is none.
func (p *proxied) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.targets); n > 0 {
		if s := p.servers[p.targets[rand.IntN(n)]]; s != nil {
			return s.address
		}
	}
	return ""
}

// pod starts the pod's server, and ends it when the pod is to end: a container without a preStop
// hook gets its signal then.
func (p *proxied) pod(b *bench, event watch.EventType, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.servers[pod.Name]
	switch ends := event == watch.Deleted || pod.DeletionTimestamp != nil; {
	case ends && s != nil:
		_ = s.Close()
	case !ends && s == nil:
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Error(err)
			return
		}
		version := pod.Labels["version"]
		s = &podServer{&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, version) })}, l.Addr().String()}
		p.servers[pod.Name] = s
		go func() { _ = s.Serve(l) }() // it ends with an error whenever it is closed
	}
}

func (p *proxied) slice(event watch.EventType, slice *discoveryv1.EndpointSlice) {
	var ready []string
	for _, e := range slice.Endpoints {
		if event != watch.Deleted && e.TargetRef != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
			ready = append(ready, e.TargetRef.Name)
		}
	}
	time.AfterFunc(behind, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.slices[slice.Name] = ready
		p.targets = nil
		for _, some := range p.slices {
			p.targets = append(p.targets, some...)
		}
	})
}

func answerOf(client *http.Client, url string) (string, error) {
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func TestAClientNoticesNoBlueGreenChangeWhoeverSwitchesTheService(t *testing.T) {
	for name, patch := range map[string]string{
		"nobody but Jibe":                      "",
		"a script, by the author's label":      naive(2),
		"a script, by the author's and Jibe's": "{'spec': {'selector': {'app': 'web', 'version': 'v2', '" + generationLabel + "': '1'}}}",
	} {
		t.Run(name, func(t *testing.T) {
			b := newStage(t)
			arriving, _ := b.byHand(1, 2)
			id := b.runs(b.vnfdID(1))
			c := b.client()
			more := []any{}
			if patch != "" {
				more = []any{"lcm-operation-coordinate-new-vnf", "Scripts/new.sh"}
			}
			path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green", more...))
			if patch != "" {
				arriving.called(1)
				b.patch("Service/front", "script", patch)
				kit.Pause(t.Context(), 2*behind) // the script stays a while with what it did
				arriving.answer(1, "exit 0")
			}
			b.await(t, path, "COMPLETED")
			kit.Pause(t.Context(), 2*behind)
			c.unnoticed("v1", "v2")
		})
	}
}
