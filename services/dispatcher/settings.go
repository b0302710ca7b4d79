// Package dispatcher decides and makes the calls to the gateway: one event-sourced actor per instance, fed by a tail of the
// log. It promises at most one call per recorded attempt, none after deliverUntil, none that the log does not permit
// (rules R1-R10, docs/events.md); leases and lane consumers only save work.
package dispatcher

import (
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/absence"
	"pilotstatus.dev/events/queue"
)

// Settings are the numbers of a dispatcher. The zero value of a field means its default.
type Settings struct {
	ID    string      // of this process: token of lane consumers and of its lease
	Rules queue.Rules // DefaultRules when Concurrency is 0

	Budget        time.Duration // age of an intent after which it is no longer called; 2 s
	CallLimit     time.Duration // of a send, counted from the intent; 15 s
	SuccessorWait time.Duration // before an open start of another life is called unknown; 20 s

	LookUps     []time.Duration // after the attempt became unknown; 20 s, 60 s, then doubling
	LookUpMax   time.Duration   // longest wait between look-ups; 10 min
	LookUpLimit time.Duration   // of one look-up; 10 s
	Absence     absence.Rules   // when look-ups that find nothing count; 180 s after the intent, 60 s apart

	ProbeEvery time.Duration // the first probe of a parked instance, and each of an unusable gateway; 5 s
	// FailOn names causes (CauseUnauthorized, CauseInstanceUnknown, CauseLicenseRequired) that fail a message instead of parking the
	// sender or its gateway, by which it would wait for its deadline. None by default.
	FailOn       []string
	ProbeMax     time.Duration // longest wait between probes of an instance; 30 s
	ResumeSpread time.Duration // over which at most the instances of a gateway begin again; 5 s
	BreakerCheck time.Duration // within which the number check is answered before an instance is used again after a call without an answer; 3 s
	LaneCap      int           // lane consumers per partition, of all dispatchers together; 250
	LaneWait     time.Duration // for the head of a lane before it is read by direct get; 250 ms
	LaneIdle     time.Duration // after which an unused lane is let go; 30 s
	MaxTailLag   time.Duration // no start while the tail is further behind; 200 ms
	MaxClockSkew time.Duration // between this machine and the stream; 500 ms
	// Now is this machine's clock; time.Now. Only simulations give another.
	Now         func() time.Time
	AppendTry   time.Duration // of one append; 10 s
	Idle        time.Duration // an actor without work ends after this; 30 s
	Drain       time.Duration // how long a turn under way may go on when the role stops; 20 s
	LeaseTTL    time.Duration // after which others take a silent dispatcher for gone, whole seconds; 3 s
	FoldGrace   time.Duration // for which a partition that two others fold is folded on; 30 s
	EndMargin   time.Duration // after which an end is made by who does not own the instance, up to half of it later; 2 s
	SkipNumbers bool          // do not ask the number check before a first send
	NumberTTL   time.Duration // of a resolved number; 24 h
	ForeignWait time.Duration // before a number is checked again that the check takes for somebody else's, doubling to 1 min; 2 s
	// VersionEvery is how often a gateway is asked for its version, a tenth more or less, when nothing happens; 10 min.
	VersionEvery time.Duration
	TypingRune   time.Duration // how long somebody is seen to type each character, where the instance wants it; 50 ms

	SnapshotEvery  int           // events of a partition from one snapshot to the next; 50,000
	SnapshotMaxAge time.Duration // after which fewer are enough; 10 min
	LoadsEvery     time.Duration // between two notes of what waits at the instances, for forecasts; whole seconds, 1 s
	WitnessEvery   time.Duration // between two looks at the log and two marks of the witness; 5 s
	parksWithin    time.Duration // how long a partition whose parks cannot be read is waited for; parksWithin, and only tests give another
	RestoredWait   time.Duration // from an operator's word to the first look-up of what may have left in a lost part of the log; 3 min
	// Accept is an operator's word for a log that lost events: the last sequence of each partition, as it is now.
	Accept map[events.Partition]uint64
}

func (s Settings) withDefaults() Settings {
	if s.Rules.Concurrency == 0 {
		s.Rules = queue.DefaultRules()
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&s.Budget, 2 * time.Second},
		{&s.CallLimit, 15 * time.Second},
		{&s.SuccessorWait, 20 * time.Second},
		{&s.LookUpMax, 10 * time.Minute},
		{&s.LookUpLimit, 10 * time.Second},
		{&s.Absence.After, absence.DefaultRules().After},
		{&s.Absence.Apart, absence.DefaultRules().Apart},
		{&s.ProbeEvery, 5 * time.Second},
		{&s.ProbeMax, 30 * time.Second},
		{&s.ResumeSpread, 5 * time.Second},
		{&s.BreakerCheck, 3 * time.Second},
		{&s.LaneWait, 250 * time.Millisecond},
		{&s.LaneIdle, 30 * time.Second},
		{&s.MaxTailLag, 200 * time.Millisecond},
		{&s.MaxClockSkew, 500 * time.Millisecond},
		{&s.AppendTry, 10 * time.Second},
		{&s.Idle, 30 * time.Second},
		{&s.Drain, 20 * time.Second},
		{&s.LeaseTTL, 3 * time.Second},
		{&s.FoldGrace, 30 * time.Second},
		{&s.EndMargin, 2 * time.Second},
		{&s.NumberTTL, 24 * time.Hour},
		{&s.ForeignWait, 2 * time.Second},
		{&s.VersionEvery, 10 * time.Minute},
		{&s.TypingRune, 50 * time.Millisecond},
		{&s.SnapshotMaxAge, 10 * time.Minute},
		{&s.LoadsEvery, time.Second},
		{&s.WitnessEvery, 5 * time.Second},
		{&s.parksWithin, parksWithin},
		{&s.RestoredWait, 3 * time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if len(s.LookUps) == 0 {
		s.LookUps = []time.Duration{20 * time.Second, 60 * time.Second}
	}
	if s.LaneCap == 0 {
		s.LaneCap = 250
	}
	if s.SnapshotEvery == 0 {
		s.SnapshotEvery = 50_000
	}
	return s
}
