package etcd

import (
	"regexp"
	"strconv"
	"strings"
)

// Names of alarms that stop a member from serving, as etcd spells them.
const (
	// AlarmNoSpace: the database has reached its quota. The cluster then serves reads and deletions only.
	AlarmNoSpace = "NOSPACE"
	// AlarmCorrupt: the data of the member differs from the others'. The cluster then serves nothing.
	AlarmCorrupt = "CORRUPT"
)

// Alarm is an alarm that is raised in the cluster.
type Alarm struct {
	// Member is the member that the alarm is about. 0: etcd could not tell which, and all are suspect (a CORRUPT without
	// a majority of equal hashes).
	Member ID
	// Type is its name, for example NOSPACE.
	Type string
}

// alarmFields matches the text form of etcd's protobuf AlarmMember. Its field order and spacing are no contract: spaces
// differ between versions and, since the Go protobuf API v2, between builds. A zero member ID is left out.
var alarmFields = regexp.MustCompile(`\b(memberID|alarm):\s*([A-Za-z0-9_]+)`)

// parseStatusErrors splits what a member reports in Status.Errors, for example "memberID:123 alarm:NOSPACE ", into the
// alarms in it and all that are none, such as "etcdserver: no leader". A member reports the alarms of all members.
func parseStatusErrors(reported []string) (alarms []Alarm, others []string) {
	for _, text := range reported {
		alarm, ok := parseAlarm(text)
		if ok {
			alarms = append(alarms, alarm)
		} else if text = strings.TrimSpace(text); text != "" {
			others = append(others, text)
		}
	}
	return alarms, others
}

func parseAlarm(text string) (Alarm, bool) {
	var alarm Alarm
	for _, field := range alarmFields.FindAllStringSubmatch(text, -1) {
		switch field[1] {
		case "memberID":
			// Always decimal in the text form, however few its digits.
			id, err := strconv.ParseUint(field[2], 10, 64)
			if err != nil {
				return Alarm{}, false
			}
			alarm.Member = ID(id)
		case "alarm":
			alarm.Type = field[2]
		}
	}
	return alarm, alarm.Type != ""
}

// OwnAlarms are the names of the alarms that are about the member, or about nobody in particular, without duplicates.
func OwnAlarms(alarms []Alarm, member ID) []string {
	var own []string
	seen := map[string]bool{}
	for _, alarm := range alarms {
		if (alarm.Member == member || alarm.Member == 0) && !seen[alarm.Type] {
			seen[alarm.Type] = true
			own = append(own, alarm.Type)
		}
	}
	return own
}
