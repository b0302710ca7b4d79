package e2e

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/apikey"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/control"
	"pilotstatus.dev/services/demo"
)

// P1, P2: 1,000 messages that become due while two processes cancel them, some at both at once: each is canceled and never leaves,
// or is refused and leaves once.
func TestCancelsRaceTheDispatcher(t *testing.T) {
	t.Parallel()
	const instances, waves, perWave, chunk = 8, 10, 100, 5
	r := newRig(t, func(c *app.Config) { c.ReadYourWrite = 50 * time.Millisecond }) // a cancel does not wait for the views
	keys := r.defineInstances(instances)
	other := r.secondAPI()
	defer stopApp(t, other)
	apis := []string{r.app.URLs().API, other.URLs().API}
	said := map[string]string{}
	texts := map[string]string{}
	keyOf := map[string]string{}
	lead := 1500 * time.Millisecond
	for wave := range waves {
		began := time.Now()
		due := began.Add(lead)
		ids := make([]string, perWave)
		inParallel(16, perWave, func(i int) {
			key := keys[i%instances]
			ids[i] = r.sendWith(key, fmt.Sprintf("race %d.%d.", wave, i), at(due))
		})
		if t.Failed() {
			return
		}
		lead = max(1500*time.Millisecond, time.Since(began)+500*time.Millisecond) // on a slow machine all would leave before they are canceled
		for i, id := range ids {
			texts[id], keyOf[id] = fmt.Sprintf("race %d.%d.", wave, i), keys[i%instances]
		}
		var mu sync.Mutex
		order := rand.Perm(perWave / chunk)
		await.Elapsed(t.Context(), time.Until(due.Add(-5*time.Millisecond)))
		inParallel(4, len(order), func(n int) {
			of := ids[order[n]*chunk : (order[n]+1)*chunk]
			var both sync.WaitGroup
			for i, api := range apis {
				if i == 1 && n%4 != 0 { // a quarter is asked of both
					continue
				}
				both.Go(func() {
					answers := cancelAt(t, api, keys[0], of...)
					mu.Lock()
					defer mu.Unlock()
					for id, a := range answers {
						if said[id] != "cancelled" {
							said[id] = a
						}
					}
				})
			}
			both.Wait()
		})
	}
	tally := map[string]int{}
	for id, answer := range said {
		tally[answer]++
		m := r.await(id, "an end", func(m map[string]any) bool { return m["status"] == "CANCELED" || m["status"] == "READ" })
		left := r.ledger(texts[id])
		switch {
		case m["status"] == "CANCELED" && left != 0:
			t.Errorf("%s is canceled and left %d times, the answer was %s: %v", id, left, answer, r.timeline(id))
		case m["status"] == "READ" && left != 1:
			t.Errorf("%s left %d times", id, left)
		case answer == "cancelled" && m["status"] != "CANCELED", answer != "cancelled" && answer != "TRY_AGAIN" && m["status"] != "READ":
			t.Errorf("%s was told %s and is %s: %v", id, answer, m["status"], r.timeline(id))
		}
	}
	t.Logf("answers: %v", tally)
	if len(said) != waves*perWave || tally["cancelled"] < 10 || tally["cancelled"] > waves*perWave-10 {
		t.Errorf("it was no race: %v", tally)
	}
}

// defineInstances makes unpaced instances of the demo's tenant, and gives a key bound to each.
func (r *rig) defineInstances(n int) []string {
	r.t.Helper()
	ctx, c := r.t.Context(), r.app.Control()
	author := control.Author{By: "operator:test"}
	var keys []string
	var last uint64
	var errs []error
	for i := range n {
		id := fmt.Sprintf("race-%d", i)
		if err := r.sim.AddInstance(evolutionsim.Instance{Name: id, Number: fmt.Sprintf("551190000%04d", i), State: "open"}); err != nil {
			r.t.Fatal(err)
		}
		key, err := c.Secrets.Seal(ctx, id, []byte(r.sim.APIKey()))
		errs = append(errs, err)
		inst, err := c.Secrets.SealIngress(ctx, events.Instance{
			ID: id, TenantID: demo.TenantID, Name: id, DisplayName: id, GatewayURL: r.sim.URL(), GatewayKey: key, Concurrency: 1, MaxConcurrency: 1,
		}, control.Ingress{IngressSecret: events.IngressSecret{Token: "token-" + id + crand.Text(), Secret: crand.Text()}})
		errs = append(errs, err)
		_, err = control.Define(ctx, c.Log, events.KindInstance, id, inst, author, 0)
		errs = append(errs, err)
		k, err := apikey.Generate(events.Live, crand.Reader)
		errs = append(errs, err)
		sum := k.SHA256()
		last, err = control.Define(ctx, c.Log, events.KindKey, "key-"+id, events.Key{
			ID: "key-" + id, TenantID: demo.TenantID, ProjectID: demo.ProjectID, Environment: events.Live, Name: id, PublicID: k.PublicID(),
			SHA256: hex.EncodeToString(sum[:]), InstanceID: id, CreatedAt: time.Now().UTC(),
		}, author, 0)
		errs = append(errs, err)
		keys = append(keys, k.Reveal())
	}
	if err := errors.Join(append(errs, c.Feed.Await(ctx, last))...); err != nil {
		r.t.Fatal(err)
	}
	return keys
}

// sendWith sends free text with a key, from any goroutine; empty when it was not accepted.
func (r *rig) sendWith(key, text string, more ...func(map[string]any)) string {
	body := map[string]any{"text": text, "destinationNumber": "+5511988887777"}
	for _, m := range more {
		m(body)
	}
	status, raw, err := call(r.t.Context(), http.MethodPost, r.app.URLs().API+"/v1/messages/send", key, body)
	var out struct {
		ID string `json:"id"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil || status != http.StatusAccepted {
		r.t.Errorf("send: %d %s %v", status, raw, err)
	}
	return out.ID
}

// inParallel calls f for 0 to n-1, at most width at once.
func inParallel(width, n int, f func(i int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range width {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

func stopApp(t *testing.T, a *app.App) {
	t.Helper()
	bounded, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := a.Stop(bounded); err != nil {
		t.Errorf("stop: %v", err)
	}
	client.CloseIdleConnections()
}
