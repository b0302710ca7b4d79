package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
)

// The dispatcher tells the API what waits: a backlog behind a slow gateway is in the forecast, and a message that would be late is
// refused when its sender asks for that.
func TestForecastOfABacklog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(evolutionsim.Fault{Kind: "delay", When: "before", DelayMS: 500, TextContains: "slow"})
	body := func(text string, more map[string]any) map[string]any {
		b := map[string]any{"text": text, "destinationNumber": "+5511988887777"}
		for k, v := range more {
			b[k] = v
		}
		return b
	}
	for i := range 30 {
		r.send(fmt.Sprintf("slow %d.", i))
	}
	var out map[string]any
	eventually(t, "a forecast behind the backlog", func() bool {
		var status int
		status, out = r.do(http.MethodPost, "/v1/messages/send", r.keys.Own, body("behind.", nil))
		at, err := time.Parse(time.RFC3339, fmt.Sprint(out["expectedDispatchAt"]))
		return status == http.StatusAccepted && err == nil && time.Until(at) > time.Second
	}, func() string { return toJSON(out) })
	status, out := r.do(http.MethodPost, "/v1/messages/send", r.keys.Own, body("too late.", map[string]any{
		"rejectIfLate": true, "deliverUntil": time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano),
	}))
	if status != http.StatusConflict || out["code"] != "CANNOT_DELIVER_IN_TIME" {
		t.Errorf("%d %v", status, out)
	}
	if n := r.ledger("too late."); n != 0 {
		t.Error("it left")
	}
}
