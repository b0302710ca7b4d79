package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/events/webhook"
	"pilotstatus.dev/infra/apicall"
	"pilotstatus.dev/infra/evolutionsim"
)

// verdict is what was found at the end of a seed.
type verdict struct {
	Result
	said  []string // of each violation
	facts string

	open, openLeft int           // messages with a call under way when a process was lost, and of these what left
	unproved       int           // left, and ended as presumed
	latest         time.Duration // the longest that an end came after its deadline
	begun          int           // dispatchers that began at a snapshot
	parks, wide    int           // parks, and those of the whole gateway
}

func (v *verdict) say(count *int, format string, args ...any) {
	*count++
	v.said = append(v.said, fmt.Sprintf(format, args...))
}

// judge waits until nothing moves any more, and holds log, ledger, views and customer events against the promises.
func (d *deployment) judge(ctx context.Context, faults int) (verdict, error) {
	var v verdict
	// Not an error when it takes too long: what has not ended is counted.
	_ = d.chain.wait(ctx, window+presumedAfter+15*time.Second, func() bool { return d.chain.at(d.chain.queued(), isOver) })
	_ = d.chain.wait(ctx, time.Minute, func() bool { return len(d.untold()) == 0 })
	_ = d.resumed(ctx)
	logs, states, err := d.chain.snapshot()
	if err != nil {
		return v, err
	}
	var ledger evolutionsim.Report
	if err := d.get(ctx, d.sim+"/sim/ledger", &ledger); err != nil {
		return v, err
	}
	d.judgeEnds(&v, states, faults)
	d.judgeSnapshots(&v)
	d.judgeParks(&v, logs)
	d.judgeEffects(&v, logs, states, ledger)
	for _, log := range logs {
		for _, text := range illegal(log) {
			v.say(&v.Illegal, "%s", text)
		}
	}
	for _, text := range d.untold() {
		v.say(&v.Events, "%s", text)
	}
	d.judgeViews(ctx, &v, states)
	v.facts = fmt.Sprintf("%d in the log, %d answered, %d left, %d in doubt for a while of which %d left (%d never proved), at most %s late, %d starts at a snapshot, %d parks (%d of the gateway), %s",
		len(states), len(d.load.promised()), len(ledger.Entries), v.open, v.openLeft, v.unproved, v.latest.Round(100*time.Millisecond), v.begun, v.parks, v.wide, stages(states))
	return v, nil
}

// judgeEffects: what left, left once, after its intent, and before its deadline (P2, P3); what was never in doubt has left (P1);
// no more calls at once than the instance may make (P5).
func (d *deployment) judgeEffects(v *verdict, logs [][]events.Recorded, states map[string]message.State, ledger evolutionsim.Report) {
	byKey := map[string]string{} // gateway id → message
	first := map[string]time.Time{}
	for _, rec := range slices.Concat(logs...) {
		if rec.GatewayID != "" {
			byKey[rec.GatewayID] = rec.Subject
		}
		if rec.Type == events.TypeDispatchStarted && first[rec.Subject].IsZero() {
			first[rec.Subject] = rec.Stored
		}
	}
	causes := causesOf(logs)
	texts, left := d.load.sent(), map[string]int{}
	for _, e := range ledger.Entries {
		left[e.Text]++
		id, known := texts[e.Text]
		if id == "" {
			id = byKey[e.KeyID]
		}
		s, ok := states[id]
		switch {
		case !known:
			v.say(&v.Illegal, "the gateway sent a text that nobody handed in")
		case id == "": // its 202 was lost with a process, its outcome with another
		case !ok || first[id].IsZero() || !first[id].Before(e.StartedAt):
			v.say(&v.Illegal, "%s left without an earlier intent", id)
		case e.StartedAt.After(s.Queued.DeliverUntil.Add(500 * time.Millisecond)):
			v.say(&v.Illegal, "%s left after its deadline", id)
		}
	}
	for text, n := range left {
		if n > 1 {
			v.say(&v.Duplicated, "%q (%s) left %d times", text, texts[text], n)
		}
	}
	for text, id := range texts {
		if s, ok := states[id]; ok {
			v.judgeWord(text, id, s.View(), left[text])
		}
	}
	asked := d.load.cancels()
	for id, said := range asked {
		if s, ok := states[id]; ok && said && s.View().Stage != events.StageCanceled {
			v.say(&v.Illegal, "%s was answered as canceled and is %s", id, s.View().Stage)
		}
	}
	for id, text := range d.load.promised() {
		s, ok := states[id]
		if _, may := asked[id]; ok && may && s.View().Stage == events.StageCanceled {
			continue
		}
		switch {
		case ok && left[text] == 0 && !wasOpen(s):
			v.say(&v.Lost, "%s never left, it is %s", id, s.View().Stage)
		case ok && left[text] == 0 && !d.excused(text, s, causes): // who was stopped comes back, and knows what it did not call
			v.say(&v.Lost, "%q (%s) never left, it is %s", text, id, s.View().Stage)
		}
		if ok && wasOpen(s) {
			v.open++
			v.openLeft += left[text]
		}
	}
	if n := len(ledger.Entries); n > len(states) {
		v.say(&v.Illegal, "%d left, %d were accepted", n, len(states))
	}
	for _, name := range slices.Sorted(maps.Keys(ledger.MaxInFlight)) {
		if n := ledger.MaxInFlight[name]; n > int64(allowed(name)) {
			v.say(&v.Overlaps, "%d calls at once on %s", n, name)
		}
	}
}

// untold lists the customer events that were not told, or told under two ids (P10).
func (d *deployment) untold() []string {
	type told struct{ message, event string }
	_, states, err := d.chain.snapshot()
	if err != nil {
		return []string{err.Error()}
	}
	want, got := map[told]int{}, map[told]int{}
	for id, s := range states {
		for _, t := range s.View().Transitions {
			if name, ok := webhook.Name(t.Status); ok {
				want[told{id, name}]++
			}
		}
	}
	hooks, refused := d.receiver.Hooks()
	for _, h := range hooks {
		got[told{h.MessageID, h.Event}]++
	}
	var texts []string
	if refused > 0 {
		texts = append(texts, fmt.Sprintf("%d customer events had no valid signature", refused))
	}
	for k, n := range want {
		if got[k] != n {
			texts = append(texts, fmt.Sprintf("%s of %s was told under %d ids, wanted %d", k.event, k.message, got[k], n))
		}
	}
	for k, n := range got {
		if want[k] == 0 {
			texts = append(texts, fmt.Sprintf("%s of %s was told %d times and did not happen", k.event, k.message, n))
		}
	}
	slices.Sort(texts)
	return texts
}

// judgeViews: what a read shows is the fold of the log (P4, P8).
func (d *deployment) judgeViews(ctx context.Context, v *verdict, states map[string]message.State) {
	for id, s := range states {
		var key string
		for i := range instances {
			if instanceID(i) == s.Queued.Instance {
				key = d.keys[i]
			}
		}
		want := string(s.View().Stage)
		got := ""
		_ = d.chain.wait(ctx, 5*time.Second, func() bool { // a view may be behind for a moment
			status, raw, err := apicall.Do(ctx, d.load.client, http.MethodGet, d.load.base+"/v1/messages/"+id, key, nil)
			var out struct {
				Stage string `json:"stage"`
			}
			if err == nil {
				err = json.Unmarshal(raw, &out)
			}
			if got = out.Stage; err != nil || status != http.StatusOK {
				got = fmt.Sprintf("%d %v", status, err)
			}
			return got == want
		})
		if got != want {
			v.say(&v.Illegal, "%s reads as %s, the log says %s", id, got, want)
		}
	}
}

func (d *deployment) get(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	res, err := d.load.client.Do(req)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	return nil
}

// stages counts the messages by stage.
func stages(states map[string]message.State) string {
	n := map[events.Stage]int{}
	for _, s := range states {
		n[s.View().Stage]++
	}
	text := ""
	for _, stage := range slices.Sorted(maps.Keys(n)) {
		text += fmt.Sprintf(" %s %d", stage, n[stage])
	}
	return "at the end" + text
}
