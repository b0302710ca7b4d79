package receipts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/services/control"
)

// C2 28, 29, 31, 32, 34, 37: the webhooks of every version, captured and read, posted as a gateway posts them, through ingest and
// correlator. Each message gets the receipts of the reviewed meanings and no other, each once, and ends in the highest.
func TestC2EachVersionThroughIngestAndCorrelator(t *testing.T) {
	t.Parallel()
	for name := range webhookFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := newRig(t), newPlane()
			p.instance(sealed(t, r, instance, "token", "secret"))
			s := serve(t, NewIngest(p, control.NewSecrets(r.keys), r.keys, r.log, IngestSettings{}))
			one := quick
			one.Concurrency = 1 // what is posted last is consumed last
			r.correlate(r.log, one)

			golden, err := os.ReadFile("testdata/" + name + ".golden.jsonl")
			if err != nil {
				t.Fatal(err)
			}
			ids, want := map[string]string{}, map[string][]string{}
			for _, j := range judgements(t, golden) {
				if j.KeyID == "" {
					continue
				}
				if ids[j.KeyID] == "" { // also where it is not ours: the key id alone must not move it
					ids[j.KeyID] = fmt.Sprintf("msg_%d", len(ids))
					r.accepted(ids[j.KeyID], j.KeyID)
				}
				if j.Means == MeansReceipt && !slices.Contains(want[ids[j.KeyID]], j.State) {
					want[ids[j.KeyID]] = append(want[ids[j.KeyID]], j.State)
				}
			}
			r.accepted("msg_last", "LAST")
			for _, raw := range bodies(t, name) {
				for range 2 { // the gateway's retry, after an answer that it did not get
					if res := post(t, s.URL+Path+"token", "secret", raw); res.StatusCode != http.StatusOK {
						t.Fatalf("answered %d to %s", res.StatusCode, raw)
					}
				}
			}
			post(t, s.URL+Path+"token", "secret", strings.Replace(lastUpdate, "KEY", "LAST", 1))
			states := map[string]message.State{}
			got := map[string][]string{}
			all := 1
			for _, states := range want {
				all += len(states)
			}
			eventually(t, func() bool { // what was held for a moment may be recorded after the last
				ids := r.ids(receiptFilter)
				return slices.Contains(ids, "msg_last.read") && len(ids) >= all
			}, func() any { return r.ids(receiptFilter) })
			for _, rec := range r.events(receiptFilter) {
				if rec.Subject == "msg_last" {
					continue
				}
				got[rec.Subject] = append(got[rec.Subject], string(events.ReceiptStatus(rec.Type)))
				states[rec.Subject] = states[rec.Subject].Apply(rec)
			}
			for id := range ids {
				m := ids[id]
				if !slices.Equal(got[m], want[m]) {
					t.Errorf("%s: receipts %v, want %v", id, got[m], want[m])
				}
				if len(want[m]) > 0 && string(states[m].View().Status()) != highest(want[m]) {
					t.Errorf("%s is %s after %v", id, states[m].View().Status(), want[m])
				}
			}
			r.keepsNothing("secret words", "data:image", "5511999990000", "69385314111689", "INSTANCE-TOKEN", "cmx1readrow")
		})
	}
}

const lastUpdate = `{"event":"messages.update","data":{"keyId":"KEY","fromMe":true,"status":"READ"}}`

// highest gives the state that wins among receipts (docs/events.md, the order of the fold).
func highest(states []string) string {
	for _, s := range []events.Status{events.StatusRead, events.StatusDelivered, events.StatusFailed, events.StatusSent} {
		if slices.Contains(states, string(s)) {
			return string(s)
		}
	}
	return ""
}

// bodies gives the webhooks of a file as they are posted.
func bodies(t *testing.T, name string) (out []string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		var r row
		if err := json.Unmarshal(l, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Body)
	}
	return out
}

// keepsNothing looks for personal words in what RECEIPTS has stored.
func (r *rig) keepsNothing(words ...string) {
	r.t.Helper()
	last, err := r.log.LastSequence(r.ctx(), events.ReceiptsStream(partition))
	if err != nil {
		r.t.Fatal(err)
	}
	for seq := uint64(1); seq <= last; seq++ {
		rec, err := r.log.Get(r.ctx(), events.ReceiptsStream(partition), seq)
		if err != nil {
			r.t.Fatal(err)
		}
		kept, err := json.Marshal(rec)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, w := range words {
			if bytes.Contains(kept, []byte(w)) {
				r.t.Errorf("%q is kept: %s", w, kept)
			}
		}
	}
}
