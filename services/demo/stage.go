package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/evolutionsim"
)

// Outside says where the outside world is. HookAddr may have port 0.
type Outside struct {
	GatewayURL string
	GatewayKey string
	HookAddr   string // of the receiver that is started
}

// Stage is what plays the customer: a receiver, with first data pointing at it and at the gateway.
type Stage struct {
	Gateway  string // URL
	Receiver *Receiver
	Keys     *Keys // nil when they were made in an earlier run
}

// SetUp starts the receiver and brings first data.
func SetUp(ctx context.Context, c Control, o Outside, log zerolog.Logger) (_ *Stage, err error) {
	s := &Stage{Gateway: o.GatewayURL}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	if s.Receiver, err = StartReceiver(ctx, o.HookAddr, log.With().Str("role", "demo-receiver").Logger()); err != nil {
		return nil, err
	}
	s.Keys, err = Ensure(ctx, c, Target{GatewayURL: o.GatewayURL, GatewayKey: o.GatewayKey, EndpointURL: s.Receiver.URL()})
	if err != nil {
		return nil, err
	}
	secret, err := Secret(ctx, c)
	if err != nil {
		return nil, err
	}
	s.Receiver.Trust(secret)
	return s, nil
}

// StartSim starts a simulated gateway with the instances of the first data. Start it before the roles, so that it is there when
// they register their webhooks.
func StartSim(ctx context.Context, addr string) (*evolutionsim.Server, error) {
	sim, err := evolutionsim.Start(ctx, evolutionsim.Options{
		Address:  addr,
		Receipts: evolutionsim.Receipts{ServerAck: 50 * time.Millisecond, DeliveryAck: 150 * time.Millisecond, Read: 300 * time.Millisecond},
		Instances: []evolutionsim.Instance{
			{Name: SharedName, Number: SharedNumber, State: "open"},
			{Name: OwnName, Number: OwnNumber, State: "open"},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start simulated gateway: %w", err)
	}
	return sim, nil
}

// Close stops the receiver.
func (s *Stage) Close(ctx context.Context) error {
	var err error
	if s.Receiver != nil {
		err = s.Receiver.Close(ctx)
	}
	return err
}
