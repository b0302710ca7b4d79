package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// tap keeps what goes to the gateway, request by request.
type tap struct {
	mu  sync.Mutex
	all []string
}

func (p *tap) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &tapped{Conn: c, tap: p}, err
}

type tapped struct {
	net.Conn
	tap *tap
}

func (c *tapped) Write(b []byte) (int, error) {
	c.tap.mu.Lock()
	c.tap.all = append(c.tap.all, string(bytes.Clone(b)))
	c.tap.mu.Unlock()
	return c.Conn.Write(b)
}

// position gives which request was the first to name a text; -1 when none did.
func (p *tap) position(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.IndexFunc(p.all, func(r string) bool { return strings.Contains(r, text) })
}

// calls gives the sends and presences, in order, that name a text or a number.
func (p *tap) calls(name string) []string { return p.of(name, "sendPresence", "sendText") }

// of gives those of some calls, in order, that name a text or a number.
func (p *tap) of(name string, calls ...string) (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.all {
		if !strings.Contains(r, name) {
			continue
		}
		for _, call := range calls {
			if strings.Contains(r, "/"+call+"/") {
				out = append(out, call)
			}
		}
	}
	return out
}

func withTap(t *testing.T) (*rig, *tap) {
	t.Helper()
	r, p := newRig(t), &tap{}
	r.dial = p.dial
	return r, p
}

// shared makes the instance the platform's, fast.
func (r *rig) shared() {
	r.t.Helper()
	inst := r.instance()
	inst.Shared, inst.TenantID, inst.Pace = true, events.PlatformTenant, events.Pace{RatePerMinute: 60_000}
	r.catalog.define(inst)
}

// On a shared number somebody is seen to type before a message comes, and not before a code; on an own one where it is set. The
// gateway's answer does not matter.
func TestSomebodyTypesBeforeAMessageComes(t *testing.T) {
	t.Parallel()
	r, p := withTap(t)
	r.shared()
	r.run(quick())
	typed := func(o order, number string, want string) {
		t.Helper()
		o.number = number
		id := r.accept(o)
		r.awaitStage(id, events.StageDispatched)
		if got := strings.Join(p.calls(number[4:]), " "); got != want {
			t.Errorf("%s: %s, want %s", o.text, got, want)
		}
	}
	utility := order{class: events.ClassUtility, text: "typed."}
	typed(utility, "5511988887701", "sendPresence sendText")
	typed(order{text: "1234"}, "5511988887702", "sendText")
	r.fault(evolutionsim.Fault{Kind: "answer", Call: "sendPresence", Status: 400, Body: `["Error: Connection Closed"]`, Times: 1})
	typed(utility, "5511988887703", "sendPresence sendText")
	own := r.instance()
	r.catalog.define(own)
	typed(utility, "5511988887704", "sendText")
	on := true
	own.Typing = &on
	r.catalog.define(own)
	typed(utility, "5511988887705", "sendPresence sendText")
	retried := order{class: events.ClassUtility, text: "later.", number: "5511988887706"}
	r.fault(evolutionsim.Fault{Kind: "answer", Status: 429, Body: `{"status":429}`, TextContains: "later.", Times: 1})
	typed(retried, "5511988887706", "sendPresence sendText sendText")
}

// A code that comes while somebody types for another message goes before it: the other gives way once.
func TestACodeDoesNotWaitForTyping(t *testing.T) {
	t.Parallel()
	r, p := withTap(t)
	r.shared()
	set := quick()
	set.TypingRune = time.Hour // as long as it may
	r.run(set)
	r.awaitStage(r.accept(order{text: "0000", number: "5511988887700"}), events.StageDispatched)
	const tries = 5 // a machine that stands still may type to the end before the code is there
	for n := range tries {
		name := fmt.Sprintf("8888771%d", n)
		slow := r.accept(order{class: events.ClassUtility, text: fmt.Sprintf("slowly typed %d.", n), number: "55119" + name})
		eventually(t, "somebody types", func() bool { return len(p.calls(name)) == 1 }, nil)
		code := r.accept(order{text: fmt.Sprint("123", n), number: fmt.Sprintf("551198888772%d", n)})
		r.awaitStage(code, events.StageDispatched)
		r.awaitStage(slow, events.StageDispatched)
		s, _ := r.state(code)
		other, _ := r.state(slow)
		if other.Record[0].Seq < s.Queued.Position.Sequence {
			t.Log("it was typed before the code came")
			continue
		}
		if s.Record[0].Seq > other.Record[0].Seq {
			t.Errorf("the code waited:\n%s%s", r.story(code), r.story(slow))
		}
		if got := strings.Join(p.calls(name), " "); got != "sendPresence sendText" {
			t.Errorf("the other: %s", got)
		}
		return
	}
	t.Errorf("no code came while somebody typed, in %d tries", tries)
}

// A code that comes while what another message needs before its call is still asked for goes before it: the other had no call yet.
func TestACodeDoesNotWaitForATurnWithoutACall(t *testing.T) {
	t.Parallel()
	r, p := withTap(t)
	r.run(quick())
	r.awaitStage(r.accept(order{text: "0000", number: "5511988887702"}), events.StageDispatched) // its number is known from here on
	r.fault(evolutionsim.Fault{Kind: "delay", Call: "whatsappNumbers", DelayMS: 4000, Times: 1}) // the code is there by then
	slow := r.accept(order{class: events.ClassMarketing, text: "an offer.", number: "5511988887701"})
	eventually(t, "its number is asked for", func() bool { return len(p.of("88887701", "whatsappNumbers")) == 1 }, nil)
	r.awaitStage(r.accept(order{text: "1234", number: "5511988887702"}), events.StageDispatched)
	r.awaitStage(slow, events.StageDispatched)
	if got := strings.Join(p.of("88887701", "whatsappNumbers", "sendText"), " "); got != "whatsappNumbers sendText" {
		t.Errorf("calls for the offer: %s", got)
	}
	first, last := p.position("1234"), p.position("an offer.")
	if first < 0 || last < first {
		t.Errorf("the code was request %d, the offer %d", first, last)
	}
}

// C1 case 25: the gateway fetches a preview of a link before it sends; a code does not wait for that, whatever was accepted.
func TestC1Case25NoLinkPreviewForCodes(t *testing.T) {
	t.Parallel()
	r, p := withTap(t)
	r.run(quick())
	previewed := func(o order) bool {
		o.preview = true
		r.awaitStage(r.accept(o), events.StageDispatched)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, call := range p.all {
			if strings.Contains(call, o.text) {
				return !strings.Contains(call, `"linkPreview":false`)
			}
		}
		t.Fatalf("%s was not sent", o.text)
		return false
	}
	if previewed(order{text: "1234 https-one"}) {
		t.Error("a code has a preview")
	}
	if !previewed(order{text: "see https-two", class: events.ClassUtility}) {
		t.Error("the other has none: nothing was tried")
	}
}
