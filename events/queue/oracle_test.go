package queue

import (
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// What must hold of the log, read without the fold (the properties P2, P3, P5, pause, T, F of the protocol).

// attempts gives the last word of the log on each attempt of a message up to index k: started, deferred, and so on.
func (m *machine) attempts(id string, k int) map[int]string {
	out := map[int]string{}
	for _, r := range m.log[:k] {
		if r.Subject != id {
			continue
		}
		switch events.NameOf(r.Type) {
		case "dispatch.started", "dispatch.accepted", "dispatch.refused", "dispatch.deferred", "dispatch.unknown", "dispatch.disproved":
			out[r.Attempt] = events.NameOf(r.Type)[len("dispatch."):]
		}
	}
	return out
}

func (m *machine) has(id, name string, k int) bool {
	for _, r := range m.log[:k] {
		if r.Subject == id && events.NameOf(r.Type) == name {
			return true
		}
	}
	return false
}

func (m *machine) open(id string) int {
	for n, s := range m.attempts(id, len(m.log)) {
		if s == "started" {
			return n
		}
	}
	return 0
}

// ends gives the indexes of the ends of a message; a refusal after a proof is none (rule R10).
func (m *machine) ends(id string) (at []int) {
	proved := false
	for i, r := range m.log {
		switch b := r.Body.(type) {
		case *events.DispatchProved:
			proved = proved || r.Subject == id
		case *events.DispatchRefused:
			if r.Subject == id && !proved {
				at = append(at, i)
			}
		case *events.DispatchClosed:
			for _, x := range b.Messages {
				if x.ID == id {
					at = append(at, i)
				}
			}
		}
	}
	return at
}

func (m *machine) unknownLeft(id string, k int) bool {
	for _, s := range m.attempts(id, k) {
		if s == "unknown" {
			return true
		}
	}
	return false
}

func (m *machine) mustStart(t *rapid.T, p publish) {
	k := len(m.log)
	at := m.attempts(p.id, k)
	if m.queuedSeq[p.id] == 0 || len(at) != p.n-1 {
		t.Fatalf("P2: attempt %d of %s after %d", p.n, p.id, len(at))
	}
	if len(m.ends(p.id)) > 0 || m.has(p.id, "dispatch.proved", k) || m.has(p.id, "dispatch.accepted", k) {
		t.Fatalf("P2: %s starts after its end, proof or acceptance", p.id)
	}
	if r := m.doubted(p.id); r >= 0 && p.looked <= r {
		t.Fatalf("P2: %s starts, which may have left in a lost part of the log", p.id)
	}
	open := 0
	for _, id := range m.ids {
		if m.open(id) == 0 {
			continue
		}
		open++
		if id == p.id || m.slot[id] == m.slot[p.id] {
			t.Fatalf("P5: %s starts beside %s", p.id, id)
		}
	}
	if open >= m.rules.Concurrency {
		t.Fatalf("P5: %d open starts", open)
	}
	if p.n == 1 {
		return
	}
	absent := false
	for _, r := range m.log {
		absent = absent || (r.Subject == p.id && r.Attempt == p.n-1 && r.Type == events.TypeDispatchAbsent)
	}
	after := m.rules.Policies[events.OTP] == AfterAbsence
	if s := at[p.n-1]; s != "deferred" && s != "disproved" && (s != "unknown" || !absent || !after) {
		t.Fatalf("P2: attempt %d of %s after one that is %s", p.n, p.id, s)
	}
}

// doubted gives the index of the newest event that puts a message in doubt, when no start of it stands behind that; else -1.
func (m *machine) doubted(id string) int {
	at := -1
	for i, r := range m.log {
		switch b := r.Body.(type) {
		case *events.DispatchRestored:
			if m.queuedSeq[id] <= b.UpTo {
				at = i
			}
		case *events.DispatchStarted:
			if r.Subject == id {
				at = -1
			}
		}
	}
	return at
}

func (m *machine) mustCall(t *rapid.T, d int) {
	a := m.actors[d]
	if m.calls[key(a.id, a.n)] > 0 {
		t.Fatalf("P2: a second call for %s", key(a.id, a.n))
	}
	start := -1
	for i, r := range m.log {
		if r.Type == events.TypeDispatchStarted && r.Subject == a.id && r.Attempt == a.n {
			if r.Nonce != a.nonce {
				t.Fatalf("P2: dispatcher %d calls for the start of another", d)
			}
			start = i
		}
	}
	if start < 0 {
		t.Fatalf("P2: a call for %s without a start", key(a.id, a.n))
	}
	if !m.now.Before(m.until[a.id]) {
		t.Fatalf("P3: a call for %s after its deadline", a.id)
	}
	if len(m.ends(a.id)) > 0 {
		t.Fatalf("P5: a call for %s, which ended", a.id)
	}
	for e, id := range m.inCall {
		if e != d && (m.rules.Concurrency == 1 || id == a.id || m.slot[id] == m.slot[a.id]) {
			t.Fatalf("P5: calls for %s and %s at once", id, a.id)
		}
	}
	paused := func(k int) (p bool) {
		for _, r := range m.log[:k] {
			switch r.Type {
			case events.TypeInstancePaused:
				p = true
			case events.TypeInstanceResumed, events.TypeInstanceDraining:
				p = false
			}
		}
		return p
	}
	for k := start + 1; k <= len(m.log); k++ {
		if !paused(k) {
			return
		}
	}
	t.Fatalf("a call for %s although a pause stood before its start", a.id)
}

func (m *machine) mustEnd(t *rapid.T, id, reason string) {
	k := len(m.log)
	if m.open(id) > 0 || len(m.ends(id)) > 0 || m.has(id, "dispatch.accepted", k) || m.has(id, "dispatch.proved", k) || m.has(id, "dispatch.refused", k) {
		t.Fatalf("F: %s ends (%s) while open, or after an end, an acceptance or a proof", id, reason)
	}
	if (reason == events.ClosedTimeout) != m.unknownLeft(id, k) {
		t.Fatalf("R7: end %s of %s, unknown attempt %v", reason, id, m.unknownLeft(id, k))
	}
}

// mustBeTrue checks what holds at any time: one end a message, and one that is called definite has had no effect and never will.
func (m *machine) mustBeTrue(t *rapid.T) {
	for _, id := range m.ids {
		ends := m.ends(id)
		if len(ends) > 1 {
			t.Fatalf("F: %s ended %d times", id, len(ends))
		}
		if len(ends) == 0 || m.unknownLeft(id, ends[0]) {
			continue
		}
		for n := 1; n <= 9; n++ {
			if r := m.gw[key(id, n)]; r != nil && r.state != "none" {
				t.Fatalf("T: %s ended for sure, its attempt %d is %s", id, n, r.state)
			}
		}
	}
}

func (m *machine) mustBeSettled(t *rapid.T) {
	k := len(m.log)
	for _, id := range m.ids {
		if len(m.ends(id)) == 0 && !m.has(id, "dispatch.accepted", k) && !m.has(id, "dispatch.proved", k) {
			t.Fatalf("P1: %s never ends: %v", id, m.attempts(id, k))
		}
		if m.open(id) > 0 {
			t.Fatalf("%s is open for ever", id)
		}
	}
	for d, a := range m.actors {
		for range 2 { // an end that was presumed is kept until no look-up may need it
			a.q.Compact(m.seq, m.now.Add(m.rules.BindWindow+time.Second))
		}
		if a.q.Len() != 0 || len(a.q.Unknown()) != 0 || len(a.q.Ghosts()) != 0 || a.q.Doubts() != 0 || !a.q.ChainIntact() {
			t.Fatalf("actor %d keeps %d entries, chain %v", d, a.q.Len(), a.q.ChainIntact())
		}
	}
}
