//go:build !race

package race_test

const raceDetector = false
