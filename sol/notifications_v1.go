package sol

import (
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/notify"
	v1 "github.com/jibe-vnfm/jibe/sol/v1"
)

// NotificationsV1 is /vnflcm/v1 for [notify.Config].APIs: who subscribes there is notified in
// the form of SOL003 v2.6.1.
func NotificationsV1() notify.API {
	api := notify.LifecycleAPI(rootV1, versionsV1()[0], nil)
	current := api.Notification
	api.Notification = func(sub *notify.Subscription, base string, e oplog.Event) (any, error) {
		n, err := current(sub, base, e)
		if err != nil {
			return nil, err
		}
		return v1.Notification(n)
	}
	return api
}
