package app

import (
	"context"
	"fmt"
	"time"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/services/control"
)

// apiGateway asks gateways about numbers for customers, with the key that CONTROL keeps sealed.
type apiGateway struct {
	secrets control.Secrets
	limit   time.Duration // of one call
}

func (g apiGateway) ConnectionState(ctx context.Context, in events.Instance) (state api.NumberState, err error) {
	err = g.ask(ctx, in, func(c *evolution.Client) error {
		told, err := c.ConnectionState(ctx, in.Name)
		state = map[evolution.State]api.NumberState{
			evolution.StateOpen: api.NumberOpen, evolution.StateConnecting: api.NumberConnecting, evolution.StateClose: api.NumberClose,
		}[told]
		return err
	})
	return state, err
}

func (g apiGateway) Connect(ctx context.Context, in events.Instance) (p api.Pairing, err error) {
	err = g.ask(ctx, in, func(c *evolution.Client) error {
		told, err := c.Connect(ctx, in.Name)
		p = api.Pairing(told)
		return err
	})
	return p, err
}

// ask makes a call with a client of its own: it is rare, and the dispatcher's connections are not for it.
func (g apiGateway) ask(ctx context.Context, in events.Instance, call func(*evolution.Client) error) error {
	key, err := g.secrets.Open(ctx, in.ID, in.GatewayKey)
	if err != nil {
		return fmt.Errorf("open gateway key: %w", err)
	}
	c, err := evolution.New(evolution.Config{BaseURL: in.GatewayURL, APIKey: string(key), Limits: evolution.Limits{Other: g.limit}})
	if err != nil {
		return fmt.Errorf("reach gateway: %w", err)
	}
	defer c.Close()
	return call(c)
}
