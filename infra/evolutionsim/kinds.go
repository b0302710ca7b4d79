package evolutionsim

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// delayFault holds the request up, whatever the client does meanwhile.
type delayFault struct {
	nothing
	d    time.Duration
	late bool
}

func (f delayFault) before(x *exchange) bool { return !f.late && f.hold(x) }

func (f delayFault) after(x *exchange, _ *reply) bool { return f.late && f.hold(x) }

func (f delayFault) hold(x *exchange) bool {
	if !x.wait(f.d) {
		x.abort()
	}
	return false
}

// hangFault never answers.
type hangFault struct {
	nothing
	late bool
}

func (f hangFault) before(x *exchange) bool { return !f.late && x.hang() }

func (f hangFault) after(x *exchange, _ *reply) bool { return f.late && x.hang() }

// answerFault answers something else.
type answerFault struct {
	nothing
	reply reply
	late  bool
}

func newAnswerFault(f Fault) (kind, error) {
	if f.Status < 200 || f.Status > 599 {
		return nil, fmt.Errorf("an answer of status %d cannot be sent", f.Status)
	}
	return answerFault{reply: reply{f.Status, f.ContentType, f.Headers, []byte(f.Body)}, late: f.late()}, nil
}

func (f answerFault) before(x *exchange) bool {
	if f.late {
		return false
	}
	x.finish()
	f.reply.write(x.w)
	return true
}

func (f answerFault) after(_ *exchange, r *reply) bool {
	if f.late {
		*r = f.reply
	}
	return false
}

// resetFault breaks the connection with a TCP reset instead of an answer.
type resetFault struct {
	nothing
	late bool
}

func (f resetFault) before(x *exchange) bool {
	if !f.late {
		x.reset()
	}
	return !f.late
}

func (f resetFault) after(x *exchange, _ *reply) bool {
	if f.late {
		x.reset()
	}
	return f.late
}

// reset closes the client's connection so that it sees a reset, not an end.
func (x *exchange) reset() {
	x.finish()
	hijacked, _, err := x.control().Hijack()
	if err != nil {
		return
	}
	if tcp, ok := hijacked.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the client sees an end, which is a fault too
	}
	_ = hijacked.Close()
}

// receiptsFault alters the receipts of a message.
type receiptsFault struct {
	nothing
	mode     string
	copies   int
	extra    time.Duration
	jid      string
	statuses []string
}

func newReceiptsFault(f Fault) (kind, error) {
	switch f.Mode {
	case "lost", "duplicated", "reversed", "early", "error", "rowless", "unposted", "late":
	default:
		return nil, fmt.Errorf("unknown mode %q of receipts", f.Mode)
	}
	if f.Copies == 0 {
		f.Copies = 2
	}
	return receiptsFault{mode: f.Mode, copies: f.Copies, extra: f.delay(), jid: f.JID, statuses: f.Statuses}, nil
}

func (f receiptsFault) applies(r receipt) bool {
	return len(f.statuses) == 0 || slices.Contains(f.statuses, r.status)
}

func (f receiptsFault) plan(t *taking) {
	var planned []receipt
	for _, r := range t.receipts {
		if !f.applies(r) {
			planned = append(planned, r)
			continue
		}
		r.delay += f.extra
		r.jid = f.jid
		switch f.mode {
		case "lost", "error":
		case "early":
			t.early = append(t.early, r)
		case "duplicated":
			for range f.copies {
				planned = append(planned, r)
			}
		default:
			r.unposted = f.mode == "unposted"
			planned = append(planned, r)
		}
	}
	switch f.mode {
	case "error":
		planned = append(planned, receipt{status: "ERROR", delay: f.extra})
	case "reversed":
		reverse(planned)
	case "rowless":
		t.withoutRow = true
	case "early":
		if len(t.early) == 0 {
			for _, status := range f.statuses {
				t.early = append(t.early, receipt{status: status})
			}
		}
	}
	t.receipts = planned
}

// reverse swaps the statuses and keeps the times.
func reverse(list []receipt) {
	for a, b := 0, len(list)-1; a < b; a, b = a+1, b-1 {
		list[a].status, list[b].status = list[b].status, list[a].status
	}
}

// unsavedFault lets the message leave and the gateway's database fail afterwards.
type unsavedFault struct{ nothing }

func (unsavedFault) plan(t *taking) { t.unsaved = true }

// misrouteFault sends to somebody else, as the gateway's cache of numbers can.
type misrouteFault struct {
	nothing
	jid string
}

func newMisrouteFault(f Fault) (kind, error) {
	if f.JID == "" {
		return nil, errors.New("misroute needs a jid")
	}
	return misrouteFault{jid: f.JID}, nil
}

func (f misrouteFault) before(x *exchange) bool {
	x.misroute = f.jid
	return false
}

// renamedFault gives the message an id of the gateway's own, whatever id it was told to use.
type renamedFault struct{ nothing }

func (renamedFault) plan(t *taking) { t.message.keyID = keyID() }
