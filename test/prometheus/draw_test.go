package prometheus

import "testing"

func draw(t *testing.T, p *prometheus, instance string) { _, _, _ = t, p, instance }
