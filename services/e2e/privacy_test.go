package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/evolutionsim"
)

// Canaries: what must never be seen outside sealed blobs.
const (
	canaryText   = "canary-secret-code-774411"
	canaryNumber = "21976543210"
)

// No number, text or key is in logs, streams, subjects, errors or Postgres in clear.
func TestNoPersonalDataInClear(t *testing.T) {
	t.Parallel()
	r := newRig(t, hasty)
	to := func(m map[string]any) { m["destinationNumber"] = "+55" + canaryNumber }
	r.awaitStatus(r.send("hello "+canaryText, to), "READ")
	r.fault(evolutionsim.Fault{Kind: "hang", When: "after", TextContains: "unknown", Times: 1})
	r.awaitStatus(r.send("unknown "+canaryText, to), "READ")
	r.fault(evolutionsim.Fault{
		Kind: "answer", Status: 400, ContentType: "application/json", TextContains: "refused", Times: 1,
		Body: fmt.Sprintf(`{"status":400,"error":"Bad Request","response":{"message":["Error: %s %s"]}}`, canaryText, canaryNumber),
	})
	r.await(r.send("refused "+canaryText, to), "UNCONFIRMED", func(m map[string]any) bool { return m["stage"] == "UNCONFIRMED" })
	_, problem := r.do(http.MethodPost, "/v1/messages/send", r.keys.Own, map[string]any{
		"text": map[string]any{"nested": canaryText}, "destinationNumber": "x" + canaryNumber,
	})
	r.clean("problem document", toJSON(problem))
	r.clean("log", r.logs.String())
	r.cleanStreams()
	r.cleanPostgres()
}

func (r *rig) clean(where, text string) {
	r.t.Helper()
	for _, canary := range []string{canaryText, canaryNumber, r.keys.Own, r.keys.Live, r.keys.Test, r.keys.Secret, "sim-key"} {
		if i := strings.Index(text, canary); i >= 0 && canary != "" {
			r.t.Errorf("%s shows personal data: …%.120s…", where, text[max(0, i-80):])
		}
	}
}

func (r *rig) cleanStreams() {
	r.t.Helper()
	nc, err := nats.Connect(r.app.URLs().NATS)
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		r.t.Fatal(err)
	}
	list := js.ListStreams(r.t.Context())
	var streams []*jetstream.StreamInfo // first all, since the listing has a deadline of its own
	for info := range list.Info() {
		streams = append(streams, info)
	}
	if list.Err() != nil {
		r.t.Fatal(list.Err())
	}
	seen := 0
	for _, info := range streams {
		s, err := js.Stream(r.t.Context(), info.Config.Name)
		if err != nil {
			r.t.Fatal(err)
		}
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
			m, err := s.GetMsg(r.t.Context(), seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue // acknowledged away
			}
			if err != nil {
				r.t.Fatal(err)
			}
			seen++
			r.clean(info.Config.Name+" "+m.Subject, m.Subject+fmt.Sprint(m.Header)+string(m.Data))
		}
	}
	if seen < 20 {
		r.t.Fatalf("read %d messages of all streams", seen)
	}
}

func (r *rig) cleanPostgres() {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.cfg.PostgresURL)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close(r.t.Context()) }()
	for _, table := range []string{"messages", "timeline", "attempts", "deliveries", "checkpoints"} {
		rows, err := conn.Query(r.t.Context(), "SELECT to_jsonb(x)::text FROM "+r.cfg.Schema+"."+table+" x")
		if err != nil {
			r.t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(all) == 0 {
			r.t.Fatalf("table %s: %d rows, %v", table, len(all), err)
		}
		r.clean("table "+table, strings.Join(all, "\n"))
	}
}
