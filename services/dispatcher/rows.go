package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/infra/evolution"
)

// sameText is attempts that the gateway's rows cannot tell apart, and what is stored at the gateway for their recipient.
type sameText struct {
	number, text string
	suspects     []suspect // oldest first
	from, to     time.Time // before the first question and after the last answer
	seq          uint64    // of the fenced group after the last answer: what began later has no row among these

	rows      []evolution.Record // with the text, or the very id that a suspect chose; oldest first
	strangers []evolution.Record // with another text, or under another name of the recipient: they prove nothing, and are to be explained
	complete  bool               // the gateway resolved the number and every row was read
}

// lookSlack is how far the gateway's clock, which gives whole seconds, may be off ours.
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
	for _, s := range all {
		rec, err := a.read(ctx, s.message.QueuedSeq)
		if err != nil {
			return nil, fmt.Errorf("read accepted message: %w", err)
		}
		p, err := a.unseal(ctx, *rec)
		if err != nil {
			return nil, err
		}
		k := key{recipient.Canonical(p.Digits), storedText(p.Content)} // both spellings of a number are one recipient
		g := found[k]
		if g == nil {
			g = &sameText{number: k.number, text: k.text}
			found[k], groups = g, append(groups, g)
		}
		g.suspects = append(g.suspects, s)
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

// find reads what the gateway has stored for the recipient since the oldest suspect, under each form of the number, and under the ids
// that the suspects chose.
func (a *actor) find(ctx context.Context, client *evolution.Client, inst events.Instance, g *sameText) error {
	g.from = a.p.d.set.Now()
	at, complete := a.addresses(ctx, client, inst, g.number)
	since, until := g.suspects[0].since.Add(-lookSlack), a.p.d.set.Now().Add(lookSlack)
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
	g.take(all, others)
	g.complete, g.to = complete, a.p.d.set.Now()
	a.mu.Lock()
	g.seq = a.q.GroupSequence() // a start is folded before it is called (rule R4)
	a.mu.Unlock()
	return nil
}

// take sorts what was found into what may be a suspect's and what is to be explained.
func (g *sameText) take(all, others []evolution.Record) {
	seen := map[string]bool{}
	g.rows, g.strangers = nil, others
	for _, r := range all {
		chosen := func(s suspect) bool { return s.chosen != "" && s.chosen == r.KeyID }
		switch {
		case !r.FromMe, seen[r.KeyID]:
		case r.Text == g.text, slices.ContainsFunc(g.suspects, chosen):
			g.rows = append(g.rows, r)
		default:
			g.strangers = append(g.strangers, r)
		}
		seen[r.KeyID] = true
	}
	slices.SortFunc(g.rows, func(x, y evolution.Record) int {
		return cmp.Or(x.Timestamp.Compare(y.Timestamp), cmp.Compare(x.KeyID, y.KeyID))
	})
}
