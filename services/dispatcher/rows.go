package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolution"
)

// sameText is attempts that the gateway's rows cannot tell apart, and what is stored at the gateway for their recipient.
type sameText struct {
	number, text string
	suspects     []suspect // oldest first
	from, to     time.Time // before the first question and after the last answer
	seq          uint64    // of the fenced group after the last answer: what began later has no row among these

	rows []evolution.Record // with the text, or the very id that a suspect chose; oldest first
	// strangers have another text, or stand under another name of the recipient, or were composed at another time than a suspect's would be,
	// unless the gateway's clock is off: they prove nothing, and are to be explained.
	strangers []evolution.Record
	complete  bool // the gateway resolved the number, every row was read, and no other suspect may have one of them
	dim       bool // a suspect of the same slot could not be read: any row may be its
}

// lookSlack is how far the gateway's clock, which gives whole seconds, may be off ours for a row to prove anything.
const lookSlack = 5 * time.Second

// ask groups the suspects by number and text, and finds the rows of each group at the gateway, each within LookUpLimit. It ends
// at the first that gets no answer, with those before it; the next look-up begins behind that one, so none waits for ever.
func (a *actor) ask(ctx context.Context, inst events.Instance, all []suspect) ([]*sameText, error) {
	client, err := a.p.d.gateways.client(ctx, inst)
	if err != nil {
		return nil, fmt.Errorf("open gateway: %w", err)
	}
	type key struct{ number, text string }
	found := map[key]*sameText{}
	var groups []*sameText
	unread := map[uint8]bool{} // slots
	for _, s := range all {
		p, err := a.payload(ctx, s.message.QueuedSeq)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		if err != nil { // it may be lost for good: the others are asked about
			a.log.Warn().Err(err).Str("message", s.message.ID).Msg("what was sent cannot be read, and is not looked for")
			unread[s.slot] = true
			continue
		}
		k := key{recipient.Canonical(p.Digits), storedText(p.Content)} // both spellings of a number are one recipient
		g := found[k]
		if g == nil {
			g = &sameText{number: k.number, text: k.text}
			found[k], groups = g, append(groups, g)
		}
		g.suspects = append(g.suspects, s)
	}
	for _, g := range groups {
		g.dim = unread[g.suspects[0].slot]
	}
	var answered []*sameText
	from := a.lookFrom % max(1, len(groups))
	for i := range groups {
		g := groups[(from+i)%len(groups)]
		limited, cancel := context.WithTimeout(ctx, a.p.d.set.LookUpLimit)
		err = a.find(limited, client, inst, g)
		cancel()
		if err != nil {
			a.lookFrom = from + i + 1
			return answered, err
		}
		answered = append(answered, g)
	}
	return answered, nil
}

// payload reads what an accepted message says, and to whom.
func (a *actor) payload(ctx context.Context, seq uint64) (events.Payload, error) {
	rec, err := a.read(ctx, seq)
	if err != nil {
		return events.Payload{}, fmt.Errorf("read accepted message: %w", err)
	}
	return a.unseal(ctx, *rec)
}

// find reads what the gateway has stored for the recipient since the oldest suspect, under each form of the number, and under the ids
// that the suspects chose; and what it has stored an hour before and after, since its clock may be off.
func (a *actor) find(ctx context.Context, client *evolution.Client, inst events.Instance, g *sameText) error {
	g.from = a.p.d.set.Now()
	at, complete := a.addresses(ctx, client, inst, g.number)
	since, until := g.suspects[0].since.Add(-queue.LookBack), g.from.Add(queue.LookBack)
	var all, others []evolution.Record
	for _, jid := range append(at.jids, at.lids...) {
		found, err := client.FindMessages(ctx, evolution.Query{Instance: inst.Name, RemoteJID: jid, From: since, To: until})
		if err != nil {
			return fmt.Errorf("find messages: %w", err)
		}
		complete = complete && found.Complete
		if slices.Contains(at.lids, jid) { // nothing is bound by such a name
			others = append(others, found.Records...)
		} else {
			all = append(all, found.Records...)
		}
	}
	for _, s := range g.suspects {
		if s.chosen == "" {
			continue
		}
		found, err := client.FindMessages(ctx, evolution.Query{Instance: inst.Name, KeyID: s.chosen})
		if err != nil {
			return fmt.Errorf("find message by its id: %w", err)
		}
		all = append(all, found.Records...)
	}
	g.to = a.p.d.set.Now()
	g.take(all, others, g.to.Add(lookSlack))
	g.complete = complete && !g.dim
	a.mu.Lock()
	g.seq = a.q.GroupSequence() // a start is folded before it is called (rule R4)
	a.mu.Unlock()
	return nil
}

// take sorts what was found under the number, and under other names, into what may be a suspect's and what is to be explained: that is the
// very text at whatever time, and any text at a suspect's time.
func (g *sameText) take(found, others []evolution.Record, until time.Time) {
	seen := map[string]bool{}
	since := g.suspects[0].since.Add(-lookSlack)
	g.rows, g.strangers = nil, nil
	for i, r := range slices.Concat(found, others) {
		chosen := slices.ContainsFunc(g.suspects, func(s suspect) bool { return s.chosen != "" && s.chosen == r.KeyID })
		named, said, timely := i < len(found), r.Text == g.text, !r.Timestamp.Before(since) && !r.Timestamp.After(until)
		switch {
		case !r.FromMe, seen[r.KeyID]:
		case named && (chosen || said && timely):
			g.rows = append(g.rows, r)
		case said, timely:
			g.strangers = append(g.strangers, r)
		}
		seen[r.KeyID] = true
	}
	slices.SortFunc(g.rows, func(x, y evolution.Record) int {
		return cmp.Or(x.Timestamp.Compare(y.Timestamp), cmp.Compare(x.KeyID, y.KeyID))
	})
}
