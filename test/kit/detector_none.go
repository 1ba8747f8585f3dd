//go:build !race

package kit

// RaceDetector reports whether the test was built with -race.
const RaceDetector = false
