package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
	"pilotstatus.dev/infra/apicall"
	"pilotstatus.dev/infra/await"
)

// scheduled is how far ahead a message is sent that is to be canceled.
const scheduled = 5 * time.Second

// one hands in one message. Where cancels or retries are tried it hands in a second one that is to leave later. Cancels are of both: the
// first is a race with its dispatcher. A retry of the first is one as well; the second is canceled, and sent anew by an operator.
func (t *trial) one(ctx context.Context, instance int, text string, class events.Class) error {
	id, err := t.d.load.post(ctx, instance, text, class, 0)
	t.note(id, err)
	cancels, retries := t.point == "api.cancel_before_answer", t.point == "api.retry_before_answer"
	if err != nil || !cancels && !retries {
		return err
	}
	laterText := "later " + text
	later, err := t.d.load.post(ctx, instance, laterText, class, scheduled)
	t.note(later, err)
	if err != nil {
		return err
	}
	both := []string{id, later}
	if retries {
		both = both[1:]
	}
	if err = t.d.load.cancel(ctx, instance, both...); err != nil {
		t.note("", err)
	}
	if err != nil || cancels || !t.d.load.cancels()[later] {
		return err
	}
	if _, err := t.d.load.retry(ctx, id, text); err != nil {
		return err
	}
	anew, err := t.d.load.retry(ctx, later, laterText)
	if err != nil {
		return err
	}
	if anew == "" {
		return fmt.Errorf("%w: %s is canceled, and not sent anew", errRetry, later)
	}
	t.d.load.replace(laterText, later, anew)
	t.note(anew, nil)
	return nil
}

// longWait is from when on an operator does not wait for a retry that is due.
const longWait = 2 * time.Second

// hurry brings retries forward that are due late, as an operator does when the gateway works again.
func (t *trial) hurry(ctx context.Context) error {
	for _, id := range t.ids {
		if !t.d.chain.at([]string{id}, func(s message.State) bool { return waitsLong(s, time.Now()) }) {
			continue
		}
		if _, err := t.d.load.retry(ctx, id, "hurry "+id); err != nil {
			return err
		}
	}
	return nil
}

func waitsLong(s message.State, now time.Time) bool {
	sum := s.Record.Summarize()
	return waits(s.View().Stage) && sum.Last().State == message.AttemptDeferred && sum.DueAt.Sub(now) > longWait
}

// errRetry says that a retry did not do what it is for, whatever was killed meanwhile.
var errRetry = errors.New("an operator's retry failed")

// retryWithin bounds how long an operator repeats a retry until it is answered.
const retryWithin = 20 * time.Second

// retry is an operator's retry of a message, repeated under its key until it is answered: that it is due now, or by which message it is sent
// anew. One that is refused, since the message is under way or has left, gives no message.
func (l *load) retry(ctx context.Context, id, key string) (anew string, err error) {
	bounded, cancel := context.WithTimeout(ctx, retryWithin)
	defer cancel()
	last := errors.New("not asked")
	for bounded.Err() == nil {
		var status int
		var raw []byte
		status, raw, last = apicall.Do(bounded, l.client, http.MethodPost, l.base+"/v1/admin/messages/"+id+"/retry", l.operator, map[string]bool{"force": false},
			"X-Reason", "crash test", "Idempotency-Key", strings.ReplaceAll(key, " ", "-"))
		var out struct{ Code, MessageID string }
		if last == nil {
			last = json.Unmarshal(raw, &out)
		}
		switch {
		case last == nil && status == http.StatusOK:
			return out.MessageID, nil
		case last == nil && strings.HasPrefix(out.Code, "RETRY_"):
			return "", nil
		case last == nil && status < http.StatusInternalServerError && out.Code != "IDEMPOTENCY_IN_PROGRESS":
			return "", fmt.Errorf("%w: it was answered %d: %s", errRetry, status, raw)
		}
		if last == nil {
			last = fmt.Errorf("it was answered %d: %s", status, raw)
		}
		await.Elapsed(bounded, 200*time.Millisecond)
	}
	return "", errors.Join(errRetry, last)
}

// replace notes that a message that was canceled is sent anew: its text is to leave, once, as the other.
func (l *load) replace(text, id, anew string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.accepted, id)
	l.texts[text], l.accepted[anew] = anew, text
}
