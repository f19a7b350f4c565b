package agent

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
)

func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		look    *observation
		status  metav1.ConditionStatus
		reason  string
		passing bool
	}{
		"follower":        {answers(t0, stageFollower), metav1.ConditionTrue, "Serving", false},
		"leader":          {answers(t0, stageLeader), metav1.ConditionTrue, "Serving", false},
		"learner":         {answers(t0, stageLearner), metav1.ConditionFalse, "Learner", false},
		"frozen":          {frozen(t0), metav1.ConditionFalse, "NotAnswering", true},
		"denied":          {&observation{at: t0, statusErr: errDenied}, metav1.ConditionUnknown, "PermissionDenied", false},
		"no leader":       {with(answers(t0, stageFollower), func(o *observation) { o.status.Leader = 0 }), metav1.ConditionFalse, "NoLeader", true},
		"leader lost":     {with(answers(t0, stageFollower), func(o *observation) { o.readErr = status.Error(codes.Unavailable, "etcdserver: leader changed") }), metav1.ConditionFalse, "NoLeader", true},
		"read fails":      {with(answers(t0, stageFollower), func(o *observation) { o.readErr = errRead }), metav1.ConditionFalse, "ReadFailed", true},
		"own alarm":       {with(answers(t0, stageFollower), func(o *observation) { o.status.Alarms = []etcd.Alarm{{Member: ownID, Type: "NOSPACE"}} }), metav1.ConditionFalse, "Alarm", false},
		"nobody's alarm":  {with(answers(t0, stageFollower), func(o *observation) { o.status.Alarms = []etcd.Alarm{{Type: "CORRUPT"}} }), metav1.ConditionFalse, "Alarm", false},
		"another's alarm": {with(answers(t0, stageFollower), func(o *observation) { o.status.Alarms = []etcd.Alarm{{Member: 0xb2, Type: "NOSPACE"}} }), metav1.ConditionTrue, "Serving", false},
		"alarm, no leader": {with(answers(t0, stageFollower), func(o *observation) {
			o.status.Leader = 0
			o.status.Alarms = []etcd.Alarm{{Member: ownID, Type: "NOSPACE"}}
		}), metav1.ConditionFalse, "Alarm", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(tc.look)
			if v.status != tc.status || v.reason != tc.reason || v.passing != tc.passing || v.message == "" {
				t.Errorf("got %+v: want %s/%s, passing %t, and a message", v, tc.status, tc.reason, tc.passing)
			}
			if pollResults[v.reason] == "" {
				t.Errorf("reason %s has no word for the metric of polls", v.reason)
			}
		})
	}
}

// TestReadiness runs sequences of looks. Letters: S serving, x not answering, n no leader, r read failed, l learner, d denied;
// the result is what is believed after each, with a dash for nothing.
func TestReadiness(t *testing.T) {
	look := map[rune]func(time.Time) *observation{
		'S': func(at time.Time) *observation { return answers(at, stageFollower) },
		'x': frozen,
		'n': func(at time.Time) *observation {
			return with(answers(at, stageFollower), func(o *observation) { o.status.Leader = 0 })
		},
		'r': func(at time.Time) *observation {
			return with(answers(at, stageFollower), func(o *observation) { o.readErr = errRead })
		},
		'l': func(at time.Time) *observation { return answers(at, stageLearner) },
		'd': func(at time.Time) *observation { return &observation{at: at, statusErr: errDenied} },
	}
	letter := map[string]string{"": "-", "Serving": "S", "NotAnswering": "x", "NoLeader": "n", "ReadFailed": "r", "Learner": "l", "PermissionDenied": "d"}
	for _, tc := range []struct{ name, looks, want string }{
		{"serves", "SSS", "SSS"},
		{"one slow answer is no outage", "SxSxSrSnS", "SSSSSSSSS"},
		{"two are", "SxxxS", "SSxxS"},
		{"never answered", "xxxS", "-xxS"},
		{"good news is believed at once", "xxSxS", "-xSSS"},
		{"different troubles in a row are trouble", "Sxr", "SSr"},
		{"another trouble instead, when it lasts", "SxxnxnnS", "SSxxxxnS"},
		{"facts are believed at once", "SlSdS", "SlSdS"},
		{"a trouble after a fact must last", "lxlxxl", "llllxl"},
		{"a trouble after denied must last", "dxxd", "ddxd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r readiness
			got := ""
			for i, l := range tc.looks {
				r.consider(look[l](t0.Add(time.Duration(i) * 2 * time.Second)))
				got += letter[r.believed.reason]
			}
			if got != tc.want {
				t.Errorf("looks %s: believed %s: want %s", tc.looks, got, tc.want)
			}
		})
	}
}

func TestMessageSaysSinceWhen(t *testing.T) {
	var r readiness
	r.consider(frozen(t0))
	r.consider(frozen(t0))
	if got := r.message(time.Time{}); !containsText(got, "never answered this agent") {
		t.Error(got)
	}
	if got := r.message(t0); !containsText(got, "as of 2026-12-01T06:00:00Z") {
		t.Error(got)
	}
	r.consider(answers(t0.Add(time.Minute), stageFollower))
	r.consider(frozen(t0.Add(2 * time.Minute)))
	r.consider(frozen(t0.Add(2 * time.Minute)))
	if got, want := r.message(t0), "asking etcd at https://127.0.0.1:2379 for its status: no answer in time; all else that is published of it is as of 2026-12-01T06:01:00Z"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
