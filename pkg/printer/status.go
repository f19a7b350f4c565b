package printer

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// StatusOptions are how people want the status.
type StatusOptions struct {
	// Wide adds what does not fit a usual terminal.
	Wide bool
	// NoHeaders leaves out what is not a row.
	NoHeaders bool
	// Namespaces names each cluster's namespace.
	Namespaces bool
	// Color colours the words of health.
	Color bool
}

// WriteStatus prints for each cluster one line with the verdict and why, and its members as a table.
func WriteStatus(w io.Writer, reports []health.Report, o StatusOptions) error {
	rows := 0
	for _, r := range reports {
		rows += len(r.Members)
	}
	for i, r := range reports {
		if !o.NoHeaders {
			if i > 0 {
				if _, err := fmt.Fprintln(w); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintln(w, Glance(r, o)); err != nil {
				return err
			}
		}
		if len(r.Members) == 0 {
			continue
		}
		t := memberTable(r, o)
		t.many = rows > manyRows
		if err := t.write(w, o.NoHeaders); err != nil {
			return err
		}
	}
	return nil
}

// Glance is a cluster in one line: how to name it on the command line, the verdict, and why.
func Glance(r health.Report, o StatusOptions) string {
	name := r.Key.Argument()
	if o.Namespaces {
		name += " -n " + r.Key.Namespace
	}
	verdict := string(r.Verdict)
	if o.Color {
		verdict = paint(verdict)
	}
	return strings.TrimRight(fmt.Sprintf("%s: %s. %s", Sanitize(name), verdict, Sanitize(r.Message)), " ")
}

const unknown = "<unknown>"

// memberColumns are the columns of the table; wide ones are left out but for -o wide.
var memberColumns = []struct {
	name  string
	wide  bool
	value func(m health.MemberReport, at time.Time) string
}{
	{"MEMBER", false, func(m health.MemberReport, _ time.Time) string { return m.Name }},
	{"ROLE", false, func(m health.MemberReport, _ time.Time) string { return orUnknown(m.Role) }},
	{"STATE", false, func(m health.MemberReport, _ time.Time) string { return m.State.Or(unknown) }},
	{"HEALTH", false, func(m health.MemberReport, _ time.Time) string { return string(m.Health) }},
	{"ID", false, func(m health.MemberReport, _ time.Time) string { return m.ID.Or(unknown) }},
	{"DB", false, func(m health.MemberReport, _ time.Time) string { return size(m.DBSize) }},
	{"IN-USE", false, func(m health.MemberReport, _ time.Time) string { return size(m.DBSizeInUse) }},
	{"QUOTA%", false, func(m health.MemberReport, _ time.Time) string { return share(m.DBSize, m.DBSizeQuota) }},
	{"REVISION", false, func(m health.MemberReport, _ time.Time) string { return whole(m.Revision) }},
	{"LAG", false, func(m health.MemberReport, _ time.Time) string { return whole(m.Lag) }},
	{"PEER-TLS", false, func(m health.MemberReport, _ time.Time) string { return peerTLS(m.Member) }},
	{"VOLUME", false, func(m health.MemberReport, _ time.Time) string { return volume(m.Member) }},
	{"BACKUP", false, func(m health.MemberReport, at time.Time) string { return backup(m, at) }},
	{"SEEN", false, func(m health.MemberReport, at time.Time) string { return seen(lastSeen(m.Member), at) }},
	{"AGE", false, func(m health.MemberReport, at time.Time) string { return since(m.Created, at) }},
	{"REASON", true, func(m health.MemberReport, _ time.Time) string { return m.Reason }},
	{"SUBSTATE", true, func(m health.MemberReport, _ time.Time) string { return m.SubState.Or("") }},
	{"CLUSTER-ID", true, func(m health.MemberReport, _ time.Time) string { return m.ClusterID.Or(unknown) }},
	{"VERSION", true, func(m health.MemberReport, _ time.Time) string { return m.Version.Or(unknown) }},
	{"TERM", true, func(m health.MemberReport, _ time.Time) string { return whole(m.RaftTerm) }},
	{"INDEX", true, func(m health.MemberReport, _ time.Time) string { return whole(m.RaftIndex) }},
	{"APPLIED", true, func(m health.MemberReport, _ time.Time) string { return whole(m.RaftAppliedIndex) }},
	{"ALARMS", true, alarms},
	{"POD", true, func(m health.MemberReport, _ time.Time) string { return m.Pod }},
	{"NODE", true, func(m health.MemberReport, _ time.Time) string { return m.PodState.Value.Node }},
	{"CLAIM", true, func(m health.MemberReport, _ time.Time) string {
		return cmp.Or(m.Volume.Value.Claim, m.Claim.Value.Name)
	}},
	{"PV", true, func(m health.MemberReport, _ time.Time) string {
		return cmp.Or(m.Volume.Value.Name, m.Claim.Value.Volume)
	}},
	{"SOURCE", true, func(m health.MemberReport, _ time.Time) string { return string(m.Basis) }},
	{"PUBLISHED", true, func(m health.MemberReport, at time.Time) string { return since(m.Published.Or(time.Time{}), at) }},
}

func memberTable(r health.Report, o StatusOptions) *Table {
	t := &Table{}
	healthColumn := -1
	for _, c := range memberColumns {
		if c.wide && !o.Wide {
			continue
		}
		if c.name == "HEALTH" {
			healthColumn = len(t.Header)
		}
		t.Header = append(t.Header, c.name)
	}
	for _, m := range r.Members {
		var row []string
		for _, c := range memberColumns {
			if !c.wide || o.Wide {
				row = append(row, c.value(m, r.At))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	if o.Color {
		t.Style = func(_, column int, cell string) string {
			if column == healthColumn {
				return paint(cell)
			}
			return cell
		}
	}
	return t
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}

func whole(f model.Fact[int64]) string {
	if !f.Known() {
		return unknown
	}
	return fmt.Sprint(f.Value)
}

// size is a number of bytes with a binary suffix and at most one digit after the point, as etcdctl and kubectl round them for people.
func size(f model.Fact[int64]) string {
	if !f.Known() {
		return unknown
	}
	return Bytes(f.Value)
}

// Bytes is a number of bytes for people, for example 20.5Mi.
func Bytes(n int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if u == 0 {
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + units[u]
}

func share(part, whole model.Fact[int64]) string {
	if !part.Known() || !whole.Known() || whole.Value <= 0 {
		return unknown
	}
	return fmt.Sprintf("%d%%", int64(float64(part.Value)/float64(whole.Value)*100))
}

func onOff(f model.Fact[bool]) string {
	switch v, ok := f.Get(); {
	case !ok:
		return unknown
	case v:
		return "on"
	default:
		return "off"
	}
}

// peerTLS is what the running etcd advertises; in parentheses what its configuration says, where that is all that is known.
func peerTLS(m model.Member) string {
	if !m.PeerTLS.Known() && m.PeerTLSConfigured.Known() {
		return "(" + onOff(m.PeerTLSConfigured) + ")"
	}
	return onOff(m.PeerTLS)
}

// volume is class and size: of the mounted file system where the member tells of it, else of the claim.
func volume(m model.Member) string {
	class, size := m.Volume.Value.StorageClass, m.Volume.Value.Capacity
	class, size = cmp.Or(class, m.Claim.Value.StorageClass), cmp.Or(size, m.Claim.Value.Capacity, m.Claim.Value.Requested)
	switch {
	case !m.Volume.Known() && !m.Claim.Known():
		return unknown
	case class == "" && size == 0:
		return orUnknown(cmp.Or(m.Volume.Value.Claim, m.Claim.Value.Name))
	case size == 0:
		return class
	case class == "":
		return Bytes(size)
	default:
		return class + "/" + Bytes(size)
	}
}

// backup is the age of the newest snapshot, full or delta.
func backup(m health.MemberReport, at time.Time) string {
	switch t, known := m.Backup.Get(); {
	case !known:
		return unknown
	case t.IsZero():
		return "" // which is shown as none
	default:
		return since(t, at)
	}
}

// lastSeen is the newest sign of life: the publisher's heartbeat, the sidecar's Lease, or an answer.
func lastSeen(m model.Member) model.Fact[time.Time] {
	newest := m.Heartbeat
	for _, f := range []model.Fact[time.Time]{m.Lease, {Value: m.ID.Time, Source: m.ID.Source}} {
		if f.Source == model.SourceLive || f.Source == model.SourceMemberLease {
			if !newest.Known() || f.Value.After(newest.Value) {
				newest = f
			}
		}
	}
	return newest
}

// alarms: "none" is something else than not knowing.
func alarms(m health.MemberReport, _ time.Time) string {
	a, ok := m.Alarms.Get()
	switch {
	case !ok:
		return unknown
	case len(a) == 0:
		return "none"
	default:
		return strings.Join(a, ",")
	}
}

func seen(f model.Fact[time.Time], at time.Time) string {
	switch t, ok := f.Get(); {
	case !ok:
		return unknown
	case t.IsZero():
		return "never"
	default:
		return since(t, at)
	}
}

// since is an age as kubectl prints it. A time a little in the future is a clock that is a little ahead.
func since(t, at time.Time) string {
	switch d := at.Sub(t); {
	case t.IsZero() || at.IsZero():
		return unknown
	case d < -10*time.Second:
		return "future"
	case d < 0:
		return "0s"
	default:
		return duration.HumanDuration(d)
	}
}
