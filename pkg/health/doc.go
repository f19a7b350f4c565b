// Package health judges what is known of a cluster: it makes findings, and from them one verdict. It does no I/O and knows
// no clock: the same facts at the same time always get the same verdict.
//
// The rules, from which all else follows:
//   - What is not known is not healthy. A publication whose publisher has gone is not known.
//   - Quorum is counted from voters. A learner is none, and a member that has never started may be none.
//   - A verdict claims no more than the facts prove: quorum is Held or Lost only where no unknown fact could turn it.
package health
