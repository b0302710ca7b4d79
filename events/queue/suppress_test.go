package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pilotstatus.dev/events"
)

// said is the header for what is said to somebody, in place of keyed hashes.
func said(to, text int) string {
	return TextHash(fmt.Sprintf("%016x%s", to, strings.Repeat("0", 48)), fmt.Sprintf("%016x%s", text, strings.Repeat("0", 48)))
}

// says accepts a message and starts it, telling what it says.
func (p *tape) says(id, hash string) {
	p.queued(msg{id: id})
	p.dispatch(id, "started", 1, &events.DispatchStarted{}, nonce(id+"/1"), func(r *events.Recorded) { r.TextHash = hash })
}

// The last message to a recipient is not said again within the window: only the last, only to this recipient, and only when it may have
// had an effect.
func TestTheLastMessageIsNotRepeated(t *testing.T) {
	t.Parallel()
	const same = 1
	for name, c := range map[string]struct {
		tell func(p *tape)
		want bool
	}{
		"nothing was said":        {func(*tape) {}, false},
		"it is being said":        {func(p *tape) { p.says("a", said(7, same)) }, true},
		"it was accepted":         {func(p *tape) { p.says("a", said(7, same)); p.accepted("a", 1, "G") }, true},
		"it may have left":        {func(p *tape) { p.says("a", said(7, same)); p.unknown("a", 1) }, true},
		"it may have left, ended": {func(p *tape) { p.says("a", said(7, same)); p.unknown("a", 1); p.ended(events.ClosedTimeout, "a") }, true},
		"it was refused":          {func(p *tape) { p.says("a", said(7, same)); p.refused("a", 1) }, false},
		"it had no effect": {func(p *tape) {
			p.says("a", said(7, same))
			p.deferred("a", 1, 1, events.DispatchDeferred{Called: true})
		}, false},
		"it was sent":         {func(p *tape) { p.says("a", said(7, same)); p.accepted("a", 1, "G"); p.receipt("a", "sent") }, true},
		"WhatsApp refused it": {func(p *tape) { p.says("a", said(7, same)); p.accepted("a", 1, "G"); p.receipt("a", "failed") }, false},
		"WhatsApp refused it after it had it": {func(p *tape) {
			p.says("a", said(7, same))
			p.accepted("a", 1, "G")
			p.receipt("a", "sent")
			p.receipt("a", "failed")
		}, false},
		"it arrived, whatever else is said": {func(p *tape) {
			p.says("a", said(7, same))
			p.accepted("a", 1, "G")
			p.receipt("a", "delivered")
			p.receipt("a", "failed")
		}, true},
		"it was read after an error": {func(p *tape) {
			p.says("a", said(7, same))
			p.accepted("a", 1, "G")
			p.receipt("a", "failed")
			p.receipt("a", "read")
		}, true},
		"another one failed": {func(p *tape) {
			p.says("b", said(7, 2))
			p.says("a", said(7, same))
			p.accepted("b", 1, "B")
			p.receipt("b", "failed")
		}, true},
		"it was disproved":      {func(p *tape) { p.says("a", said(7, same)); p.unknown("a", 1); p.disproved("a", 1, "") }, false},
		"another text":          {func(p *tape) { p.says("a", said(7, 2)) }, false},
		"another recipient":     {func(p *tape) { p.says("a", said(8, same)) }, false},
		"another came after it": {func(p *tape) { p.says("a", said(7, same)); p.says("b", said(7, 2)) }, false},
		"another came after it, without effect": {func(p *tape) {
			p.says("a", said(7, same))
			p.says("b", said(7, 2))
			p.refused("b", 1)
		}, true},
		"one that told nothing came after it": {func(p *tape) { p.says("a", said(7, same)); p.says("code", "") }, true},
		"its own earlier attempt":             {func(p *tape) { p.says("me", said(7, same)) }, false},
		"a header of another form":            {func(p *tape) { p.says("a", "0123.4567") }, false},
	} {
		p := newTape()
		c.tell(p)
		q := p.queue(DefaultRules())
		if got := q.Repeats("me", said(7, same), p.now.Add(DefaultRules().Suppress-1)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if q.Repeats("me", said(7, same), p.now.Add(DefaultRules().Suppress)) {
			t.Errorf("%s: the window is over", name)
		}
		if q.Repeats("me", "", p.now) {
			t.Errorf("%s: who tells nothing repeats nothing", name)
		}
	}
	if TextHash("abc", strings.Repeat("0", 64)) != "" {
		t.Error("half a hash")
	}
}

// Whoever takes over knows what was said: from a snapshot at any place, from the log in any order; and memory is bounded.
func TestWhatWasSaidSurvivesATakeover(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newTape()
		n := rapid.IntRange(1, 20).Draw(t, "messages")
		var receipts []string
		for i := range n {
			id := fmt.Sprintf("m%d", i)
			p.now = p.now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * time.Second)
			p.says(id, said(rapid.IntRange(1, 2).Draw(t, "to"), rapid.IntRange(1, 2).Draw(t, "text")))
			switch rapid.IntRange(0, 3).Draw(t, "outcome") {
			case 0:
				p.accepted(id, 1, "")
				for range rapid.IntRange(0, 3).Draw(t, "receipts") {
					receipts = append(receipts, id)
				}
			case 1:
				p.refused(id, 1)
			case 2:
				p.deferred(id, 1, 1, events.DispatchDeferred{})
			}
		}
		about := len(p.log) // a receipt stands behind what it is about: until then nobody knows whose it is
		for _, id := range receipts {
			p.receipt(id, rapid.SampledFrom([]string{"sent", "delivered", "read", "failed"}).Draw(t, "receipt"))
		}
		cut := rapid.IntRange(0, len(p.log)).Draw(t, "cut")
		live := New(instance, DefaultRules())
		for _, r := range p.log[:cut] {
			live.Apply(r)
			live.Compact(r.Position.Sequence, r.Time)
		}
		read, err := DecodeState(live.AppendState(nil), DefaultRules())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.log[cut:] {
			read.Apply(r)
			read.Compact(r.Position.Sequence, r.Time)
		}
		mixed := New(instance, DefaultRules())
		for _, r := range rapid.Permutation(p.log[:about]).Draw(t, "order") {
			mixed.Apply(r)
		}
		for _, r := range rapid.Permutation(p.log[about:]).Draw(t, "order of receipts") {
			mixed.Apply(r)
			mixed.Apply(r)
		}
		whole := p.queue(DefaultRules())
		for to := range 3 {
			for text := range 3 {
				want := whole.Repeats("me", said(to, text), p.now)
				if a, b := read.Repeats("me", said(to, text), p.now), mixed.Repeats("me", said(to, text), p.now); a != want || b != want {
					t.Fatalf("to %d text %d: %v, from a snapshot %v, in another order %v", to, text, want, a, b)
				}
			}
		}
	})
}

func TestWhatIsRememberedOfTextsIsBounded(t *testing.T) {
	t.Parallel()
	p := newTape()
	for i := range keptSaid + 10 {
		p.says(fmt.Sprintf("m%d", i), said(i, 1))
	}
	q := p.queue(DefaultRules())
	if len(q.said) != keptSaid || q.Repeats("me", said(9, 1), p.now) || !q.Repeats("me", said(10, 1), p.now) {
		t.Errorf("%d are remembered", len(q.said))
	}
	p.at(2 * keepSaid.Seconds()).instance("opened")
	q.Apply(p.log[len(p.log)-1])
	q.Compact(p.seq, p.now)
	if len(q.said) != 0 {
		t.Errorf("%d are remembered after an hour", len(q.said))
	}
}
