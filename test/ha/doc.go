// Package ha runs several replicas of Jibe as an installation has them: the real binary, each
// with a data directory of its own, behind haproxy, with their records in a real Redis (one
// master, two replicas, three sentinels) and their repositories on a real git server. It can
// break each part, and proves with [load] that nothing that was acknowledged is lost.
//
// Environment variables steer its test: JIBE_HA_DURATION is how long things are broken (20s),
// JIBE_HA_SEED repeats the choices of a run (not its timing, which is the machine's),
// JIBE_HA_REPLICAS is how many replicas there are (3), JIBE_HA_FROM is the commit or tag from which
// they are upgraded (by default the newest release that lets several serve, and where there is none
// the same source by another name), JIBE_HA_BINARY a binary instead of this source's, whose clock
// can't be moved.
//
// [load]: github.com/jibe-vnfm/jibe/test/load
package ha
