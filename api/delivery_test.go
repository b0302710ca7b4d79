package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pilotstatus.dev/events"
)

// The body of a try is shown as it was posted; what was erased since is left out, and what is not known is not made up.
func TestDeliveryBody(t *testing.T) {
	t.Parallel()
	m := stored()
	made := &events.HookDelivery{
		Event: "message.read", MessageID: m.ID, Status: events.StatusRead, At: clock, CorrelationID: "cor_1", WithContent: true,
	}
	bare := *made
	bare.WithContent = false
	down := errors.New("down")
	for name, c := range map[string]struct {
		view DeliveryView
		err  error // of the keyring
		code events.Code
		want string // within the body
	}{
		"with content":  {DeliveryView{MessageID: m.ID, Made: made, Sealed: m.Sealed}, nil, "", `"destinationNumber":"+5511987650123"`},
		"without":       {DeliveryView{MessageID: m.ID, Made: &bare, Sealed: m.Sealed}, down, "", `"destinationNumber":""`},
		"key is gone":   {DeliveryView{MessageID: m.ID, Made: made, Sealed: m.Sealed}, fmt.Errorf("x: %w", ErrKeyMissing), "", `"destinationNumber":""`},
		"erased":        {DeliveryView{MessageID: m.ID, Made: made}, down, "", `"readAt":"2026-11-29T15:22:01.123Z"`},
		"keyring down":  {DeliveryView{MessageID: m.ID, Made: made, Sealed: m.Sealed}, down, events.CodeUnavailable, ""},
		"before it was": {DeliveryView{MessageID: m.ID}, down, "", ""},
	} {
		f := newFixture(t)
		if c.err != nil {
			f.keyring.open = func(string, events.Sealed, []byte) ([]byte, error) { return nil, c.err }
		}
		a := &API{ports: Ports{Keyring: f.keyring, AAD: func(tenant, entity, field string) []byte { return []byte(tenant + "/" + entity + "/" + field) }}}
		body, err := a.deliveryBody(t.Context(), "acme", c.view)
		if events.CodeOf(err) != c.code || !strings.Contains(string(body), c.want) || (c.want == "") != (body == nil) {
			t.Errorf("%s: %s, %v", name, body, err)
		}
	}
}
