//go:build !race

package kit

// RaceDetector says whether the test was built with -race.
const RaceDetector = false
