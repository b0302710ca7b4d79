package api

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/forecast"
	"pilotstatus.dev/events/presence"
)

// fakeWords folds what was appended.
type fakeWords struct{ f *fixture }

func (w fakeWords) Now(_ context.Context, _ events.Partition, instance string) (s presence.State, err error) {
	for i, e := range w.f.events() {
		if addr, err := events.ParseEventSubject(e.Address); err == nil && addr.Instance == instance {
			s = s.Apply(events.Recorded{Event: e, Position: events.Position{Sequence: uint64(i) + 1}, Known: true})
		}
	}
	return s, w.f.wordsErr
}

// Each lever is one event with who and why, its answer the state from then on; asked again it is as it was.
func TestLeversOfAnInstance(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	pull := func(lever, reason string) (string, map[string]any) {
		t.Helper()
		n := len(f.events())
		r := f.want(200, "POST", "instances/shared/"+lever, nil, "X-Reason", reason)
		word := ""
		if es := f.events(); len(es) > n {
			e := es[len(es)-1]
			addr, err := events.ParseEventSubject(e.Address)
			b, _ := e.Body.(*events.InstanceChanged)
			if err != nil || addr.Instance != "shared" || e.Type != "instance."+addr.Name+".v1" || b.By != "operator:ana" || b.Reason != reason {
				t.Errorf("%s: %s %s %+v", lever, e.Type, e.Address, b)
			}
			word = addr.Name
		}
		return word, map[string]any{
			"paused": r.member(t, "paused"), "draining": r.member(t, "draining"), "parked": r.member(t, "parked"), "pause": r.member(t, "pause"),
			"drain": r.member(t, "drain"),
		}
	}
	if word, s := pull("resume", "nothing holds it"); word != "" || s["paused"] != false {
		t.Errorf("resume of what runs: %s %v", word, s)
	}
	word, s := pull("pause", "under review")
	who, _ := s["pause"].(map[string]any)
	if word != "paused" || s["paused"] != true || who["by"] != "operator:ana" || who["reason"] != "under review" || who["since"] != stamp(clock) {
		t.Errorf("pause: %s %v", word, s)
	}
	word, s = pull("pause", "again")
	if who, _ := s["pause"].(map[string]any); word != "" || who["reason"] != "under review" {
		t.Errorf("pause again: %s %v", word, s)
	}
	wantCode(t, f.as(f.ana, "POST", "instances/shared/drain", nil), presence.CodePaused)
	if word, s := pull("resume", "reviewed"); word != "resumed" || s["paused"] != false || s["pause"] != nil {
		t.Errorf("resume: %s %v", word, s)
	}
	if word, s := pull("drain", "upgrade"); word != "draining" || s["draining"] != true || s["drain"] == nil {
		t.Errorf("drain: %s %v", word, s)
	}
	if word, s := pull("pause", "stop"); word != "paused" || s["draining"] != false || s["paused"] != true {
		t.Errorf("pause in a drain: %s %v", word, s)
	}
	if word, _ := pull("unpark", "it is not parked"); word != "" {
		t.Errorf("unpark: %s", word)
	}
	if _, err := f.log.append(t.Context(), events.Event{
		Envelope: events.Envelope{Type: events.TypeInstanceParked, Time: clock}, Address: events.EventSubject(0, "shared", events.GroupInstance, "parked"),
		Body: &events.InstanceChanged{By: "pilot/dispatcher", Reason: "unauthorized", Scope: "instance"},
	}); err != nil {
		t.Fatal(err)
	}
	if word, s := pull("unpark", "key repaired"); word != "unparked" || s["parked"] != false || s["paused"] != true {
		t.Errorf("unpark: %s %v", word, s)
	}
}

func TestLeversRefuse(t *testing.T) {
	t.Parallel()
	f := newAdmin(t)
	f.start()
	reader := f.operator("bo", events.OperatorRead, events.OperatorWrite)
	for _, l := range presence.Levers() {
		path := "instances/shared/" + string(l)
		wantCode(t, f.as(f.ana, "POST", "instances/none/"+string(l), nil), events.CodeNotFound)
		wantCode(t, f.as(f.ana, "POST", path, nil, "X-Reason", " "), events.CodeValidation)
		wantCode(t, f.as(reader, "POST", path, nil), CodeInsufficientScope)
		wantCode(t, f.as(liveKey, "POST", path, nil), events.CodeUnauthorized) // P12: no lever of a customer's key
	}
	f.wordsErr = errors.New("no leader")
	wantCode(t, f.as(f.ana, "POST", "instances/shared/pause", nil), events.CodeUnavailable)
	f.wordsErr = nil
	f.log.append = func(context.Context, events.Event) (uint64, error) { return 0, errors.New("no ack") }
	r := f.as(f.ana, "POST", "instances/shared/pause", nil)
	wantCode(t, r, events.CodeUnavailable)
	if !strings.Contains(string(r.body), "not known") || len(f.events()) > 0 {
		t.Errorf("%s, %d events", r.body, len(f.events()))
	}
}

// A drain tells how many are left, where a dispatcher says so.
func TestADrainTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		load    forecast.Load
		left    any
		drained any
	}{
		"three are left":               {forecast.Load{Held: true, Drains: true, Left: 3}, 3.0, nil},
		"none is left":                 {forecast.Load{Held: true, Drains: true}, 0.0, true},
		"its dispatcher does not know": {forecast.Load{}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAdmin(t)
			f.loads = fakeLoads(func(string) (forecast.Load, bool) { return c.load, true })
			others := f.ports
			f.ports = func(p *Ports) {
				others(p)
				p.Presence = fakePresence{"shared": {Draining: true, Drain: presence.Word{Since: clock, By: "operator:ana", Reason: "upgrade"}}}
			}
			f.start()
			s, _ := f.want(200, "GET", "instances/shared", nil).member(t, "state").(map[string]any)
			if s["draining"] != true || s["left"] != c.left || s["drained"] != c.drained {
				t.Errorf("state %v", s)
			}
		})
	}
}
