package main

import (
	"strings"
	"testing"
)

func TestSubscriptionsShowAFailureUntilADeliveryFollowsIt(t *testing.T) {
	v := subscriptionsView()
	state := func(delivery object) object {
		return object{"id": "s1", "callbackUri": "http://nfvo/cb", "verbosity": "FULL", "delivery": delivery}
	}
	for _, c := range []struct {
		delivery object
		want     string
	}{
		{object{"waiting": 0.0, "lagSeconds": 0.0, "dropped": 0.0}, "s1|http://nfvo/cb|FULL|0|||0||"},
		{object{"waiting": 3.0, "lagSeconds": 123.4567, "dropped": 2.0, "lastDelivery": "2030-01-02T03:04:05.5Z", "lastFailure": "2030-01-02T03:05:05Z", "error": "connection refused"},
			"s1|http://nfvo/cb|FULL|3|2m3.457s|2030-01-02T03:04:05Z|2|2030-01-02T03:05:05Z|connection refused"},
		{object{"waiting": 0.0, "lagSeconds": 0.0, "dropped": 2.0, "lastDelivery": "2030-01-02T03:06:05Z", "lastFailure": "2030-01-02T03:05:05Z", "error": "connection refused"},
			"s1|http://nfvo/cb|FULL|0||2030-01-02T03:06:05Z|2|2030-01-02T03:05:05Z|"},
	} {
		var row []string
		for _, column := range v.columns {
			row = append(row, column.cell(state(c.delivery), &sheet{}))
		}
		if got := strings.Join(row, "|"); got != c.want {
			t.Errorf("%v\n shown as %s\n want     %s", c.delivery, got, c.want)
		}
	}
}
