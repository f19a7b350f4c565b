package source

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// Clusters are the etcd clusters in the set, sorted, with all that the set says about each: those that EtcdMembers belong
// to, all Etcds, and of the StatefulSets, which may run anything, those that are named.
func (s *Set) Clusters(statefulSets ...model.Key) []model.Cluster {
	s.once()
	b := &builder{Set: s, clusters: map[model.Key]*cluster{}, readAt: s.at}
	if b.readAt.IsZero() {
		b.readAt, _ = s.Now()
	}
	b.index()
	b.etcdMembers()
	for i := range b.etcds {
		b.etcd(&b.etcds[i])
	}
	for _, key := range b.expand(statefulSets) {
		b.named(key)
	}
	for _, c := range b.clusters {
		b.workload(c)
		b.podsAndClaims(c)
	}
	keys := slices.SortedFunc(maps.Keys(b.clusters), model.Key.Compare)
	clusters := make([]model.Cluster, 0, len(keys))
	for _, k := range keys {
		c := b.clusters[k]
		for _, m := range c.members {
			c.Members = append(c.Members, *m)
		}
		model.SortMembers(c.Members)
		clusters = append(clusters, c.Cluster)
	}
	return clusters
}

// builder puts the objects of a set together to clusters.
type builder struct {
	*Set
	clusters map[model.Key]*cluster
	// readAt is when objects that do not say when they were observed were.
	readAt time.Time

	// By namespace/name, and by name.
	sets   map[string]*statefulSetObject
	druids map[string]*etcdObject
	// prefixed are the Etcds with a member name prefix, by namespace/prefix-name, which is what their members' names begin with.
	prefixed       map[string]*etcdObject
	claimsByName   map[string]*claimObject
	snapshotLeases map[string]*leaseObject
	volumesByName  map[string]*volumeObject
	// By namespace/name of the cluster that they belong to.
	memberLeases map[string][]*leaseObject
	podsOf       map[string][]*podObject
	tasksOf      map[string][]*taskObject
	// By namespace.
	claimsOf map[string][]*claimObject
	// mounted are the claims that any pod uses, by namespace/name.
	mounted map[string]bool
}

// cluster is a cluster that is being put together.
type cluster struct {
	model.Cluster
	members []*model.Member
	byPod   map[string]*model.Member
	etcd    *etcdObject
	set     *statefulSetObject
}

func (b *builder) cluster(key model.Key) *cluster {
	c := b.clusters[key]
	if c == nil {
		c = &cluster{Cluster: model.Cluster{Key: key}, byPod: map[string]*model.Member{}}
		if key.Kind == model.KindEtcd {
			c.etcd = b.druids[key.Namespace+"/"+key.Name]
		}
		b.clusters[key] = c
	}
	return c
}

// member returns the member that runs in a pod, and makes it where there is none yet.
func (c *cluster) member(pod string) *model.Member {
	m := c.byPod[pod]
	if m == nil {
		m = &model.Member{Name: c.memberName(pod), Pod: pod}
		c.add(m)
	}
	return m
}

func (c *cluster) add(m *model.Member) {
	c.members = append(c.members, m)
	c.byPod[m.Pod] = m
}

// memberName is the name of the member in a pod: the pod's, with the Etcd's spec.memberNamePrefix before it.
func (c *cluster) memberName(pod string) string {
	if c.etcd != nil {
		if prefix := c.etcd.Spec.Value.MemberNamePrefix.Value; prefix != "" {
			return prefix + "-" + pod
		}
	}
	return pod
}

// podName is memberName the other way round.
func (c *cluster) podName(member string) string {
	if c.etcd != nil {
		if prefix := c.etcd.Spec.Value.MemberNamePrefix.Value; prefix != "" {
			return strings.TrimPrefix(member, prefix+"-")
		}
	}
	return member
}

func (c *cluster) problem(subject string, err error) {
	c.Problems = append(c.Problems, model.Problem{Subject: subject, Err: err})
}

// index sorts the set's objects by what they are looked up by.
func (b *builder) index() {
	b.sets, b.druids = map[string]*statefulSetObject{}, map[string]*etcdObject{}
	for i := range b.statefulSets {
		b.sets[b.statefulSets[i].Metadata.key()] = &b.statefulSets[i]
	}
	b.prefixed = map[string]*etcdObject{}
	for i := range b.etcds {
		e := &b.etcds[i]
		b.druids[e.Metadata.key()] = e
		if prefix := e.Spec.Value.MemberNamePrefix.Value; prefix != "" {
			b.prefixed[e.Metadata.Namespace.Value+"/"+prefix+"-"+e.Metadata.Name.Value] = e
		}
	}
	b.podsOf = map[string][]*podObject{}
	b.mounted = map[string]bool{}
	for i := range b.pods {
		p := &b.pods[i]
		for _, v := range p.Spec.Value.Volumes.Value {
			b.mounted[p.Metadata.Namespace.Value+"/"+v.Value.Claim.Value.Name.Value] = true
		}
		if set, ok := podSet(p); ok {
			key := p.Metadata.Namespace.Value + "/" + set
			b.podsOf[key] = append(b.podsOf[key], p)
		}
	}
	b.claimsByName, b.claimsOf = map[string]*claimObject{}, map[string][]*claimObject{}
	for i := range b.claims {
		c := &b.claims[i]
		b.claimsByName[c.Metadata.key()] = c
		b.claimsOf[c.Metadata.Namespace.Value] = append(b.claimsOf[c.Metadata.Namespace.Value], c)
	}
	b.volumesByName = map[string]*volumeObject{}
	for i := range b.volumes {
		b.volumesByName[b.volumes[i].Metadata.Name.Value] = &b.volumes[i]
	}
	b.tasksOf = map[string][]*taskObject{}
	for i := range b.tasks {
		t := &b.tasks[i]
		key := t.Metadata.Namespace.Value + "/" + t.Spec.Value.EtcdName.Value
		b.tasksOf[key] = append(b.tasksOf[key], t)
	}
	b.memberLeases, b.snapshotLeases = map[string][]*leaseObject{}, map[string]*leaseObject{}
	for i := range b.leases {
		l := &b.leases[i]
		switch l.Metadata.Labels.Value[v1alpha1.LabelComponent] {
		case componentSnapshotLease:
			b.snapshotLeases[l.Metadata.key()] = l
		case componentMemberLease:
			of := l.Metadata.Namespace.Value + "/" + leaseCluster(l)
			b.memberLeases[of] = append(b.memberLeases[of], l)
		}
	}
}

// leaseCluster is the Etcd that a Lease belongs to.
func leaseCluster(l *leaseObject) string {
	if c := l.Metadata.controller(); c.Kind == string(model.KindEtcd) {
		return c.Name
	}
	return l.Metadata.Labels.Value[v1alpha1.LabelPartOf]
}

// podSet is the StatefulSet that a pod belongs to, by its owner, or where the set was deleted without its pods, by its name.
func podSet(p *podObject) (string, bool) {
	owner := p.Metadata.controller()
	switch {
	case owner.Kind == string(model.KindStatefulSet):
		return owner.Name, true
	case owner.Kind != "":
		return "", false
	}
	name := p.Metadata.Name.Value
	if base := ordinal.ReplaceAllString(name, ""); base != name {
		return base, true
	}
	return "", false
}

// etcdMembers adds the clusters of the set's EtcdMembers.
func (b *builder) etcdMembers() {
	heartbeats := b.heartbeats()
	for i := range b.members {
		o := &b.members[i]
		if !o.Metadata.Name.OK {
			b.problem("an EtcdMember", fmt.Errorf("it has no name"))
			continue
		}
		c := b.cluster(b.resolve(clusterKey(o)))
		m, problems := member(o)
		if o.Spec.Value.PodName.Value == "" {
			m.Pod = c.podName(m.Name)
		}
		c.Problems = append(c.Problems, problems...)
		lease, ok := heartbeats[c.Key.Namespace+"/"+v1alpha1.HeartbeatLeaseName(m.Name)]
		switch {
		case ok:
			m.Heartbeat = lease
		case b.leasesRead:
			m.NoHeartbeat = true
		}
		c.add(&m)
	}
}

// resolve finds the cluster that an EtcdMember means: an Etcd of the name where it names no kind, and the Etcd where it names
// the StatefulSet that an Etcd has made. Two EtcdMembers may name the same cluster in two ways.
func (b *builder) resolve(key model.Key) model.Key {
	of := key.Namespace + "/" + key.Name
	var e *etcdObject
	switch key.Kind {
	case "":
		e = cmp.Or(b.druids[of], b.prefixed[of])
	case model.KindStatefulSet:
		e = b.etcdOf(of)
	}
	if e != nil {
		key.Kind, key.Name = model.KindEtcd, e.Metadata.Name.Value
	}
	return key
}

// etcdOf is the Etcd that a StatefulSet is of. Where the StatefulSet is not known, that is the one of its name. Nil: none is
// known.
func (b *builder) etcdOf(set string) *etcdObject {
	o := b.sets[set]
	if o == nil {
		return b.druids[set]
	}
	owner := o.Metadata.controller()
	if owner.Kind != string(model.KindEtcd) {
		return nil
	}
	return b.druids[o.Metadata.Namespace.Value+"/"+owner.Name]
}

// etcd adds the cluster of an Etcd: what druid's objects say of it and of its members.
func (b *builder) etcd(o *etcdObject) {
	if !o.Metadata.Name.OK {
		b.problem("an Etcd", fmt.Errorf("it has no name"))
		return
	}
	key := model.Key{Namespace: o.Metadata.Namespace.Value, Kind: model.KindEtcd, Name: o.Metadata.Name.Value}
	c := b.cluster(key)
	subject := "Etcd " + o.Metadata.key()
	r := reader{subject: subject, source: model.SourceEtcdStatus, at: b.readAt}
	bad(&r, "spec", o.Spec)
	bad(&r, "spec.replicas", o.Spec.Value.Replicas)
	bad(&r, "spec.etcd", o.Spec.Value.Etcd)
	bad(&r, "spec.etcd.quota", o.Spec.Value.Etcd.Value.Quota)
	bad(&r, "spec.etcd.clientPort", o.Spec.Value.Etcd.Value.ClientPort)
	bad(&r, "spec.etcd.clientUrlTls", o.Spec.Value.Etcd.Value.ClientURLTLS)
	bad(&r, "spec.storageCapacity", o.Spec.Value.StorageCapacity)
	bad(&r, "status", o.Status)
	bad(&r, "status.conditions", o.Status.Value.Conditions)
	bad(&r, "status.members", o.Status.Value.Members)

	c.Etcd = model.Known(o.etcd(), model.SourceEtcdStatus, b.readAt)
	c.Access, c.PeerTLSWanted = o.access(), o.peerTLS()
	c.backups(b, o)
	for _, t := range b.tasksOf[o.Metadata.key()] {
		if t.unfinished() {
			c.Tasks = append(c.Tasks, t.task())
		}
	}

	for _, l := range b.memberLeases[key.Namespace+"/"+key.Name] {
		facts, problems := memberLease(l)
		c.Problems = append(c.Problems, problems...)
		m := c.member(c.podName(l.Metadata.Name.Value))
		m.Lease, m.LeaseRole, m.PeerTLSConfigured = facts.Lease, facts.LeaseRole, facts.PeerTLSConfigured
		m.ID, m.ClusterID = model.Merge(m.ID, facts.ID), model.Merge(m.ClusterID, facts.ClusterID)
	}
	listed := map[string]bool{}
	for _, l := range o.Status.Value.Members.Value {
		if bad(&r, "an entry of status.members", l) || !l.Value.Name.OK {
			continue
		}
		bad(&r, "the ID of "+l.Value.Name.Value+" in status.members", l.Value.ID)
		m := c.member(c.podName(l.Value.Name.Value))
		listed[m.Pod] = true
		m.EtcdStatus = model.Known(model.EtcdStatusMember{
			ID: string(l.Value.ID.Value), Role: l.Value.Role.Value, Status: l.Value.Status.Value, Reason: l.Value.Reason.Value,
			Since: time.Time(l.Value.LastTransitionTime.Value),
		}, model.SourceEtcdStatus, b.readAt)
	}
	c.Problems = append(c.Problems, r.problems...)
	for _, m := range c.members {
		m.NotInEtcdStatus = o.Status.OK && !listed[m.Pod]
		m.NoLease = b.leasesRead && !m.Lease.Known()
	}
}

// backups adds what backups are wanted, and the last that were taken.
func (c *cluster) backups(b *builder, o *etcdObject) {
	backups, wanted := o.backups()
	if !wanted {
		return
	}
	var newest time.Time
	for name, to := range map[string]*model.Snapshot{"-full-snap": &backups.Full, "-delta-snap": &backups.Delta} {
		l := b.snapshotLeases[o.Metadata.key()+name]
		if l == nil {
			to.Unreadable = "there is no Lease " + c.Key.Name + name
			if !b.leasesRead {
				to.Unreadable = "Lease " + c.Key.Name + name + " was not read"
			}
			continue
		}
		*to = snapshotLease(l)
		if to.Unreadable != "" {
			c.problem(l.subject(), fmt.Errorf("%s", to.Unreadable))
		}
		if to.Time.After(newest) {
			newest = to.Time
		}
	}
	c.Backups = model.Known(backups, model.SourceSnapshotLease, newest)
}

// expand finds the StatefulSets that are named without their namespace.
func (b *builder) expand(keys []model.Key) []model.Key {
	var expanded []model.Key
	for _, key := range keys {
		if key.Namespace != "" {
			expanded = append(expanded, key)
			continue
		}
		namespaces := map[string]bool{}
		for i := range b.statefulSets {
			if o := &b.statefulSets[i]; o.Metadata.Name.Value == key.Name {
				namespaces[o.Metadata.Namespace.Value] = true
			}
		}
		for of := range b.podsOf {
			if namespace, set, _ := strings.Cut(of, "/"); set == key.Name {
				namespaces[namespace] = true
			}
		}
		for _, ns := range slices.Sorted(maps.Keys(namespaces)) {
			expanded = append(expanded, model.Key{Namespace: ns, Kind: model.KindStatefulSet, Name: key.Name})
		}
	}
	return expanded
}

// named adds the cluster of a StatefulSet that somebody has named, unless it is an Etcd's that is known or there is nothing
// of it.
func (b *builder) named(key model.Key) {
	of := key.Namespace + "/" + key.Name
	set := b.sets[of]
	switch {
	case set == nil && len(b.podsOf[of]) == 0, b.druids[of] != nil, b.etcdOf(of) != nil:
		return
	case set != nil && b.clusters[model.Key{Namespace: key.Namespace, Kind: model.Kind(set.Metadata.controller().Kind), Name: set.Metadata.controller().Name}] != nil:
		return // EtcdMembers whose Etcd is not known
	case b.clusters[model.Key{Namespace: key.Namespace, Name: key.Name}] != nil:
		return // EtcdMembers that do not say what their cluster is
	}
	b.cluster(key)
}

// workload adds what the objects that run a cluster's pods say.
func (b *builder) workload(c *cluster) {
	key := c.Key.Namespace + "/" + c.Key.Name
	c.set = b.sets[key]
	if c.set != nil {
		c.Set = model.Known(c.set.set(), model.SourceWorkload, b.readAt)
		c.FirstOrdinal = int(c.set.Spec.Value.Ordinals.Value.Start.Value)
	} else {
		c.NoSet = b.workloadsRead && c.Key.Kind != ""
	}
	quota := model.Fact[int64]{}
	switch {
	case c.Key.Kind == model.KindEtcd && c.etcd != nil:
		if r := c.etcd.Spec.Value.Replicas; r.OK {
			c.Wanted = model.Known(int(r.Value), model.SourceWorkload, time.Time{})
		}
		quota = c.etcd.quota()
	case c.Key.Kind == model.KindStatefulSet && c.set != nil:
		if n, ok := c.set.replicas(); ok {
			c.Wanted = model.Known(n, model.SourceWorkload, time.Time{})
		}
		c.Access, c.PeerTLSWanted = c.set.access(), c.set.peerTLS()
		quota = c.set.quota()
	case b.workloadsRead && c.Key.Kind != "":
		c.problem(fmt.Sprintf("%s %s", c.Key.Kind, key), fmt.Errorf("there is no such object, so how many members are wanted is not known"))
	}
	c.quota(quota)
}

func (c *cluster) quota(q model.Fact[int64]) {
	for _, m := range c.members {
		m.DBSizeQuota = model.Merge(m.DBSizeQuota, q)
	}
}

// podsAndClaims adds what the pods and the claims of a cluster say.
func (b *builder) podsAndClaims(c *cluster) {
	key := c.Key.Namespace + "/" + c.Key.Name
	pods := map[string]*podObject{}
	for _, p := range b.podsOf[key] {
		name := p.Metadata.Name.Value
		if ordinal.ReplaceAllString(name, "") == c.Key.Name {
			pods[name] = p
			c.member(name)
		}
	}
	c.PodsRead = b.podsRead[c.Key]
	templates := c.claimTemplates()
	// Where pods of wanted members are missing, there is still a row of each: by its Lease, or added when it is judged.
	for _, m := range c.members {
		p := pods[m.Pod]
		if p == nil {
			m.NoPod = c.PodsRead
		} else {
			b.pod(c, m, p)
		}
		b.claim(c, m, p, templates)
		m.NotInEtcdStatus = m.NotInEtcdStatus || (c.etcd != nil && c.etcd.Status.OK && !m.EtcdStatus.Known())
		m.NoLease = m.NoLease || (c.etcd != nil && b.leasesRead && !m.Lease.Known())
	}
	b.looseClaims(c, templates)
}

// pod adds what a member's pod says.
func (b *builder) pod(c *cluster, m *model.Member, o *podObject) {
	p := o.pod()
	m.PodState = model.Known(p, model.SourcePod, b.readAt)
	if !m.HasEtcdMember {
		m.Created = p.Created
		m.Labels = o.Metadata.Labels.Value
	}
	if c.etcd == nil || !p.Etcd.Ready {
		return
	}
	// The readiness probe of druid's etcd is a linearizable read (etcd-wrapper's /readyz), which a learner does not answer:
	// whoever is ready is a voter that has started.
	m.State = model.Merge(m.State, model.Known(string(v1alpha1.StateStarted), model.SourcePod, b.readAt))
}

// claimTemplates are the names of the templates of the cluster's claims.
func (c *cluster) claimTemplates() []string {
	switch {
	case c.set != nil:
		return c.set.claimTemplates()
	case c.etcd != nil:
		return []string{c.etcd.claimTemplate()}
	default:
		return nil
	}
}

// claim adds what the claim of a member's data says: the one that its pod uses, or where there is no pod, the one that a
// pod of its name would.
func (b *builder) claim(c *cluster, m *model.Member, p *podObject, templates []string) {
	var claims []podClaim
	if p != nil {
		claims = p.usedClaims()
	} else {
		for _, t := range templates {
			claims = append(claims, podClaim{t, t + "-" + m.Pod})
		}
		claims = dataFirst(claims, "")
	}
	for i, c1 := range claims {
		o := b.claimsByName[c.Key.Namespace+"/"+c1.claim]
		switch {
		case o == nil && i == 0:
			m.NoClaim = b.claimsRead[c.Key]
		case o == nil:
		case i == 0:
			m.Claim = model.Known(b.readClaim(o), model.SourceClaim, b.readAt)
		default:
			m.OtherClaims = append(m.OtherClaims, b.readClaim(o))
		}
	}
}

func (b *builder) readClaim(o *claimObject) model.Claim {
	claim := o.claim()
	if v := b.volumesByName[claim.Volume]; v != nil {
		claim.ReclaimPolicy, claim.Handle = v.Spec.Value.ReclaimPolicy.Value, v.Spec.Value.CSI.Value.VolumeHandle.Value
		claim.Capacity = cmp.Or(claim.Capacity, int64(v.Spec.Value.Capacity.Value.Storage.Value))
	}
	return claim
}

var wholeOrdinal = regexp.MustCompile(`^\d+$`)

// looseClaims adds the claims that look like the cluster's and that no member has.
func (b *builder) looseClaims(c *cluster, templates []string) {
	if c.Wanted.Or(0) == 0 {
		return // hibernated, or nobody knows what is wanted: nothing is left over
	}
	used := map[string]bool{}
	for _, m := range c.members {
		used[m.Claim.Value.Name] = true
		for _, other := range m.OtherClaims {
			used[other.Name] = true
		}
		for _, t := range templates {
			used[t+"-"+m.Pod] = true
		}
	}
	// The claim of a wanted member that has no pod yet is waiting for it.
	wanted := func(ordinal string) bool {
		n, err := strconv.Atoi(ordinal)
		return err == nil && n >= c.FirstOrdinal && n < c.FirstOrdinal+c.Wanted.Or(0)
	}
	for _, o := range b.claimsOf[c.Key.Namespace] {
		name := o.Metadata.Name.Value
		if used[name] {
			continue
		}
		for _, t := range templates {
			if rest, ok := strings.CutPrefix(name, t+"-"+c.Key.Name+"-"); ok && wholeOrdinal.MatchString(rest) && !wanted(rest) && !b.mounted[o.Metadata.key()] {
				c.LooseClaims = append(c.LooseClaims, b.readClaim(o))
			}
		}
	}
}
