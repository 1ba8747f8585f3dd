package main

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// subscriptionsView shows who is notified, and how delivery goes.
func subscriptionsView() view {
	at := func(key string) func(o object, _ *sheet) string {
		return func(o object, _ *sheet) string { return text(o, key) }
	}
	delivery := func(key string) func(o object, _ *sheet) string {
		return func(o object, _ *sheet) string { return text(dig(o, "delivery"), key) }
	}
	return view{
		use: "subscriptions", short: "Subscriptions to notifications, and how delivery to each goes",
		example:     "  jibe get subscriptions\n  jibe get subscriptions --state failing -o json",
		showExample: "  jibe get subscription 0b5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b01",
		one:         "/jibe/v1/subscriptions/%s",
		flags:       []string{"state"}, states: "delivered, waiting, failing",
		list: func(c *client, ctx context.Context, q *selection, _ string) (*page, error) {
			if err := known("state", q.states(), []string{"DELIVERED", "WAITING", "FAILING"}); err != nil {
				return nil, err
			}
			list, err := c.list(ctx, "/jibe/v1/subscriptions")
			return &page{list: slices.DeleteFunc(list, func(o object) bool { return !q.in(deliveryState(o)) })}, err
		},
		name: func(o object) string { return text(o, "id") },
		columns: []column{
			{title: "ID", cell: at("id")},
			{title: "CALLBACK", cell: at("callbackUri")},
			{title: "VERBOSITY", cell: at("verbosity")},
			{title: "WAITING", cell: delivery("waiting")},
			{title: "LAG", cell: func(o object, _ *sheet) string { return lag(dig(o, "delivery")) }},
			{title: "DELIVERED", cell: func(o object, s *sheet) string { return s.ago(text(dig(o, "delivery"), "lastDelivery")) }},
			{title: "DROPPED", cell: delivery("dropped")},
			{title: "FAILED", cell: func(o object, s *sheet) string { return s.ago(text(dig(o, "delivery"), "lastFailure")) }},
			{title: "WHY", cell: func(o object, _ *sheet) string {
				if deliveryState(o) != "failing" {
					return ""
				}
				return reason(text(dig(o, "delivery"), "error"))
			}},
		},
	}
}

// deliveryState is how delivery to a subscription goes: "failing", "waiting" or "delivered". A
// failure that was followed by a delivery is over.
func deliveryState(o object) string {
	d := dig(o, "delivery")
	switch {
	case text(d, "lastFailure") != "" && !after(d, "lastDelivery", "lastFailure"):
		return "failing"
	case text(d, "waiting") != "" && text(d, "waiting") != "0":
		return "waiting"
	}
	return "delivered"
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
