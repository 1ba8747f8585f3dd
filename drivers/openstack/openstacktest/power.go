package openstacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// powering is what Nova does with the power of a server, and when that ends.
type powering struct {
	task, to string
	ends     time.Time
}

// actOnServer answers os-stop and os-start, which Nova takes only of a server that it does
// nothing else with.
func (c *Cloud) actOnServer(in *call) answer {
	s, found := c.servers.get(in.path[1])
	if !found {
		return fail(Nova, http.StatusNotFound, "", "Instance "+in.path[1]+" could not be found.")
	}
	var asked map[string]json.RawMessage
	if err := json.Unmarshal(in.body, &asked); err != nil || len(asked) != 1 {
		return fail(Nova, http.StatusBadRequest, "", "There is no such action: ")
	}
	for action := range asked {
		var p *powering
		var verb string
		var allowed []string
		switch action {
		case "os-stop":
			verb, allowed, p = "stop", []string{"ACTIVE", "ERROR"}, &powering{task: "powering-off", to: "SHUTOFF"}
		case "os-start":
			verb, allowed, p = "start", []string{"SHUTOFF"}, &powering{task: "powering-on", to: "ACTIVE"}
		default:
			return fail(Nova, http.StatusBadRequest, "", "There is no such action: "+action)
		}
		if s.power != nil {
			return fail(Nova, http.StatusConflict, "", fmt.Sprintf("Cannot '%s' instance %s while it is in task_state %s", verb, s.id, s.power.task))
		}
		if !slices.Contains(allowed, s.status) {
			return fail(Nova, http.StatusConflict, "", fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", verb, s.id, novaStates[s.status][0]))
		}
		p.ends = time.Now().Add(c.opts.Delay)
		s.power = p
		c.turning = append(c.turning, s)
	}
	return answer{status: http.StatusAccepted}
}

// turnPower ends what is due.
func (c *Cloud) turnPower(now time.Time) {
	c.turning = slices.DeleteFunc(c.turning, func(s *server) bool {
		if s.power.ends.After(now) {
			return false
		}
		s.status, s.updated, s.power = s.power.to, now, nil
		return true
	})
}
