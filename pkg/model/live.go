package model

// Live is what came of asking one member.
type Live struct {
	// Endpoint says where it was asked.
	Endpoint string
	// Err is why it has not told its status. Empty: it has.
	Err string
	// NotAsked says that Err is ours, for example a missing permission: the member's silence proves nothing.
	NotAsked bool
	// Reached says that the connection got as far as the member's own network, where it was taken or refused: silence after
	// that is the member's. Where it did not, the member may serve others well.
	Reached bool
	// Refused says that it has answered, but does not permit to be asked.
	Refused bool
	// Serves says that it has answered a linearizable read, which takes a quorum. ServeErr is why not. A learner does not
	// answer them: both are empty then.
	Serves   bool
	ServeErr string
	// Learner says that it does not vote, by its own word.
	Learner bool
	// Leader is the ID of the member that it believes to lead. Empty: it knows none.
	Leader string
	// List is the membership as it sees it; nil: it has not told, for which ListErr is the reason.
	List    []Listed
	ListErr string
	// Alarms are the alarms of all members, as it has them.
	Alarms []Alarm
	// Complaints is what else it says is wrong.
	Complaints []string
	// Hash is a checksum of its keys; HashErr is why there is none. Both are empty where none was asked for.
	Hash    *Hash
	HashErr string
}

// Listed is an entry of a member list.
type Listed struct {
	// ID is lower-case hexadecimal.
	ID string
	// Name is empty until the member has first been started.
	Name                 string
	PeerURLs, ClientURLs []string
	Learner              bool
}

// Alarm is an alarm and the ID of the member that it is of.
type Alarm struct{ MemberID, Type string }

// Hash is a checksum of keys. Two compare only where both revisions are equal.
type Hash struct {
	Hash                      uint32
	Revision, CompactRevision int64
}

// Access is how clients reach the members of a cluster.
type Access struct {
	// Port is the client port, 2379 unless the workload says otherwise.
	Port int
	// TLS says whether clients must use it; TLSKnown whether the workload tells.
	TLS, TLSKnown bool
	// CASecret and CAKey are the Secret with the CA of the members' certificates, and the key in it; ClientSecret has the
	// client's certificate, as tls.crt and tls.key. All are in the cluster's namespace; empty: not told.
	CASecret, CAKey, ClientSecret string
	// Service is the headless Service that gives pods their DNS names. Empty: not known.
	Service string
}
