// Package agent runs beside one etcd member and publishes what only that member can know as the status of its EtcdMember.
//
// This is the first cut, sidecar mode: somebody else starts etcd, the agent only watches and publishes. Its parts:
//
//	observer   asks etcd and the file system every poll interval     I/O
//	core       what is known, judged: facts, Ready, transitions      pure, no I/O, takes the time as an argument
//	follower   finds this member's EtcdMember and watches it         I/O
//	publisher  decides by core when to write, and writes             I/O
//	identifier finds out which volume the data is on                 I/O, until it knows
//	heartbeat  renews the member's Lease                             I/O
//
// Rules that the package keeps:
//   - It creates nothing. No EtcdMember: it waits for one. No Lease: it says so and waits.
//   - It never blocks etcd: one question at a time, each with a timeout, none that writes to the raft log.
//   - What etcd does not say any more stays published as it last was, and Ready says since when that is.
//   - The heartbeat vouches for the status. While a change can't be published, the Lease is not renewed: a reader must not
//     take an old status for a fresh one because its publisher lives.
//   - However wildly a member's state flaps and however long the API server is away, the number of writes is bounded.
//
// Time is read from package time throughout. Tests of loops run in bubbles of testing/synctest, where it is virtual.
package agent
