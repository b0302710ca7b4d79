package receipts

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pilotstatus.dev/events"
)

// C2 29, 31, 34: what a gateway shows when it is asked comes without times, in no order, repeated, with words that mean nothing.
func TestC2ShownReceiptsAreEachStateOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		words []string
		want  []string
	}{
		"none":                       {nil, nil},
		"words that mean nothing":    {[]string{"PENDING", "DELETED", "", "ANYTHING"}, nil},
		"in no order, and again":     {[]string{"READ", "SERVER_ACK", "PLAYED", "DELIVERY_ACK", "READ"}, []string{"SENT SERVER_ACK", "DELIVERED DELIVERY_ACK", "READ READ"}},
		"an error":                   {[]string{"ERROR", "SERVER_ACK"}, []string{"SENT SERVER_ACK", "FAILED ERROR"}},
		"an error beside a delivery": {[]string{"ERROR", "DELIVERY_ACK"}, []string{"DELIVERED DELIVERY_ACK"}},
		"Meta's words":               {[]string{"DELIVERED", "SENT"}, []string{"SENT SENT", "DELIVERED DELIVERED"}},
	} {
		var got []string
		for _, s := range ShownBy(tt.words) {
			got = append(got, fmt.Sprint(s.State, " ", s.Word))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A receipt that was asked for goes the way of a webhook: the webhook's copy, before or after it, records nothing twice.
func TestC2AskedAndPostedIsOneReceipt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.correlate(r.log, quick)
	r.accepted("msg_1", "K1")
	r.accepted("msg_2", "K2")
	r.receipt("K1", "DELIVERY_ACK")
	r.wait(receiptFilter, "msg_1.delivered")
	for _, k := range []string{"K1", "K2"} {
		for range 2 { // by two who ask
			ev := Shown{State: events.StatusDelivered, Word: "DELIVERY_ACK"}.Observation(partition, instance, k, time.Now())
			if _, err := r.log.Append(r.ctx(), ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.wait(receiptFilter, "msg_1.delivered", "msg_2.delivered")
	r.receipt("K2", "DELIVERY_ACK")
	r.receipt("K2", "READ")
	r.wait(receiptFilter, "msg_1.delivered", "msg_2.delivered", "msg_2.read")
}
