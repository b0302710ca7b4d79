package views_test

import (
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/views"
)

func idsOf(list []views.Awaited) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.ID)
	}
	return out
}

// C1 17, 18: what left and has no receipt is found once it is late, until it is said to be overdue; what has one is not.
func TestC1AwaitedMessagesAreFound(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := logtest.New(9)
	id := log.ID
	left := func(n int, instance string) {
		log.Queued(t, id(n), "acme", instance)
		log.Append(t, instance, logtest.About(events.TypeDispatchStarted, id(n), 1, &events.DispatchStarted{}))
		e := logtest.About(events.TypeDispatchAccepted, id(n), 1, &events.DispatchAccepted{HTTPStatus: 201})
		e.GatewayID = "3EB0" + id(n)[4:8]
		log.Append(t, instance, e)
	}
	receipt := func(n int, typ string) {
		at := logtest.Start.Add(time.Minute)
		log.Append(t, "inst-a", logtest.About(typ, id(n), 0, &events.Receipt{GatewayStatus: "X", At: at, ReceivedAt: at}))
	}
	left(1, "inst-a") // nothing
	left(2, "inst-a") // sent
	receipt(2, events.TypeReceiptSent)
	left(3, "inst-a") // delivered
	receipt(3, events.TypeReceiptDelivered)
	left(4, "inst-a") // refused later
	receipt(4, events.TypeReceiptFailed)
	left(5, "inst-a") // said to be overdue
	log.Append(t, "inst-a", logtest.About(events.TypeEvidenceAckOverdue, id(5), 0, &events.EvidenceAckOverdue{AfterMS: 1}))
	left(6, "inst-b")
	left(7, "inst-b")
	log.Queued(t, id(8), "acme", "inst-b") // never tried
	log.Queued(t, id(9), "acme", "inst-b") // may have left
	log.Append(t, "inst-b", logtest.About(events.TypeDispatchStarted, id(9), 1, &events.DispatchStarted{}))
	log.Append(t, "inst-b", logtest.About(events.TypeDispatchUnknown, id(9), 1, &events.DispatchUnknown{}))
	left(10, "inst-a") // was said to be overdue, and got its receipt
	log.Append(t, "inst-a", logtest.About(events.TypeEvidenceAckOverdue, id(10), 0, &events.EvidenceAckOverdue{AfterMS: 1}))
	receipt(10, events.TypeReceiptSent)
	project(t, pool, log)
	v := views.New(pool)

	later, until := logtest.Start.Add(time.Hour), logtest.Start.Add(time.Hour)
	for name, tt := range map[string]struct {
		ask  func() ([]views.Awaited, error)
		want []string
	}{
		"unacknowledged":  {func() ([]views.Awaited, error) { return v.Unacknowledged(t.Context(), 9, later, 5, nil) }, []string{id(1), id(6), id(7)}},
		"a few of each":   {func() ([]views.Awaited, error) { return v.Unacknowledged(t.Context(), 9, later, 1, nil) }, []string{id(1), id(6)}},
		"none is late":    {func() ([]views.Awaited, error) { return v.Unacknowledged(t.Context(), 9, logtest.Start, 5, nil) }, nil},
		"other partition": {func() ([]views.Awaited, error) { return v.Unacknowledged(t.Context(), 8, later, 5, nil) }, nil},
		"undelivered": {
			func() ([]views.Awaited, error) { return v.Undelivered(t.Context(), 9, later, 5, nil) },
			[]string{id(1), id(2), id(5), id(10), id(6), id(7)},
		},
		"unended": {
			func() ([]views.Awaited, error) {
				return v.Unended(t.Context(), 9, until.Add(time.Second), until.Add(time.Second), 5, nil)
			}, []string{id(8), id(9)},
		},
		"what is unknown waits longer": {
			func() ([]views.Awaited, error) {
				return v.Unended(t.Context(), 9, until.Add(time.Second), until, 5, nil)
			}, []string{id(8)},
		},
		"not over": {func() ([]views.Awaited, error) { return v.Unended(t.Context(), 9, until, until, 5, nil) }, nil},
	} {
		got, err := tt.ask()
		if err != nil || !slices.Equal(idsOf(got), tt.want) {
			t.Errorf("%s: %v, %v, want %v", name, idsOf(got), err, tt.want)
		}
	}
	got, err := v.Unacknowledged(t.Context(), 9, later, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := got[0]; a.TenantID != "acme" || a.InstanceID != "inst-a" || a.GatewayID == "" || a.Queued != (events.Position{Partition: 9, Sequence: 1}) ||
		a.Stage != events.StageDispatched || a.DispatchedAt.IsZero() || !a.DeliverUntil.Equal(until) || a.Checkpoint != uint64(len(log.All())) {
		t.Errorf("%+v", a)
	}
	if n, err := v.Overdue(t.Context(), 9, 10); err != nil || n != 1 {
		t.Errorf("%d overdue, %v", n, err)
	}
	for n, want := range map[int]bool{1: false, 5: true, 10: false} {
		if m, err := v.Message(t.Context(), scope("acme"), id(n)); err != nil || m.AckOverdue != want {
			t.Errorf("message %d: overdue %v, %v", n, m.AckOverdue, err)
		}
	}
	pool.Close()
	if _, err := v.Unended(t.Context(), 9, later, later, 5, nil); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("without Postgres: %v", err)
	}
}

// However many wait at one instance, of each a few are read; what was reached is passed, and what was corrected waits for nothing.
func TestManyThatWaitHideNoOther(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := logtest.New(9)
	id := log.ID
	about := func(typ string, n int, attempt int, body any) {
		log.Append(t, "inst-"+string(rune('a'+n)), logtest.About(typ, id(n), attempt, body))
	}
	for n := range 3 { // of inst-a, inst-b and inst-c
		log.Queued(t, id(n), "acme", "inst-"+string(rune('a'+n)))
		about(events.TypeDispatchStarted, n, 1, &events.DispatchStarted{})
	}
	at := logtest.Start.Add(time.Minute)
	for n := range 2 {
		about(events.TypeDispatchAccepted, n, 1, &events.DispatchAccepted{HTTPStatus: 201})
		about(events.TypeReceiptSent, n, 0, &events.Receipt{GatewayStatus: "SERVER_ACK", At: at, ReceivedAt: at})
	}
	about(events.TypeDispatchUnknown, 2, 1, &events.DispatchUnknown{})
	about(events.TypeDispatchClosed, 2, 0, &events.DispatchClosed{
		Reason: events.ClosedTimeout, Code: events.FailDeliveryTimeout, Presumed: true, Messages: []events.ClosedMessage{{ID: id(2), QueuedSeq: 5}},
	})
	about(events.TypeDispatchProved, 2, 1, &events.DispatchProved{By: events.ProofReceipt})
	about(events.TypeReceiptSent, 2, 0, &events.Receipt{GatewayStatus: "SERVER_ACK", At: at, ReceivedAt: at})
	project(t, pool, log)
	if m, err := views.New(pool).Message(t.Context(), scope("acme"), id(2)); err != nil || m.Stage != events.StageSent || !m.Corrected || m.DispatchedAt.IsZero() {
		t.Fatalf("%+v, %v", m, err)
	}
	var names string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(column_name, ', ') FROM information_schema.columns
		WHERE table_schema = 'pilot' AND table_name = 'messages' AND column_name NOT IN ('id', 'dispatched_at')`).Scan(&names); err != nil {
		t.Fatal(err)
	}
	const many = 25_000
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	_, err = conn.Exec(t.Context(), `SET statement_timeout = 0`) // a busy machine takes its time for so many
	if err == nil {
		_, err = conn.Exec(t.Context(), `INSERT INTO messages (id, dispatched_at, `+names+`)
			SELECT m.id || '-' || lpad(g::text, 5, '0'), m.dispatched_at - interval '1 hour', `+names+` FROM messages m, generate_series(1, $1) g WHERE m.id = $2`, many, id(0))
	}
	if err == nil {
		_, err = conn.Exec(t.Context(), `ANALYZE messages`)
	}
	if err != nil {
		t.Fatal(err)
	}
	v, later := views.New(pool), logtest.Start.Add(time.Hour)
	read := func(perInstance int, reached ...views.Reached) (a, b []views.Awaited) {
		t.Helper()
		list, err := v.Undelivered(t.Context(), 9, later, perInstance, reached)
		if err != nil {
			t.Fatal(err)
		}
		for len(a) < len(list) && list[len(a)].InstanceID == "inst-a" {
			a = list[:len(a)+1]
		}
		return a, list[len(a):]
	}
	a, b := read(3)
	if len(a) != 3 || !a[2].More || len(b) != 1 || b[0].ID != id(1) || b[0].More || !b[0].Since.Equal(b[0].DispatchedAt) {
		t.Fatalf("%+v, %+v", a, b)
	}
	next, b := read(3, views.Reached{InstanceID: "inst-a", Since: a[2].Since, ID: a[2].ID})
	if len(next) != 3 || next[0].ID != id(0)+"-00004" || len(b) != 1 {
		t.Errorf("behind %s: %v and %v", a[2].ID, idsOf(next), idsOf(b))
	}
	end, _ := read(3, views.Reached{InstanceID: "inst-a", Since: a[2].Since, ID: id(0) + "-25000"})
	if len(end) != 1 || end[0].ID != id(0) || end[0].More {
		t.Errorf("at the end: %+v", end)
	}
	if a, b = read(many); len(a) != 10_000 || !a[0].More || len(b) != 1 { // half of what one question gives
		t.Errorf("%d of one, %d of the other", len(a), len(b))
	}
	pages, plan := explain(t, pool, views.SelectUndelivered, []any{
		int16(9), later, 3, 20_000, projector.View, []string{}, []time.Time{}, []string{},
	})
	if pages > 60 {
		t.Errorf("%d pages:\n%s", pages, plan)
	}
}
