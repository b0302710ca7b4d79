package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/evolutionsim"
)

// Promise P3 over the log: whatever holds an instance, nothing begins after deliverUntil, and what could not leave has ended within five
// seconds after it.
func TestP3WhateverHoldsTheInstance(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(r *rig, set *Settings){
		"paused":   func(r *rig, _ *Settings) { r.instanceEvent(events.TypeInstancePaused, "paused") },
		"draining": func(r *rig, _ *Settings) { r.instanceEvent(events.TypeInstanceDraining, "draining") },
		"parked": func(r *rig, set *Settings) {
			set.ProbeEvery = time.Hour
			r.fault(evolutionsim.Fault{Kind: "answer", Status: 401, Call: "connectionState"})
			r.instanceEvent(events.TypeInstanceParked, "parked")
		},
		"disconnected": func(r *rig, _ *Settings) {
			r.fault(evolutionsim.Fault{Kind: "answer", Status: 401, Call: "connectionState"})
			r.instanceEvent(events.TypeInstanceClosed, "closed")
		},
		"gateway without a licence": func(r *rig, _ *Settings) { r.everywhere(503, license, "") },
		"gateway out of reach": func(r *rig, set *Settings) {
			set.SkipNumbers = true
			r.dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
		},
		"limited": func(r *rig, _ *Settings) {
			r.fault(evolutionsim.Fault{Kind: "answer", Status: 429, Headers: map[string]string{"Retry-After": "60"}})
		},
		"stopped for all": func(r *rig, _ *Settings) {
			r.catalog.apply(events.KindPlatform, events.PlatformID, &events.Defined[events.Platform]{Value: events.Platform{Stopped: true}})
		},
		"tenant suspended": func(r *rig, _ *Settings) {
			r.catalog.apply(events.KindTenant, tenant, &events.Defined[events.Tenant]{Value: events.Tenant{ID: tenant, Suspended: true}})
		},
		"gateway slow, with a backlog": func(r *rig, _ *Settings) {
			r.fault(evolutionsim.Fault{Kind: "delay", DelayMS: 2000, When: "before"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			set := quick()
			hold(r, &set)
			var ids []string
			for i := range 60 {
				ids = append(ids, r.accept(order{text: "held", class: events.Classes()[i%6], window: 1500 * time.Millisecond}))
			}
			later := r.accept(order{text: "scheduled", deliverAt: time.Now().Add(time.Second), window: 1500 * time.Millisecond})
			d, _ := r.run(set)
			a := d.parts[0].actor(instanceID)
			eventually(t, "all are over", func() bool {
				a.mu.Lock()
				defer a.mu.Unlock()
				return a.q.Len() == 0 && d.parts[0].ready() == nil
			}, func() string {
				a.mu.Lock()
				defer a.mu.Unlock()
				return fmt.Sprint(len(a.q.Pending()), " are pending")
			})
			states := map[string]message.State{}
			for _, id := range append(ids, later) {
				states[id] = message.State{ID: id}
			}
			for _, rec := range r.history() {
				for _, m := range message.Subjects(rec) {
					s, ok := states[m.ID]
					if !ok {
						continue
					}
					if s = s.Apply(rec); rec.Type == events.TypeDispatchStarted {
						if until := s.Queued.DeliverUntil; !rec.Time.Before(until) {
							t.Errorf("begun %s after its deadline", rec.Time.Sub(until))
						}
						if at := s.Queued.DeliverAt; rec.Time.Before(at) {
							t.Errorf("begun %s early", at.Sub(rec.Time))
						}
					}
					states[m.ID] = s
				}
			}
			for id, s := range states {
				v := s.View()
				if v.Stage == events.StageDispatched {
					continue // it left in time
				}
				if late := v.FailedAt.Sub(s.Queued.DeliverUntil); v.Stage != events.StageFailed || late > 5*time.Second {
					t.Errorf("%s is %s, %s after its deadline\n%s", id, v.Stage, late, r.story(id))
				}
			}
		})
	}
}
