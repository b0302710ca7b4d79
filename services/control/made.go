package control

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/presence"
	"pilotstatus.dev/infra/apikey"
	"pilotstatus.dev/infra/eventlog"
)

// SealNew gives a new instance what it holds sealed: the key of its gateway, and what the gateway must present to hand in receipts, which is
// drawn.
func (s Secrets) SealNew(ctx context.Context, in events.Instance, gatewayKey string) (events.Instance, error) {
	var err error
	if in.GatewayKey, err = s.Seal(ctx, in.ID, []byte(gatewayKey)); err != nil {
		return events.Instance{}, err
	}
	return s.SealIngress(ctx, in, Ingress{IngressSecret: events.IngressSecret{Token: rand.Text(), Secret: rand.Text()}})
}

// NewKey makes an API key for the environment of its record, and gives the record with what is kept of the key, and the key itself.
func NewKey(record events.Key) (events.Key, string, error) {
	k, err := apikey.Generate(record.Environment, rand.Reader)
	if err != nil {
		return events.Key{}, "", fmt.Errorf("make key: %w", err)
	}
	k.Keep(&record)
	record.CreatedAt = time.Now().UTC()
	return record, k.Reveal(), nil
}

// Pull appends what a lever says of an instance, for programs that try Pilot out: operators have the API.
func Pull(ctx context.Context, log *eventlog.Log, p events.Partition, instance string, lever presence.Lever, by string) error {
	wire, token, ok := lever.Word()
	if !ok {
		return events.Errorf(events.CodeNotFound, "there is no such lever")
	}
	_, err := log.Append(ctx, events.Event{
		Address:  events.EventSubject(p, instance, events.GroupInstance, token),
		Envelope: events.Envelope{ID: uuid.NewString(), Type: wire, Source: "pilot/control", Time: time.Now().UTC()},
		Body:     &events.InstanceChanged{By: by},
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", lever, instance, err)
	}
	return nil
}
