package printer

import (
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// TimelineEntry is one change of one member's state, in 'timeline -o json'.
type TimelineEntry struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   Metadata   `json:"metadata"` // of the member
	ClusterRef ClusterRef `json:"clusterRef"`
	Time       *time.Time `json:"time,omitempty"`
	State      string     `json:"state"`
	SubState   string     `json:"subState,omitempty"`
	Reason     string     `json:"reason"`
	Message    string     `json:"message,omitempty"`

	cluster model.Key
}

// Timeline is the last changes of all members' states, oldest first. Each member keeps its last 20.
func Timeline(reports []health.Report) []TimelineEntry {
	var entries []TimelineEntry
	for _, r := range reports {
		for _, m := range r.Members {
			for _, t := range m.Transitions {
				entries = append(entries, TimelineEntry{
					APIVersion: StatusAPIVersion, Kind: "Transition",
					Metadata:   Metadata{Name: m.Name, Namespace: r.Key.Namespace},
					ClusterRef: ClusterRef{Kind: string(r.Key.Kind), Name: r.Key.Name},
					Time:       timestamp(t.Time), State: t.State, SubState: t.SubState, Reason: t.Reason, Message: t.Message,
					cluster: r.Key,
				})
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b TimelineEntry) int { return at(a.Time).Compare(at(b.Time)) })
	return entries
}

// TimelineList makes the list of entries, as kubectl prints lists.
func TimelineList(entries []TimelineEntry) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": StatusAPIVersion, "kind": "TransitionList", "metadata": map[string]any{},
	}}
	for _, e := range entries {
		u, err := Object(e)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *u)
	}
	return list, nil
}

// WriteTimeline prints entries as a table.
func WriteTimeline(w io.Writer, entries []TimelineEntry, now time.Time, o StatusOptions) error {
	t := Table{Header: []string{"TIME", "AGE", "CLUSTER", "MEMBER", "STATE", "SUBSTATE", "REASON", "MESSAGE"}}
	if o.Namespaces {
		t.Header = append([]string{"NAMESPACE"}, t.Header...)
	}
	for _, e := range entries {
		when := unknown
		if e.Time != nil {
			// Elections follow each other within a second.
			when = e.Time.Format("2006-01-02T15:04:05.000Z")
		}
		row := []string{when, since(at(e.Time), now), e.cluster.Argument(), e.Metadata.Name, e.State, e.SubState, e.Reason, e.Message}
		if o.Namespaces {
			row = append([]string{e.Metadata.Namespace}, row...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t.write(w, o.NoHeaders)
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
