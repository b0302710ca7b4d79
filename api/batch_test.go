package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

// batch posts a batch and reads its answer.
func (f *fixture) batch(key, body string, header ...string) (reply, BatchAnswer) {
	f.t.Helper()
	r := f.do(http.MethodPost, "/v1/messages/batch", key, strings.NewReader(body), header...)
	var out BatchAnswer
	if r.status == http.StatusOK {
		if err := json.Unmarshal(r.body, &out); err != nil {
			f.t.Fatal(err)
		}
	}
	return r, out
}

// outcomes are the statuses and codes of a batch, in order; a replay is marked.
func outcomes(b BatchAnswer) []string {
	out := make([]string, 0, len(b.Data))
	for i, item := range b.Data {
		text := fmt.Sprint(item.Status)
		switch {
		case item.Index != i || (item.Error == nil) == (item.Message == nil):
			text = fmt.Sprintf("malformed: %+v", item)
		case item.Error != nil:
			text += " " + item.Error.Code
		case item.Replayed:
			text += " replayed"
		}
		out = append(out, text)
	}
	return out
}

func freeText(to int, text string) string {
	return fmt.Sprintf(`{"destinationNumber":"+55119876%05d","text":%q}`, to, text)
}

// Each message of a batch has an answer of its own, in order, whatever becomes of the others.
func TestBatchJudgesEachMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	items := []string{
		freeText(1, "one"), `{"destinationNumber":"0001","text":"x"}`, `7`, `{"text":"` + strings.Repeat("x", 64<<10) + `"}`,
		`{"destinationNumber":"+5511987650123","templateId":"none"}`, freeText(2, "two"), freeText(1, "one"),
	}
	want := []string{"202", "400 VALIDATION_ERROR", "400 VALIDATION_ERROR", "413 BODY_TOO_LARGE", "404 TEMPLATE_NOT_FOUND", "202", "202"}
	array := "[" + strings.Join(items, ",") + "]"
	for i, body := range []string{array, ` {"messages":` + array + `,"more":1}`} {
		r, got := f.batch(ownKey, body)
		if diff := cmp.Diff(want, outcomes(got)); r.status != http.StatusOK || diff != "" || got.Accepted != 3 || got.Refused != 4 {
			t.Errorf("%d: %d %s", i, r.status, diff)
		}
		if n := len(f.events()); n != 3*(i+1) {
			t.Errorf("%d events", n)
		}
	}
	ids := map[string]bool{}
	for _, e := range f.events() {
		ids[e.ID] = true
	}
	if len(ids) != 6 {
		t.Errorf("%d ids", len(ids))
	}
}

// One line that cannot be read is refused, the others are not.
func TestBatchOfLines(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	body := freeText(1, "a") + "\r\n\n" + `{"destinationNumber":` + "\n" + freeText(2, "b") + "\n" + "not json\n" + freeText(3, "c")
	r, got := f.batch(ownKey, body, "Content-Type", "application/x-ndjson; charset=utf-8")
	want := []string{"202", "400 VALIDATION_ERROR", "202", "400 VALIDATION_ERROR", "202"}
	if diff := cmp.Diff(want, outcomes(got)); r.status != http.StatusOK || diff != "" {
		t.Errorf("%d %s %s", r.status, r.body, diff)
	}
}

func TestBatchThatCannotBeRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	many := strings.TrimSuffix(strings.Repeat("1,", MaxBatch+1), ",")
	for body, want := range map[string]string{
		"": "body required", "{": "body json", "[1": "body json", `[1],"x":[2]`: "body json", `{}`: "messages required", `{"messages":7}`: "messages wrong_type",
		"[]": "messages required", "7": "body wrong_type", "[" + many + "]": "messages too_many", "[\"\xff\"]": "body not_utf8",
		strings.Repeat("[", 50) + strings.Repeat("]", 50): "body too_deep",
	} {
		r, _ := f.batch(ownKey, body)
		details, _ := r.member(t, "details").(map[string]any)
		field, rule, _ := strings.Cut(want, " ")
		if diff := cmp.Diff([]any{map[string]any{"field": field, "rule": rule}}, details["errors"]); r.status != http.StatusBadRequest || diff != "" {
			t.Errorf("%.40q: %d %s", body, r.status, diff)
		}
	}
	r, _ := f.batch(ownKey, strings.Repeat("1\n", MaxBatch+1), "Content-Type", ndjson)
	wantCode(t, r, events.CodeValidation)
	r, _ = f.batch(ownKey, `[1]`, keyName, "a,b")
	wantCode(t, r, events.CodeValidation)
	r, _ = f.batch(ownKey, "["+strings.Repeat(" ", batchBody)+"]")
	wantCode(t, r, events.CodeTooLarge)
	r, _ = f.batch(rawProject, `[1]`)
	wantCode(t, r, CodeProjectNotApproved)
	f.catalog.behind = time.Minute
	r, _ = f.batch(ownKey, `[1]`)
	wantCode(t, r, events.CodeUnavailable)
	if n := len(f.events()); n != 0 {
		t.Errorf("%d events", n)
	}
}

// A thousand messages: all accepted, a bounded number at a time, those to one number in their order. They count as a thousand.
func TestBatchOfAThousand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var mu sync.Mutex
	now, most := 0, 0
	next := f.log.append
	f.log.append = func(ctx context.Context, e events.Event) (uint64, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		seq, err := next(ctx, e)
		mu.Lock()
		now--
		mu.Unlock()
		return seq, err
	}
	f.start()
	items := make([]string, MaxBatch)
	for i := range items {
		items[i] = freeText(i%50, fmt.Sprint("message ", i))
	}
	r, got := f.batch(ownKey, strings.Join(items, "\n"), "Content-Type", ndjson)
	if r.status != http.StatusOK || got.Accepted != MaxBatch || got.Refused != 0 || len(got.Data) != MaxBatch {
		t.Fatalf("%d, %d accepted, %d refused", r.status, got.Accepted, got.Refused)
	}
	last := map[string]int{}
	for _, e := range f.events() {
		p := payloadOf(t, f, e)
		var n int
		if _, err := fmt.Sscanf(p.Content.Body, "message %d", &n); err != nil {
			t.Fatal(err)
		}
		if before, seen := last[p.Destination]; seen && n < before {
			t.Fatalf("message %d to one number came behind %d", n, before)
		}
		last[p.Destination] = n
	}
	for i, item := range got.Data {
		if item.Index != i || item.Status != http.StatusAccepted {
			t.Fatalf("%d: %+v", i, item)
		}
	}
	if most > batchParallel {
		t.Errorf("%d at a time", most)
	}
	if left := r.header.Get("RateLimit"); left != `"burst";r=0;t=20` {
		t.Errorf("left: %s", left)
	}
	wantCode(t, f.send(ownKey, text), CodeRateLimited)
}

// A key covers each message by its place: a repeated batch is answered message by message, and what was refused may be mended.
func TestBatchRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t).start()
	first := []string{freeText(1, "one"), freeText(1, "one"), `{}`, freeText(2, "two")}
	_, got := f.batch(ownKey, "["+strings.Join(first, ",")+"]", keyName, "k")
	if diff := cmp.Diff([]string{"202", "202", "400 VALIDATION_ERROR", "202"}, outcomes(got)); diff != "" {
		t.Error(diff)
	}
	second := []string{freeText(1, "one"), freeText(1, "another"), freeText(3, "three"), freeText(2, "two"), freeText(4, "four")}
	_, again := f.batch(ownKey, strings.Join(second, "\n"), keyName, `"k"`, "Content-Type", ndjson)
	want := []string{"202 replayed", "422 IDEMPOTENCY_KEY_REUSED", "202", "202 replayed", "202"}
	if diff := cmp.Diff(want, outcomes(again)); diff != "" {
		t.Error(diff)
	}
	for _, i := range []int{0, 3} {
		if got.Data[i].Message.ID != again.Data[i].Message.ID {
			t.Errorf("message %d is another one", i)
		}
	}
	if n := len(f.events()); n != 5 {
		t.Errorf("%d events", n)
	}
	if r := f.send(ownKey, freeText(1, "one"), keyName, "k"); r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the key on another path: %d %s", r.status, r.body)
	}
}

// The limit of time is one for the whole batch: what it does not reach is told to be not accepted.
func TestBatchHasOneLimitOfTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.AcceptTimeout = 3 * time.Second // the first of them come as far as the log, also on a machine that stands still
	f.log.append = func(ctx context.Context, _ events.Event) (uint64, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	f.start()
	items := make([]string, 200)
	for i := range items {
		items[i] = freeText(i, "x")
	}
	_, got := f.batch(ownKey, "["+strings.Join(items, ",")+"]")
	unknown := 0
	for _, item := range got.Data {
		if item.Status != http.StatusServiceUnavailable {
			t.Fatalf("%+v", item)
		}
		if item.Error.Detail == unknownText {
			unknown++
		}
	}
	if unknown < 1 || unknown > batchParallel || len(f.recall.kept) != unknown {
		t.Errorf("%d are not known, %d are kept", unknown, len(f.recall.kept))
	}
}

// A panic over one message does not take the others, nor the process, with it.
func TestBatchPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var once sync.Once
	next := f.log.append
	f.log.append = func(ctx context.Context, e events.Event) (uint64, error) {
		once.Do(func() { panic(canary) })
		return next(ctx, e)
	}
	f.start()
	_, got := f.batch(ownKey, "["+freeText(1, "a")+","+freeText(1, "b")+"]")
	if diff := cmp.Diff([]string{"500 INTERNAL", "202"}, outcomes(got)); diff != "" || strings.Contains(f.logged.String(), canary) {
		t.Errorf("%s %s", diff, f.logged.String())
	}
}
