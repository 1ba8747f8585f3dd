// Package ha runs several replicas of Jibe as an installation has them: the real binary, each
// with a data directory of its own, behind haproxy, with their records in a real Redis (one
// master, two replicas, three sentinels) and their repositories on a real git server. It can
// break each part, and proves with [load] that nothing that was acknowledged is lost.
//
// Environment variables steer its test: JIBE_HA_DURATION is how long things are broken (20s),
// JIBE_HA_SEED repeats the choices of a run (not its timing, which is the machine's),
// JIBE_HA_REPLICAS is how many replicas there are (3), JIBE_HA_FLUSH=1 also empties Redis.
//
// [load]: github.com/jibe-vnfm/jibe/test/load
package ha
