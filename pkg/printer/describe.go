package printer

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// WriteMember prints all that is known of one member, with who has told it and when, and what was found.
func WriteMember(w io.Writer, r health.Report, m health.MemberReport, o StatusOptions) error {
	d := description{}
	d.line("Name", m.Name)
	d.line("Namespace", r.Key.Namespace)
	d.line("Cluster", r.Key.Argument())
	d.line("Pod", m.Pod)
	word := string(m.Health)
	if o.Color {
		word = paint(word)
	}
	d.styled("Health", word)
	if m.Reason != "" {
		d.line("Reason", m.Reason)
		d.line("Message", m.Message)
	}
	d.line("Role", orUnknown(m.Role))
	d.line("State", m.State.Or(unknown))
	d.line("Sub-State", m.SubState.Or("<none>"))
	d.line("ID", m.ID.Or(unknown))
	d.line("Cluster ID", m.ClusterID.Or(unknown))
	d.line("Version", m.Version.Or(unknown))
	d.line("Peer TLS", onOff(m.PeerTLS))
	if m.PeerTLSConfigured.Known() || r.PeerTLSWanted.Known() {
		d.line("  Configured", onOff(m.PeerTLSConfigured))
		d.line("  Wanted", onOff(r.PeerTLSWanted))
	}
	d.line("Alarms", alarms(m, r.At))
	d.section("Database")
	d.line("  Size", size(m.DBSize))
	d.line("  In Use", size(m.DBSizeInUse))
	d.line("  Quota", size(m.DBSizeQuota)+" ("+share(m.DBSize, m.DBSizeQuota)+" used)")
	d.line("  Revision", whole(m.Revision))
	d.section("Raft")
	d.line("  Term", whole(m.RaftTerm))
	d.line("  Index", whole(m.RaftIndex))
	d.line("  Applied", whole(m.RaftAppliedIndex))
	d.line("  Lag", whole(m.Lag))
	d.section("Volume")
	if v, ok := m.Volume.Get(); ok {
		d.line("  Claim", orUnknown(v.Claim))
		d.line("  Claim UID", orUnknown(v.ClaimUID))
		d.line("  Volume", orUnknown(v.Name))
		d.line("  Handle", orUnknown(v.Handle))
		d.line("  Storage Class", orUnknown(v.StorageClass))
		d.line("  Capacity", Bytes(v.Capacity))
		if v.AvailableKnown {
			d.line("  Available", Bytes(v.Available))
		}
	} else {
		d.line("  Claim", unknown)
	}
	d.observed(r, m)
	d.section("Told")
	d.line("  By", orUnknown(string(m.Basis)))
	if at, ok := m.Published.Get(); ok {
		d.line("  Published", at.UTC().Format("2006-01-02T15:04:05Z")+" ("+since(at, r.At)+" ago)")
	}
	d.line("  Last Seen", ago(seen(lastSeen(m.Member), r.At)))
	if c, ok := m.Ready.Get(); ok {
		ready := fmt.Sprintf("%s (%s), for %s", c.Status, c.Reason, since(c.Since, r.At))
		if c.Message != "" {
			ready += ": " + c.Message
		}
		d.line("Ready", ready)
	}
	if _, err := io.WriteString(w, d.String()); err != nil {
		return err
	}

	findings := slices.DeleteFunc(slices.Clone(r.Findings), func(f health.Finding) bool { return f.Subject != m.Name })
	if _, err := fmt.Fprintf(w, "Findings:%s\n", noneIf(len(findings) == 0)); err != nil {
		return err
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "  %s %s: %s\n", strings.ToUpper(string(f.Severity)), f.Code, Sanitize(f.Message)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(w, "Transitions:%s\n", noneIf(len(m.Transitions) == 0)); err != nil {
		return err
	}
	if len(m.Transitions) == 0 {
		return nil
	}
	only := r
	only.Members = []health.MemberReport{m}
	var table strings.Builder
	if err := WriteTimeline(&table, Timeline([]health.Report{only}), r.At, StatusOptions{}); err != nil {
		return err
	}
	_, err := io.WriteString(w, indent(table.String()))
	return err
}

// observed describes what is known of a member from outside of it, and what it has answered.
func (d *description) observed(r health.Report, m health.MemberReport) {
	if c, ok := m.Claim.Get(); ok {
		d.section("Claim")
		d.line("  Name", c.Name)
		d.line("  UID", orUnknown(c.UID))
		d.line("  Phase", orUnknown(c.Phase))
		if !c.Deleting.IsZero() {
			d.line("  Being Deleted", "for "+since(c.Deleting, r.At))
		}
		d.line("  Volume", orUnknown(c.Volume))
		d.line("  Reclaim Policy", orUnknown(c.ReclaimPolicy))
		d.line("  Storage Class", orUnknown(c.StorageClass))
		d.line("  Requested", Bytes(c.Requested))
	}
	if p, ok := m.PodState.Get(); ok {
		d.section("Pod Status")
		d.line("  Phase", orUnknown(p.Phase)+reason(p.Reason))
		d.line("  Node", orUnknown(p.Node))
		if !p.Deleting.IsZero() {
			d.line("  Being Deleted", "gone by "+p.Deleting.UTC().Format("2006-01-02T15:04:05Z"))
		}
		state := orUnknown(p.Etcd.State) + reason(p.Etcd.Reason)
		if !p.Etcd.Since.IsZero() {
			state += " for " + since(p.Etcd.Since, r.At)
		}
		d.line("  Etcd", fmt.Sprintf("%s, ready: %t, restarts: %d", state, p.Etcd.Ready, p.Etcd.Restarts))
	}
	if t, ok := m.Lease.Get(); ok {
		d.section("Lease")
		d.line("  Renewed", ago(seen(m.Lease, r.At)))
		if !t.IsZero() {
			d.line("  Role", orUnknown(m.LeaseRole.Value))
		}
	}
	if e, ok := m.EtcdStatus.Get(); ok {
		d.section("Druid Says")
		d.line("  Status", orUnknown(e.Status)+reason(e.Reason)+", for "+since(e.Since, r.At))
		d.line("  ID", orUnknown(e.ID))
		d.line("  Role", orUnknown(e.Role))
	}
	if b, ok := r.Backups.Get(); ok {
		d.section("Backups")
		d.line("  Full", snapshot(b.Full, r.At))
		d.line("  Delta", snapshot(b.Delta, r.At))
	}
	if l, ok := m.Live.Get(); ok {
		d.section("Live")
		d.line("  Endpoint", orUnknown(l.Endpoint))
		if l.Err != "" {
			d.line("  Error", l.Err)
		}
		d.line("  Serves", fmt.Sprint(l.Serves))
		if l.ServeErr != "" {
			d.line("  Because", l.ServeErr)
		}
		d.line("  Leader", orUnknown(l.Leader))
		for _, e := range l.List {
			kind := "voter"
			if e.Learner {
				kind = "learner"
			}
			d.line("  Lists", fmt.Sprintf("%s %s, %s, %s", e.ID, orUnknown(e.Name), kind, strings.Join(e.PeerURLs, " ")))
		}
		if l.Hash != nil {
			d.line("  Hash", fmt.Sprintf("%x at revision %d, compacted at %d", l.Hash.Hash, l.Hash.Revision, l.Hash.CompactRevision))
		}
	}
}

func reason(word string) string {
	if word == "" {
		return ""
	}
	return " (" + word + ")"
}

func snapshot(s model.Snapshot, at time.Time) string {
	if s.Time.IsZero() {
		return unknown
	}
	return fmt.Sprintf("%s ago, up to revision %d", since(s.Time, at), s.Revision)
}

func noneIf(none bool) string {
	if none {
		return "  <none>"
	}
	return ""
}

// ago makes an age a sentence's end, and leaves what is none.
func ago(age string) string {
	if age == "never" || age == unknown {
		return age
	}
	return age + " ago"
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// description is lines of a name and a value, below each other.
type description struct{ strings.Builder }

func (d *description) line(name, value string) { d.styled(name, Sanitize(value)) }

// styled is line for a value that is already safe.
func (d *description) styled(name, value string) {
	fmt.Fprintf(d, "%-18s %s\n", name+":", value)
}

func (d *description) section(name string) { fmt.Fprintf(d, "%s:\n", name) }
