package kubernetes

import (
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

// dialTimeout bounds the making of one connection.
const dialTimeout = 30 * time.Second

// bound is how much of an answer is read: lists may come whole from the API server's cache. Of a
// watch each event has a bound, which is several times that of an object.
func bound() egress.AnswerBound {
	return egress.AnswerBound{Most: 256 << 20, Value: 16 << 20, IsStream: func(r *http.Request) bool {
		watch := r.URL.Query().Get("watch")
		return watch == "true" || watch == "1"
	}}
}

// guard has the connections of config judged. A proxy that a kubeconfig names stays: without
// leave for it such a kubeconfig was refused already. Credentials go to servers with TLS alone,
// as the library has it.
func guard(config *rest.Config, g *egress.Guard) {
	if config.Dial == nil {
		config.Dial = g.DialContext(dialTimeout)
	}
	if config.Proxy == nil {
		config.Proxy = g.ProxyFor
	}
}
