// Package etcd is the narrow seam between this project and etcd: a Client talks to exactly one member, asks what a
// single member can answer, and says in typed errors what it could not.
//
// It speaks etcd's v3 API by its generated stubs and not through etcd's own client library, for three reasons. That
// library's Status and HashKV dial a connection of their own for every call, a TLS handshake each; its calls are
// retried up to a hundred times behind the caller's back; and it spreads calls over endpoints, while all questions
// here are about one member. A Client keeps one connection, tries once, and never outlives a call's timeout.
//
// What must not be done with a member, so that asking is always harmless:
//   - alarms are read from Status.Errors. The Alarm call writes to the raft log, even to read, and hangs without quorum.
//   - a member list "as this member sees it" is serializable. The linearizable one is the same everywhere and hangs
//     without quorum.
//   - a learner answers only Status and serializable reads. IsNotSupportedForLearner tells that from an error.
package etcd
