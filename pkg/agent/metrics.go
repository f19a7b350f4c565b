package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// metrics are the agent's own. What etcd measures of itself is etcd's to serve.
type metrics struct {
	registry *prometheus.Registry
	writes   *prometheus.CounterVec
	latency  prometheus.Histogram
	last     prometheus.Gauge
	polls    *prometheus.CounterVec
	state    *prometheus.GaugeVec

	now stage
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcdmember_agent_writes_total",
			Help: "Writes to the API server, by what was written (status, lease), why (for status: change or refresh) and result (ok, missing, forbidden, invalid, conflict, error, or withheld: not written on purpose).",
		}, []string{"kind", "why", "result"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "etcdmember_agent_publish_duration_seconds",
			Help:    "How long writes of the status took, failed ones included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "etcdmember_agent_last_publish_timestamp_seconds",
			Help: "When the status was last published, in seconds since 1970. 0: not since the agent started.",
		}),
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcdmember_agent_polls_total",
			Help: "Looks at etcd, by result (serving, no_answer, permission_denied, learner, no_leader, read_failed, alarm).",
		}, []string{"result"}),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcdmember_agent_member_state",
			Help: "1 for the state and sub-state that the member was last seen in.",
		}, []string{"state", "substate"}),
	}
	m.registry.MustRegister(m.writes, m.latency, m.last, m.polls, m.state,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) published(why string, err error, took time.Duration) {
	if why != "refresh" {
		why = "change"
	}
	m.writes.WithLabelValues("status", why, result(err)).Inc()
	m.latency.Observe(took.Seconds())
	if err == nil {
		m.last.SetToCurrentTime()
	}
}

func (m *metrics) renewed(result string) {
	m.writes.WithLabelValues("lease", "heartbeat", result).Inc()
}

// result is a small set of words for what the API server answered.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsNotFound(err):
		return "missing"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "forbidden"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "invalid"
	case apierrors.IsConflict(err):
		return "conflict"
	default:
		return "error"
	}
}

var pollResults = map[string]string{
	v1alpha1.ReadyReasonServing:          "serving",
	v1alpha1.ReadyReasonNotAnswering:     "no_answer",
	v1alpha1.ReadyReasonPermissionDenied: "permission_denied",
	v1alpha1.ReadyReasonLearner:          "learner",
	v1alpha1.ReadyReasonNoLeader:         "no_leader",
	v1alpha1.ReadyReasonReadFailed:       "read_failed",
	v1alpha1.ReadyReasonAlarm:            "alarm",
}

// polled counts a look by its own verdict, not by what is believed: single slow answers show here only.
func (m *metrics) polled(o *observation) {
	m.polls.WithLabelValues(pollResults[judge(o).reason]).Inc()
	if at := o.stage(); at != unknown && at != m.now {
		if m.now != unknown {
			m.state.DeleteLabelValues(string(m.now.State), string(m.now.SubState))
		}
		m.state.WithLabelValues(string(at.State), string(at.SubState)).Set(1)
		m.now = at
	}
}
