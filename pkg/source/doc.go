// Package source reads facts about etcd clusters, from a Kubernetes API server or from files, into pkg/model.
//
// Reading is lenient: an object that somebody else has written may lack fields, hold numbers where strings belong, or
// states that this version does not know. What can't be understood is told as a Problem and is otherwise not known; it
// never makes the rest unreadable.
package source
