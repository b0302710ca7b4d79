package views_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/postgres"
	"pilotstatus.dev/infra/postgres/pgtest"
	"pilotstatus.dev/projections/logtest"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/schema"
	"pilotstatus.dev/projections/views"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	if err := schema.Migrate(t.Context(), url, schema.Default); err != nil {
		t.Fatal(err)
	}
	pool, err := schema.Open(t.Context(), url, schema.Default, postgres.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func project(t testing.TB, pool *pgxpool.Pool, log *logtest.Log) {
	t.Helper()
	all := log.All()
	if err := projector.New(pool, projector.Config{Gapless: true}).Apply(t.Context(), log.Partition, all, uint64(len(all))); err != nil {
		t.Fatal(err)
	}
}

func scope(tenant string) views.Scope {
	return views.Scope{Tenant: tenant, Project: "project-" + tenant, Environment: events.Live}
}

// sample is one message of acme that was tried twice, and one of globex that has the same WhatsApp id.
func sample(t *testing.T) *logtest.Log {
	t.Helper()
	log := logtest.New(9)
	one, two := log.ID(1), log.ID(2)
	log.Queued(t, one, "acme", "inst-a")
	log.Queued(t, two, "globex", "inst-b")
	with := func(e events.Event, gatewayID string) events.Event { e.GatewayID = gatewayID; return e }
	log.Append(t, "inst-a", with(logtest.About(events.TypeDispatchStarted, one, 1, &events.DispatchStarted{}), "3EB001"))
	log.Append(t, "inst-a", logtest.About(events.TypeDispatchUnknown, one, 1, &events.DispatchUnknown{}))
	log.Append(t, "inst-a", logtest.About(events.TypeDispatchAbsent, one, 1, &events.DispatchAbsent{}))
	log.Append(t, "inst-a", with(logtest.About(events.TypeDispatchStarted, one, 2, &events.DispatchStarted{}), "3EB002"))
	log.Append(t, "inst-a", with(logtest.About(events.TypeDispatchAccepted, one, 2, &events.DispatchAccepted{HTTPStatus: 201}), "3EB002"))
	log.Append(t, "inst-b", with(logtest.About(events.TypeDispatchAccepted, two, 1, &events.DispatchAccepted{HTTPStatus: 201}), "3EB002"))
	at := logtest.Start.Add(3 * time.Second)
	log.Append(t, "inst-a", logtest.About(events.TypeReceiptRead, one, 0, &events.Receipt{GatewayStatus: "READ", At: at, ReceivedAt: at}))
	return log
}

func TestMessageByEachOfItsIDs(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := sample(t)
	project(t, pool, log)
	v := views.New(pool)
	id := log.ID(1)
	at := func(seq int) time.Time { return logtest.Start.Add(time.Duration(seq) * 10 * time.Millisecond) }
	want := views.Message{
		ID: id, Position: events.Position{Partition: 9, Sequence: 1}, TenantID: "acme", ProjectID: "project-acme", Environment: events.Live,
		KeyID: "key-1", InstanceID: "inst-a", Category: events.Utility, Class: events.ClassUtilityUrgent, Urgent: true,
		TemplateID: "tpl-1", TemplateVersion: 3, Origin: "Shop", SourceNumber: "550000", CorrelationID: "cor_" + id[4:], RecipientHash: "h1",
		GatewayID: "3EB002", RetentionDays: 7, Labels: []string{"a", `b"c`}, Sealed: events.Sealed{KeyID: "k1", Blob: []byte{0, 1, 2, 255}},
		Stage: events.StageRead, Status: events.StatusRead, Attempts: 2, CreatedAt: at(1),
		DeliverAt: logtest.Start.Add(time.Minute), DeliverUntil: logtest.Start.Add(time.Hour),
		DispatchedAt: at(7), ReadAt: logtest.Start.Add(3 * time.Second), LastSeq: 9,
	}
	for _, key := range []string{id, "cor_" + id[4:], "3EB002"} {
		got, err := v.Message(t.Context(), scope("acme"), key)
		if err != nil {
			t.Fatalf("by %s: %v", key, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", key, diff)
		}
	}
}

// Operators name a message by its id alone, whoever's it is; other ids of it name nothing there.
func TestPlaceOfAMessage(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := sample(t)
	project(t, pool, log)
	v := views.New(pool)
	if at, err := v.Place(t.Context(), log.ID(1)); err != nil || at != (events.Position{Partition: 9, Sequence: 1}) {
		t.Errorf("%v, %v", at, err)
	}
	for _, id := range []string{"", "none", "3EB002", "cor_" + log.ID(1)[4:], "a\x00b"} {
		if at, err := v.Place(t.Context(), id); events.CodeOf(err) != events.CodeNotFound {
			t.Errorf("%q: %v, %v", id, at, err)
		}
	}
}

func TestErasedContentIsGone(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := sample(t)
	project(t, pool, log)
	log.Append(t, "inst-a", logtest.About(events.TypeMessageErased, log.ID(1), 0, &events.MessageErased{KeyID: "k1"}))
	project(t, pool, log)
	m, err := views.New(pool).Message(t.Context(), scope("acme"), log.ID(1))
	if err != nil || !m.Erased || m.Sealed.Blob != nil || m.Stage != events.StageRead {
		t.Errorf("erased %t, %d bytes, stage %s, %v", m.Erased, len(m.Sealed.Blob), m.Stage, err)
	}
}

func TestTimelineIsTheOrderOfTheLog(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := sample(t)
	project(t, pool, log)
	got, err := views.New(pool).Timeline(t.Context(), scope("acme"), log.ID(1))
	if err != nil {
		t.Fatal(err)
	}
	entry := func(event string, seq uint64, attempt int) views.Entry {
		return views.Entry{
			Event: event, Time: logtest.Start.Add(time.Duration(seq) * 10 * time.Millisecond),
			Position: events.Position{Partition: 9, Sequence: seq}, Attempt: attempt,
		}
	}
	want := []views.Entry{
		entry("message.queued", 1, 0), entry("dispatch.started", 3, 1), entry("dispatch.unknown", 4, 1), entry("dispatch.absent", 5, 1),
		entry("dispatch.started", 6, 2), entry("dispatch.accepted", 7, 2), entry("receipt.read", 9, 0),
	}
	want[6].Time = logtest.Start.Add(3 * time.Second)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

// Promise P12: what is outside a scope does not exist.
func TestNothingIsSeenOutsideItsScope(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := sample(t)
	project(t, pool, log)
	v := views.New(pool)
	id := log.ID(1)
	for name, s := range map[string]views.Scope{
		"other tenant":      scope("globex"),
		"other project":     {Tenant: "acme", Project: "project-globex", Environment: events.Live},
		"other environment": {Tenant: "acme", Project: "project-acme", Environment: events.Test},
		"tenant of another": {Tenant: "globex", Project: "project-acme", Environment: events.Live},
		"empty":             {},
	} {
		for _, key := range []string{id, "cor_" + id[4:], "3EB001", "", "x\x00", "\xff", "%"} {
			if m, err := v.Message(t.Context(), s, key); events.CodeOf(err) != events.CodeNotFound || m.ID != "" {
				t.Errorf("%s sees message %q: %v", name, key, err)
			}
			if e, err := v.Timeline(t.Context(), s, key); events.CodeOf(err) != events.CodeNotFound || e != nil {
				t.Errorf("%s sees timeline %q: %v", name, key, err)
			}
		}
	}
	if m, err := v.Message(t.Context(), scope("globex"), "3EB002"); err != nil || m.ID != log.ID(2) {
		t.Errorf("the same WhatsApp id in the other scope: %s, %v", m.ID, err)
	}
}

func TestMessageByGatewayID(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := sample(t)
	project(t, pool, log)
	v := views.New(pool)
	for _, c := range []struct {
		instance, gatewayID string
		message             int
	}{
		{"inst-a", "3EB002", 1}, {"inst-b", "3EB002", 2}, {"inst-a", "3EB001", 1}, // an earlier attempt's id finds it too
		{"inst-b", "3EB001", 0}, {"inst-a", "3EB003", 0}, {"inst-a", "", 0}, {"inst-a", "\x00", 0},
	} {
		owner, found, err := v.MessageByGatewayID(t.Context(), c.instance, c.gatewayID)
		if err != nil || found != (c.message > 0) {
			t.Errorf("%s %q: found %t, %v", c.instance, c.gatewayID, found, err)
		}
		if found && (owner.MessageID != log.ID(c.message) || owner.Queued.Sequence != uint64(c.message) || owner.Queued.Partition != 9) {
			t.Errorf("%s %q: %+v", c.instance, c.gatewayID, owner)
		}
	}
}

func TestWaitForTheView(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	log := sample(t)
	v := views.New(pool)
	if at, err := v.Checkpoint(t.Context(), 9); at != 0 || err != nil {
		t.Fatalf("checkpoint before the first event: %d, %v", at, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := v.WaitFor(short, 9, 1); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("a wait in vain: %v", err)
	}
	for name, cfg := range map[string]projector.Config{
		"woken by the projector": {OnCommit: v.Committed}, "by looking": {},
	} {
		all, at := log.All(), uint64(0)
		var err error
		if at, err = v.Checkpoint(t.Context(), 9); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- v.WaitFor(t.Context(), 9, at+2) }()
		p := projector.New(pool, cfg)
		for seq := at + 1; seq <= at+2; seq++ {
			select {
			case err := <-done:
				t.Fatalf("%s: returned at %d: %v", name, seq-1, err)
			default:
			}
			if err := p.Apply(t.Context(), 9, all[:seq], seq); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPostgresAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, nil)
	v := views.New(open(t, server.URL()))
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"message":    func() error { _, err := v.Message(t.Context(), scope("acme"), "msg_1"); return err },
		"timeline":   func() error { _, err := v.Timeline(t.Context(), scope("acme"), "msg_1"); return err },
		"checkpoint": func() error { _, err := v.Checkpoint(t.Context(), 0); return err },
		"wait":       func() error { return v.WaitFor(t.Context(), 0, 1) },
		"receipt":    func() error { _, _, err := v.MessageByGatewayID(t.Context(), "inst-a", "3EB0"); return err },
	}
	for name, call := range calls {
		if err := call(); events.CodeOf(err) != events.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Tables that are still to be made are an outage of the views: the projector makes them as soon as it reaches Postgres.
func TestMissingTablesAreAnOutage(t *testing.T) {
	t.Parallel()
	pool, err := schema.Open(t.Context(), pgtest.Database(t), "nowhere", postgres.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := views.New(pool).Checkpoint(t.Context(), 0); events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("checkpoint: %v", err)
	}
}
