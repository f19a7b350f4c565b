package etcd

import (
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func TestParseStatusErrors(t *testing.T) {
	alarms, others := parseStatusErrors([]string{
		"memberID:10276657743932975437 alarm:NOSPACE ", // 3.4, 3.5: gogo's String
		"memberID:10276657743932975437  alarm:CORRUPT", // since 3.7: protobuf-go's, with one space or two
		`alarm:CORRUPT`,                                            // nobody in particular
		"alarm: NOSPACE memberID: 42",                              // another order, as prototext has it
		"etcdserver: no leader", " ", "memberID:xyz alarm:NOSPACE", // not an alarm of a known form
		"memberID:7 alarm:99", // an alarm that this build has no name for
	})
	want := []Alarm{
		{Member: 10276657743932975437, Type: "NOSPACE"}, {Member: 10276657743932975437, Type: "CORRUPT"}, {Type: "CORRUPT"},
		{Member: 42, Type: "NOSPACE"}, {Member: 7, Type: "99"},
	}
	if !slices.Equal(alarms, want) {
		t.Errorf("alarms are %v: want %v", alarms, want)
	}
	if got := strings.Join(others, "|"); got != "etcdserver: no leader|memberID:xyz alarm:NOSPACE" {
		t.Errorf("others are %q", got)
	}
}

// TestAlarmTextOfThisBuild: the text form of the API that is compiled in, whatever its spacing is in this binary.
func TestAlarmTextOfThisBuild(t *testing.T) {
	text := (&pb.AlarmMember{MemberID: 1 << 63, Alarm: pb.AlarmType_NOSPACE}).String()
	if alarm, ok := parseAlarm(text); !ok || alarm != (Alarm{Member: 1 << 63, Type: AlarmNoSpace}) {
		t.Errorf("%q is read as %v, %t", text, alarm, ok)
	}
}

func TestOwnAlarms(t *testing.T) {
	alarms := []Alarm{{1, "NOSPACE"}, {2, "NOSPACE"}, {2, "CORRUPT"}, {0, "CORRUPT"}, {1, "NOSPACE"}}
	for member, want := range map[ID]string{1: "NOSPACE CORRUPT", 2: "NOSPACE CORRUPT", 3: "CORRUPT"} {
		if got := strings.Join(OwnAlarms(alarms, member), " "); got != want {
			t.Errorf("of member %s: %q: want %q", member, got, want)
		}
	}
}
