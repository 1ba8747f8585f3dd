package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// askPause is that between two questions for one operation, endWait how long it may take.
	askPause = 50 * time.Millisecond
	endWait  = 5 * time.Minute
	// askers ask for the operations when the load has ended.
	askers = 16
)

// modify changes one instance of the fill, which is a commit and an operation.
func modify(w *wire, i int) (answer, error) {
	body := fmt.Sprintf(`{"vnfInstanceName":"load %d","metadata":{"by":"load"}}`, i)
	return w.want(http.StatusAccepted, http.MethodPatch, process.Instances+"/"+instanceID("fill", i), "application/merge-patch+json", body)
}
