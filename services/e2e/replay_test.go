package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"pilotstatus.dev/services/demo"
)

// Case 67: each replay of a delivery that an operator asks for reaches the customer once more, under the webhook-id of the event and
// with a signature of its own, and is shown with who asked and why.
func TestCase67OperatorReplaysADelivery(t *testing.T) {
	t.Parallel()
	p := newPulls(t)
	id := p.send("told again and again")
	p.awaitHook(id, "message.sent")
	ana := operator{t: t, url: p.app.URLs().Admin, key: p.key, collected: new(strings.Builder)}
	base := "endpoints/" + demo.EndpointID + "/deliveries"
	var webhookID string
	eventually(t, "the delivery is shown", func() bool {
		out, _ := ana.do(http.StatusOK, http.MethodGet, base, nil)
		rows, _ := out["data"].([]any)
		for _, row := range rows {
			if row, ok := row.(set); ok && row["messageId"] == id && row["event"] == "message.sent" {
				webhookID, _ = row["webhookId"].(string)
			}
		}
		return webhookID != ""
	}, nil)
	for n := 2; n <= 3; n++ {
		ana.post(http.StatusOK, base+"/"+webhookID+"/replay", nil)
		eventually(t, "the replay arrives", func() bool { return p.stage.Receiver.Told(webhookID) == n }, nil)
	}
	eventually(t, "three tries under one id, two of them ana's", func() bool {
		out, _ := ana.do(http.StatusOK, http.MethodGet, base, nil)
		rows, _ := out["data"].([]any)
		rows = slices.DeleteFunc(rows, func(row any) bool { return row.(set)["webhookId"] != webhookID })
		asked := 0
		for _, row := range rows {
			if replay, ok := row.(set)["replay"].(set); ok && replay["by"] == "operator:ana" && replay["reason"] == "first set-up" {
				asked++
			}
		}
		return len(rows) == 3 && asked == 2
	}, nil)
	if got := p.stage.Receiver.Told(webhookID); got != 3 {
		t.Errorf("told %d times, want 3", got)
	}
	if got := count(p.hooks(id), "message.sent"); got != 1 { // by the id it is one event, and every request was signed
		t.Errorf("%d events, want 1", got)
	}
}
