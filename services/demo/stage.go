package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/evolutionsim"
)

// Outside says where the outside world is, or is to be made. Addresses may have port 0.
type Outside struct {
	SimAddr    string // of the simulated gateway that is started, unless GatewayURL is given
	GatewayURL string // of a gateway that already runs
	GatewayKey string
	HookAddr   string // of the receiver
}

// Stage is what plays the outside world: a simulated gateway and a customer's receiver, with first data pointing at them.
type Stage struct {
	Sim      *evolutionsim.Server // nil when the gateway runs elsewhere
	Gateway  string               // URL
	Receiver *Receiver
	Keys     *Keys // nil when they were made in an earlier run
}

// SetUp starts the outside world and brings first data.
func SetUp(ctx context.Context, c Control, o Outside, log zerolog.Logger) (_ *Stage, err error) {
	s := &Stage{Gateway: o.GatewayURL}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	key := o.GatewayKey
	if o.GatewayURL == "" {
		if s.Sim, err = startSim(ctx, o.SimAddr); err != nil {
			return nil, err
		}
		s.Gateway, key = s.Sim.URL(), s.Sim.APIKey()
	}
	if s.Receiver, err = StartReceiver(ctx, o.HookAddr, log.With().Str("role", "demo-receiver").Logger()); err != nil {
		return nil, err
	}
	s.Keys, err = Ensure(ctx, c, Target{GatewayURL: s.Gateway, GatewayKey: key, EndpointURL: s.Receiver.URL()})
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

func startSim(ctx context.Context, addr string) (*evolutionsim.Server, error) {
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
