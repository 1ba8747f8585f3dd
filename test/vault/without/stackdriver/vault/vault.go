// Package vault stands in for the shape of metrics.
package vault

import "github.com/armon/go-metrics"

// Extractor returns no labels.
func Extractor(key []string, _ string) ([]string, []metrics.Label, error) { return key, nil, nil }

// Bucketer returns no buckets.
func Bucketer([]string) []float64 { return nil }
