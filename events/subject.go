package events

import (
	"strconv"
	"strings"
)

// This is the only file that builds or parses a subject, a stream name or a lane's consumer name.

// Groups of the events of an instance (docs/events.md). Only GroupDispatch is fenced.
const (
	GroupQueued   = "queued"
	GroupDispatch = "dispatch"
	GroupMessage  = "message"
	GroupEvidence = "evidence"
	GroupReceipt  = "receipt"
	GroupInstance = "instance"
)

// Stream names that do not depend on a partition.
const (
	StreamControl = "CONTROL"
	StreamQuota   = "QUOTA"
	StreamDead    = "DEAD"
	StreamHookLog = "HOOKLOG"
)

// HookShards is the number of HOOKS streams; an endpoint lives in HookShard(endpoint).
const HookShards = 8

// EventsStream is the name of the log of a partition.
func EventsStream(p Partition) string { return "EVENTS_" + p.String() }

// ReceiptsStream is the name of the stream of what the gateway said to instances of a partition.
func ReceiptsStream(p Partition) string { return "RECEIPTS_" + p.String() }

// HooksStream is the name of the stream of customer deliveries of a shard.
func HooksStream(h int) string { return "HOOKS_" + strconv.Itoa(h) }

// HookShard gives the shard of an endpoint.
func HookShard(endpoint string) int { return int(PartitionOf(endpoint, HookShards)) }

// Lane is the unit of order inside a partition: instance, class, tenant and slot.
type Lane struct {
	Instance string
	Class    Class
	Tenant   string
	Slot     uint8
}

// QueuedSubject is where an accepted message of the lane is appended; it is also the lane's exact filter.
func QueuedSubject(p Partition, l Lane) string {
	return "evt." + p.String() + "." + l.Instance + "." + GroupQueued + "." + string(l.Class) + "." + l.Tenant + "." + strconv.Itoa(int(l.Slot))
}

// EventSubject is where an event of a group other than queued is appended.
func EventSubject(p Partition, instance, group, name string) string {
	return "evt." + p.String() + "." + instance + "." + group + "." + name
}

// DispatchFilter covers the fenced group of an instance: the filter of the fence.
func DispatchFilter(p Partition, instance string) string {
	return "evt." + p.String() + "." + instance + "." + GroupDispatch + ".>"
}

// EventsFilter covers every event of a partition.
func EventsFilter(p Partition) string { return "evt." + p.String() + ".>" }

// GroupFilter covers one group of all instances of a partition.
func GroupFilter(p Partition, group string) string { return "evt." + p.String() + ".*." + group + ".>" }

// TypeFilter covers one event of all instances of a partition.
func TypeFilter(p Partition, group, name string) string {
	return "evt." + p.String() + ".*." + group + "." + name
}

// EventAddress is what a subject of EVENTS says. Lane is set for queued events only.
type EventAddress struct {
	Partition Partition
	Instance  string
	Group     string
	Name      string
	Lane      Lane
}

// ParseEventSubject reads a subject of EVENTS.
func ParseEventSubject(s string) (EventAddress, error) {
	t := strings.Split(s, ".")
	bad := func() (EventAddress, error) {
		return EventAddress{}, Errorf(CodeInvalidSubject, "not a subject of EVENTS")
	}
	if len(t) < 5 || t[0] != "evt" || !ValidToken(t[2]) {
		return bad()
	}
	p, ok := parsePartition(t[1])
	if !ok {
		return bad()
	}
	a := EventAddress{Partition: p, Instance: t[2], Group: t[3]}
	if t[3] == GroupQueued {
		slot, err := strconv.ParseUint(t[len(t)-1], 10, 8)
		if len(t) != 7 || err != nil || strconv.FormatUint(slot, 10) != t[6] || !ValidToken(t[5]) || !ValidToken(t[4]) {
			return bad()
		}
		a.Name = GroupQueued
		a.Lane = Lane{Instance: t[2], Class: Class(t[4]), Tenant: t[5], Slot: uint8(slot)}
		return a, nil
	}
	if len(t) != 5 || !validName(t[3]) || !validName(t[4]) {
		return bad()
	}
	a.Name = t[4]
	return a, nil
}

// FencedInstance gives the instance whose fenced group a subject falls into by the filter of the fence, also when it is none that this
// package would build: an event there moves the group, whoever published it.
func FencedInstance(subject string) (instance string, ok bool) {
	t := strings.SplitN(subject, ".", 5)
	if len(t) < 5 || t[0] != "evt" || t[3] != GroupDispatch {
		return "", false
	}
	return t[2], true
}

// ReceiptSubject is where what the gateway said is stored; dots in the gateway's event name, and whatever else may not stand
// in a token, become '-'. The name comes from outside, so any text gives a valid subject.
func ReceiptSubject(p Partition, instance, gatewayEvent string) string {
	return "rcp." + p.String() + "." + instance + "." + receiptToken(gatewayEvent)
}

func receiptToken(gatewayEvent string) string {
	if gatewayEvent == "" {
		return "-"
	}
	b := []byte(gatewayEvent[:min(len(gatewayEvent), 64)])
	for i, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			b[i] = '-'
		}
	}
	return string(b)
}

// ReceiptsFilter covers every receipt of a partition.
func ReceiptsFilter(p Partition) string { return "rcp." + p.String() + ".>" }

// ParseReceiptSubject gives partition and instance of a subject of RECEIPTS.
func ParseReceiptSubject(s string) (Partition, string, error) {
	t := strings.Split(s, ".")
	if len(t) == 4 && t[0] == "rcp" && ValidToken(t[2]) && t[3] == receiptToken(t[3]) {
		if p, ok := parsePartition(t[1]); ok {
			return p, t[2], nil
		}
	}
	return 0, "", Errorf(CodeInvalidSubject, "not a subject of RECEIPTS")
}

// HookSubject is where a delivery to an endpoint waits to be made.
func HookSubject(endpoint string) string {
	return "hook." + strconv.Itoa(HookShard(endpoint)) + "." + endpoint
}

// HookScheduleSubject holds the schedule of the next try of one delivery. A delivery id is hex, so it is a valid token.
func HookScheduleSubject(endpoint, delivery string) string {
	return "hooksch." + strconv.Itoa(HookShard(endpoint)) + "." + endpoint + "." + delivery
}

// HooksFilters are the subjects of the HOOKS stream of a shard: deliveries and schedules.
func HooksFilters(h int) []string {
	return []string{"hook." + strconv.Itoa(h) + ".*", "hooksch." + strconv.Itoa(h) + ".*.*"}
}

// Results of an attempt to deliver to an endpoint, the last token of a HOOKLOG subject.
const (
	HookSucceeded = "succeeded"
	HookFailed    = "failed"
	HookExhausted = "exhausted"
)

// HookLogSubject is where an attempt to deliver is recorded.
func HookLogSubject(endpoint, result string) string { return "hlg." + endpoint + "." + result }

// ControlSubject is where the state of an entity of the control plane is recorded.
func ControlSubject(kind, id string) string { return "ctl." + kind + "." + id }

// ControlFilter covers every event of CONTROL.
const ControlFilter = "ctl.>"

// ParseControlSubject gives kind and id of a subject of CONTROL.
func ParseControlSubject(s string) (kind, id string, err error) {
	t := strings.Split(s, ".")
	if len(t) != 3 || t[0] != "ctl" || !validName(t[1]) || !ValidToken(t[2]) {
		return "", "", Errorf(CodeInvalidSubject, "not a subject of CONTROL")
	}
	return t[1], t[2], nil
}

// QuotaSubject is the counter of a tenant's window.
func QuotaSubject(tenant, window string) string { return "quota." + tenant + "." + window }

// DeadSubject is where what no code could process is kept.
func DeadSubject(kind, instance string) string { return "dead." + kind + "." + instance }

// LaneConsumer is the name of a lane's consumer for one dispatcher: lane_<instance>_<class>_<tenant>_<slot>_<dispatcher>.
func LaneConsumer(l Lane, dispatcher string) string {
	return "lane_" + l.Instance + "_" + string(l.Class) + "_" + l.Tenant + "_" + strconv.Itoa(int(l.Slot)) + "_" + dispatcher
}

func parsePartition(s string) (Partition, bool) {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, false
	}
	return Partition(n), true
}

// validName is the form of groups, types and kinds: lower case words joined by '_' or '-'.
func validName(s string) bool {
	if s == "" || len(s) > 40 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
