package main

import (
	"strconv"
	"time"
)

// subscriptionsView shows who is notified, and how delivery goes.
func subscriptionsView() view {
	return view{
		use: "subscriptions", short: "Subscriptions to notifications, and how delivery to each goes",
		path: "/jibe/v1/subscriptions", one: "/jibe/v1/subscriptions/%s",
		columns: []string{"ID", "CALLBACK", "VERBOSITY", "WAITING", "LAG", "DELIVERED", "DROPPED", "FAILED", "WHY"},
		row: func(o object) []string {
			d := dig(o, "delivery")
			failure := ""
			// One that was followed by a delivery is over.
			if text(d, "lastFailure") != "" && !after(d, "lastDelivery", "lastFailure") {
				failure = reason(text(d, "error"))
			}
			return []string{text(o, "id"), text(o, "callbackUri"), text(o, "verbosity"), text(d, "waiting"), lag(d),
				second(text(d, "lastDelivery")), text(d, "dropped"), second(text(d, "lastFailure")), failure}
		},
	}
}

// lag is how old the oldest notification is that waits.
func lag(delivery object) string {
	seconds, err := strconv.ParseFloat(text(delivery, "lagSeconds"), 64)
	if err != nil || seconds == 0 {
		return ""
	}
	return (time.Duration(seconds * float64(time.Second))).Round(time.Millisecond).String()
}

// after says whether the time at one key of o comes after that at another.
func after(o object, one, other string) bool {
	a, err1 := time.Parse(time.RFC3339, text(o, one))
	b, err2 := time.Parse(time.RFC3339, text(o, other))
	return err1 == nil && err2 == nil && a.After(b)
}
