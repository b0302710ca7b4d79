package views_test

import (
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
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
		"unacknowledged":  {func() ([]views.Awaited, error) { return v.Unacknowledged(t.Context(), 9, later, 5) }, []string{id(1), id(6), id(7)}},
		"a few of each":   {func() ([]views.Awaited, error) { return v.Unacknowledged(t.Context(), 9, later, 1) }, []string{id(1), id(6)}},
		"none is late":    {func() ([]views.Awaited, error) { return v.Unacknowledged(t.Context(), 9, logtest.Start, 5) }, nil},
		"other partition": {func() ([]views.Awaited, error) { return v.Unacknowledged(t.Context(), 8, later, 5) }, nil},
		"undelivered": {
			func() ([]views.Awaited, error) { return v.Undelivered(t.Context(), 9, later, 5) },
			[]string{id(1), id(2), id(5), id(10), id(6), id(7)},
		},
		"unended": {
			func() ([]views.Awaited, error) {
				return v.Unended(t.Context(), 9, until.Add(time.Second), until.Add(time.Second), 5)
			}, []string{id(8), id(9)},
		},
		"what is unknown waits longer": {
			func() ([]views.Awaited, error) { return v.Unended(t.Context(), 9, until.Add(time.Second), until, 5) }, []string{id(8)},
		},
		"not over": {func() ([]views.Awaited, error) { return v.Unended(t.Context(), 9, until, until, 5) }, nil},
	} {
		got, err := tt.ask()
		if err != nil || !slices.Equal(idsOf(got), tt.want) {
			t.Errorf("%s: %v, %v, want %v", name, idsOf(got), err, tt.want)
		}
	}
	got, err := v.Unacknowledged(t.Context(), 9, later, 1)
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
	if _, err := v.Unended(t.Context(), 9, later, later, 5); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("without Postgres: %v", err)
	}
}
