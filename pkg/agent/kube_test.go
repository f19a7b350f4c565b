package agent

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// TestRequests: what goes over the wire is what config/rbac permits, and nothing else. That a real API server takes it is
// shown in test/e2e.
func TestRequests(t *testing.T) {
	var got []string
	var body string
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		body = string(content)
		got = append(got, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Content-Type"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	k, err := newKube(&rest.Config{Host: server.URL}, "ns")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	const base = "/apis/druid.gardener.cloud/v1alpha1/namespaces/ns/etcdmembers"
	for _, tc := range []struct {
		name, want, answer string
		call               func() error
	}{
		{"find, page 1", "GET " + base + "?limit=100 ", `{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdMemberList","items":[{"metadata":{"name":"main-0"},"spec":{"podName":"main-0"},"status":{"dbSize":5,"unknown":true}}]}`, func() error {
			members, err := k.ListMembers(ctx)
			if err == nil && (len(members) != 1 || members[0].Spec.PodName != "main-0") {
				t.Errorf("members are %+v", members)
			}
			return err
		}},
		{"read", "GET " + base + "?fieldSelector=metadata.name%3Dmain-0 ", `{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdMemberList","metadata":{"resourceVersion":"7"},"items":[]}`, func() error {
			member, version, err := k.GetMember(ctx, "main-0")
			if member != nil || version != "7" {
				t.Errorf("%+v at %s", member, version)
			}
			return err
		}},
		{"watch", "GET " + base + "?fieldSelector=metadata.name%3Dmain-0&resourceVersion=7&watch=true ", `{"type":"ADDED","object":{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdMember","metadata":{"name":"main-0"}}}`, func() error {
			w, err := k.WatchMember(ctx, "main-0", "7")
			if err != nil {
				return err
			}
			defer w.Stop()
			if event := <-w.ResultChan(); event.Object.(*v1alpha1.EtcdMember).Name != "main-0" {
				t.Errorf("event is %+v", event)
			}
			return nil
		}},
		{"publish", "PATCH " + base + "/main-0/status?fieldManager=etcdmember-agent&force=true application/apply-patch+yaml", `{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdMember","metadata":{"name":"main-0","uid":"u"}}`, func() error {
			m := object("u")
			m.APIVersion, m.Kind = "druid.gardener.cloud/v1alpha1", "EtcdMember"
			m.Status.ID = "a1"
			result, err := k.ApplyStatus(ctx, m)
			if err == nil && result.UID != "u" {
				t.Errorf("result is %+v", result)
			}
			if want := `{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdMember","metadata":{"name":"main-0"},"status":{"id":"a1"}}`; body != want {
				t.Errorf("body is %s: want %s", body, want)
			}
			return err
		}},
		{"heartbeat", "PATCH /apis/coordination.k8s.io/v1/namespaces/ns/leases/etcdmember-main-0?fieldManager=etcdmember-agent application/merge-patch+json", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease"}`, func() error {
			holder, seconds, now := "main-0_u", int32(60), metav1.NewMicroTime(t0)
			err := k.RenewLease(ctx, "etcdmember-main-0", coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now})
			if want := `{"spec":{"holderIdentity":"main-0_u","leaseDurationSeconds":60,"renewTime":"2026-12-01T06:00:00.000000Z"}}`; body != want {
				t.Errorf("body is %s: want %s", body, want)
			}
			return err
		}},
		{"pod", "GET /api/v1/namespaces/ns/pods/main-0 ", `{"apiVersion":"v1","kind":"Pod"}`, func() error { _, err := k.GetPod(ctx, "main-0"); return err }},
		{"claim", "GET /api/v1/namespaces/ns/persistentvolumeclaims/data ", `{"apiVersion":"v1","kind":"PersistentVolumeClaim"}`, func() error { _, err := k.GetClaim(ctx, "data"); return err }},
		{"volume", "GET /api/v1/persistentvolumes/pv ", `{"apiVersion":"v1","kind":"PersistentVolume"}`, func() error { _, err := k.GetVolume(ctx, "pv"); return err }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, answer = nil, tc.answer
			if err := tc.call(); err != nil {
				t.Error(err)
			}
			if len(got) != 1 || got[0] != tc.want {
				t.Errorf("requests are %q\nwant %q", got, tc.want)
			}
		})
	}
}

// TestAPIErrors: the kinds of error that the loops tell apart come through.
func TestAPIErrors(t *testing.T) {
	code := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		reason := map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 422: metav1.StatusReasonInvalid}[code]
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Code: int32(code)})
	}))
	defer server.Close()
	k, err := newKube(&rest.Config{Host: server.URL}, "ns")
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]struct {
		is     func(error) bool
		result string
	}{
		403: {apierrors.IsForbidden, "forbidden"}, 404: {apierrors.IsNotFound, "missing"}, 409: {apierrors.IsConflict, "conflict"},
		422: {apierrors.IsInvalid, "invalid"}, 500: {apierrors.IsInternalError, "error"},
	} {
		code = status
		m := object("u")
		m.APIVersion, m.Kind = "druid.gardener.cloud/v1alpha1", "EtcdMember"
		_, err := k.ApplyStatus(t.Context(), m)
		if status != 500 && !want.is(err) || result(err) != want.result {
			t.Errorf("%d is %v, which counts as %s", status, err, result(err))
		}
	}
}

func TestBackoff(t *testing.T) {
	for failures := 1; failures < 100; failures++ {
		most := min(retryFirst*time.Duration(1<<min(failures-1, 20)), retryMost)
		if d := backoff(failures); d > most || d < most/2 {
			t.Errorf("after %d failures %s: want %s to %s", failures, d, most/2, most)
		}
	}
	for range 1000 {
		if d := jitter(10 * time.Second); d < 9*time.Second || d >= 11*time.Second {
			t.Fatalf("10 s with jitter are %s", d)
		}
	}
}

func TestHealth(t *testing.T) {
	c, m := &core{looked: time.Now()}, newMetrics()
	get := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		newHandler(c, m).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	want := func(path string, code int, text string) {
		t.Helper()
		if gotCode, gotText := get(path); gotCode != code || !strings.Contains(gotText, text) {
			t.Errorf("%s: %d %q: want %d with %q", path, gotCode, gotText, code, text)
		}
	}
	want("/healthz", 200, "ok")
	want("/readyz", 503, "waiting for the EtcdMember")
	now := time.Now()
	c.observe(answers(now, stageFollower))
	o := object("u")
	c.see(o, now)
	want("/readyz", 503, "nothing has been published")
	publish(t, c, o, now)
	want("/readyz", 200, "main-0")
	c.observe(answers(now.Add(-40*time.Second), stageLeader))
	want("/readyz", 503, "out of date")
	c.observe(answers(now.Add(-2*lookWithin), stageLeader))
	want("/healthz", 503, "stuck")
	m.published("state", nil, time.Millisecond)
	m.polled(answers(now, stageLeader))
	m.polled(answers(now, stageFollower))
	want("/metrics", 200, `etcdmember_agent_writes_total{kind="status",result="ok",why="change"} 1`)
	want("/metrics", 200, `etcdmember_agent_member_state{state="Started",substate="Follower"} 1`)
	if _, text := get("/metrics"); strings.Contains(text, `substate="Leader"`) {
		t.Error("the gauge of the last state is still there")
	}
}
