// Package model holds what is known of etcd clusters and their members: facts, each with its source and its time.
//
// It does no I/O and imports no other package of this project but the API types, so that everything that judges or
// decides can be tested on values alone. A fact that nobody has observed is not there: there are no defaults that could
// be mistaken for an observation.
package model
