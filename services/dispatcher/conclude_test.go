package dispatcher

import (
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

// attempt is a suspect: of a message, in a slot, whose start stands at seq.
func attempt(id string, slot uint8, seq uint64, change func(*suspect)) suspect {
	s := suspect{message: events.ClosedMessage{ID: id}, attempt: 1, slot: slot, startSeq: seq, since: time.Unix(int64(seq), 0)}
	if change != nil {
		change(&s)
	}
	return s
}

func underWay(s *suspect) { s.open = true }

// An instance that sends without a pause is looked up all the same: what is under way counts where it was asked about, hinders where it
// began meanwhile, to this recipient as far as its slot tells, and is nothing to rows that were read before it.
func TestLookUpsConcludeWhileCallsGoOn(t *testing.T) {
	t.Parallel()
	doubt := attempt("doubt", 1, 10, nil)
	twin := attempt("twin", 1, 12, underWay)
	for name, c := range map[string]struct {
		asked, group, now []suspect
		settled           bool
		left              int
	}{
		"nothing else":                    {[]suspect{doubt}, []suspect{doubt}, []suspect{doubt}, true, 1},
		"another call, asked about":       {[]suspect{doubt, twin}, []suspect{doubt}, []suspect{doubt, twin}, true, 1},
		"the same text, asked about":      {[]suspect{doubt, twin}, []suspect{doubt, twin}, []suspect{doubt, twin}, true, 2},
		"the same text, answered by now":  {[]suspect{doubt, twin}, []suspect{doubt, twin}, []suspect{doubt}, true, 1},
		"one began while rows were read":  {[]suspect{doubt}, []suspect{doubt}, []suspect{doubt, attempt("new", 1, 21, underWay)}, false, 1},
		"and has become unknown":          {[]suspect{doubt}, []suspect{doubt}, []suspect{doubt, attempt("new", 1, 21, nil)}, false, 1},
		"one began to another recipient":  {[]suspect{doubt}, []suspect{doubt}, []suspect{doubt, attempt("new", 2, 21, underWay)}, true, 1},
		"one began after they were read":  {[]suspect{doubt}, []suspect{doubt}, []suspect{doubt, attempt("new", 1, 31, underWay)}, true, 1},
		"all that was under way is known": {[]suspect{twin}, []suspect{twin}, nil, false, 0},
	} {
		g := &sameText{suspects: c.group, seq: 30}
		if settled := g.settle(c.now, lookupResult{asked: c.asked, seq: 20}); settled != c.settled || len(g.suspects) != c.left {
			t.Errorf("%s: settled %v, %d left", name, settled, len(g.suspects))
		}
	}
}

// Rows belong to whom they can be told to belong to, and to nobody where they cannot.
func TestRowsAreAttributed(t *testing.T) {
	t.Parallel()
	row := func(id string, at int64) evolution.Record {
		return evolution.Record{KeyID: id, Timestamp: time.Unix(at, 0), FromMe: true}
	}
	chose := func(id string) func(*suspect) { return func(s *suspect) { s.chosen = id } }
	second := func(s *suspect) { s.attempt = 2 }
	a, b := attempt("a", 1, 100, nil), attempt("b", 1, 200, nil)
	again := attempt("a", 1, 400, second)
	for name, c := range map[string]struct {
		suspects []suspect
		rows     []evolution.Record
		want     map[string]string // row → message and attempt
		free     int
	}{
		"one":                            {[]suspect{a}, []evolution.Record{row("K", 101)}, map[string]string{"K": "a1"}, 1},
		"as many":                        {[]suspect{a, b}, []evolution.Record{row("K", 101), row("L", 201)}, map[string]string{"K": "a1", "L": "b1"}, 2},
		"fewer prove none":               {[]suspect{a, b}, []evolution.Record{row("K", 101)}, nil, 1},
		"rows of others do not count":    {[]suspect{a}, []evolution.Record{row("bound", 101)}, nil, 0},
		"by the chosen id":               {[]suspect{a, attempt("b", 1, 200, chose("L"))}, []evolution.Record{row("L", 201)}, map[string]string{"L": "b1"}, 1},
		"reserved for it":                {[]suspect{attempt("b", 1, 200, chose("bound"))}, []evolution.Record{row("bound", 201)}, map[string]string{"bound": "b1"}, 0},
		"left under another id":          {[]suspect{attempt("b", 1, 200, chose("bound"))}, []evolution.Record{row("L", 201)}, map[string]string{"L": "b1"}, 1},
		"one of two under another id":    {[]suspect{a, attempt("b", 1, 200, chose("bound"))}, []evolution.Record{row("L", 201)}, nil, 1},
		"the first attempt of a message": {[]suspect{a, again}, []evolution.Record{row("K", 103)}, map[string]string{"K": "a1"}, 1},
		"older than either of two":       {[]suspect{a, b}, []evolution.Record{row("K", 101), row("L", 102)}, nil, 2},
		"one older than both":            {[]suspect{a, b}, []evolution.Record{row("J", 90), row("K", 101), row("L", 201)}, map[string]string{"K": "a1", "L": "b1"}, 3},
		"older than a message's first":   {[]suspect{a, again}, []evolution.Record{row("K", 90)}, nil, 1},
		"the second":                     {[]suspect{a, again}, []evolution.Record{row("K", 401)}, map[string]string{"K": "a2"}, 1},
	} {
		g := &sameText{suspects: c.suspects, rows: c.rows}
		proofs, free := g.attribute(func(id string) bool { return id == "bound" })
		got := map[string]string{}
		for _, p := range proofs {
			got[p.row.KeyID] = p.s.message.ID + string(rune('0'+p.s.attempt))
		}
		if free != c.free || len(got) != len(c.want) {
			t.Errorf("%s: %v, %d free", name, got, free)
		}
		for id, want := range c.want {
			if got[id] != want {
				t.Errorf("%s: %s is of %q, want %q", name, id, got[id], want)
			}
		}
	}
}
