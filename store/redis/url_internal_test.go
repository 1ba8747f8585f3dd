package redis

import "testing"

func TestWhatCrossesTheNetworkInClearIsKnown(t *testing.T) {
	for url, plain := range map[string]bool{
		"redis://redis.db:6379/0":                           true,
		"redis://10.1.2.3":                                  true,
		"redis://[fd00::1]":                                 true,
		"redis+sentinel://127.0.0.1,s2.example?master=jibe": true,
		"redis+cluster://c1,c2":                             true,
		"redis://localhost":                                 false,
		"redis://127.0.0.1:6380":                            false,
		"redis://me@[::1]:6379":                             false,
		"rediss://redis.db":                                 false,
		"rediss+sentinel://s1,s2?master=jibe":               false,
		"unix:///run/redis.sock":                            false,
	} {
		p, err := parse(Options{URL: url})
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if p.plain != plain {
			t.Errorf("%s: read on the way: %t, want %t", url, p.plain, plain)
		}
	}
}
