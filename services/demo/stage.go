package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/evolutionsim"
)

// Stage is what plays the outside world: a simulated gateway and a customer's receiver, with first data pointing at them.
type Stage struct {
	Sim      *evolutionsim.Server
	Receiver *Receiver
	Keys     *Keys // nil when they were made in an earlier run
}

// SetUp starts the outside world and brings first data. Addresses may have port 0.
func SetUp(ctx context.Context, c Control, simAddr, hookAddr string, log zerolog.Logger) (_ *Stage, err error) {
	s := &Stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	s.Sim, err = evolutionsim.Start(ctx, evolutionsim.Options{
		Address:  simAddr,
		Receipts: evolutionsim.Receipts{ServerAck: 50 * time.Millisecond, DeliveryAck: 150 * time.Millisecond, Read: 300 * time.Millisecond},
		Instances: []evolutionsim.Instance{
			{Name: SharedName, Number: SharedNumber, State: "open"},
			{Name: OwnName, Number: OwnNumber, State: "open"},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start simulated gateway: %w", err)
	}
	if s.Receiver, err = StartReceiver(ctx, hookAddr, log.With().Str("role", "demo-receiver").Logger()); err != nil {
		return nil, err
	}
	s.Keys, err = Ensure(ctx, c, Target{GatewayURL: s.Sim.URL(), GatewayKey: s.Sim.APIKey(), EndpointURL: s.Receiver.URL()})
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

// Close stops the outside world.
func (s *Stage) Close(ctx context.Context) error {
	var err error
	if s.Receiver != nil {
		err = s.Receiver.Close(ctx)
	}
	if s.Sim != nil {
		s.Sim.Close()
	}
	return err
}
