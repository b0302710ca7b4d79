package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
	"pilotstatus.dev/services/app"
	"pilotstatus.dev/services/demo"
)

type upCmd struct {
	app.Config `embed:""`
	Demo       bool   `help:"Bring first data, a simulated gateway and a receiver of customer webhooks. Never for production." env:"PILOT_DEMO"`
	SimAddr    string `help:"Address of the simulated gateway of --demo." default:"127.0.0.1:8083" env:"PILOT_SIM_ADDR"`
	GatewayURL string `name:"gateway-url" help:"URL of a gateway that --demo uses instead of a simulated one of its own." env:"PILOT_GATEWAY_URL"`
	GatewayKey string `name:"gateway-key" help:"Its apikey." env:"PILOT_GATEWAY_KEY"`
	HookAddr   string `help:"Address of the webhook receiver of --demo." default:"127.0.0.1:8084" env:"PILOT_HOOK_ADDR"`
}

// Run runs every role until a signal.
func (c *upCmd) Run(s *session) error {
	if !c.Demo {
		return serve(s, c.Config, app.Roles(), nil)
	}
	c.AllowLoopbackEndpoints = true
	out := demo.Outside{GatewayURL: c.GatewayURL, GatewayKey: c.GatewayKey, HookAddr: c.HookAddr}
	if out.GatewayURL == "" {
		sim, err := demo.StartSim(s.ctx, c.SimAddr)
		if err != nil {
			return fmt.Errorf("%w (--sim-addr)", err)
		}
		defer sim.Close()
		out.GatewayURL, out.GatewayKey = sim.URL(), sim.APIKey()
	}
	return serve(s, c.Config, app.Roles(), func(ctx context.Context, a *app.App) (func(context.Context) error, error) {
		stage, err := demo.SetUp(ctx, a.Control(), out, logger(c.LogLevel, c.LogFormat, s.stderr))
		if err != nil {
			return nil, err
		}
		return stage.Close, c.welcome(s, a, stage)
	})
}

// welcome prints where everything is, the keys when they were just made, and a line to paste.
func (c *upCmd) welcome(s *session, a *app.App, stage *demo.Stage) error {
	keyFile := filepath.Join(c.DataDir, "demo-live.key")
	if k := stage.Keys; k != nil {
		for name, key := range map[string]string{"demo-live.key": k.Live, "demo-own.key": k.Own, "demo-test.key": k.Test} {
			if err := os.WriteFile(filepath.Join(c.DataDir, name), []byte(key), 0o600); err != nil {
				return fmt.Errorf("keep the demo key: %w", err)
			}
		}
		fmt.Fprintf(s.stdout, "API keys, printed once:\n  LIVE, shared number  %s\n  LIVE, own number     %s\n  TEST                 %s  (sends to profile numbers only, of which there are none yet: docs/operate.md)\n\n", k.Live, k.Own, k.Test)
	}
	u := a.URLs()
	_, err := fmt.Fprintf(s.stdout, `Pilot is up.
  API        %s  (docs: %s/docs)
  gateway    %s  (ledger: %s/sim/ledger)
  NATS       %s  (nats --context pilot stream ls)

Send a message:
  curl -sS %s/v1/messages/send -H "x-api-key: $(cat %s)" -H 'content-type: application/json' \
    -d '{"templateId":"%s","variables":{"code":"123456"},"destinationNumber":"+5511988887777"}'
`, u.API, u.API, stage.Gateway, stage.Gateway, u.NATS, u.API, keyFile, demo.TemplateOTP)
	return err
}

type simCmd struct {
	Addr      string        `help:"Address to listen on." default:"127.0.0.1:8083" env:"PILOT_SIM_ADDR"`
	APIKey    string        `name:"api-key" help:"Global key of the gateway." default:"sim-key" env:"PILOT_SIM_API_KEY"`
	ServerAck time.Duration `help:"Delay of SERVER_ACK; negative: never." default:"50ms" env:"PILOT_SIM_SERVER_ACK"`
	Delivery  time.Duration `help:"Delay of DELIVERY_ACK; negative: never." default:"150ms" env:"PILOT_SIM_DELIVERY"`
	Read      time.Duration `help:"Delay of READ; negative: never." default:"300ms" env:"PILOT_SIM_READ"`
	SendTime  time.Duration `help:"How long one send occupies its instance." default:"0s" env:"PILOT_SIM_SEND_TIME"`
	Instances []string      `help:"Instances that are there from the start, as name=number." env:"PILOT_SIM_INSTANCES"`
}

// Run runs a simulated gateway until a signal.
func (c *simCmd) Run(s *session) error {
	opts := evolutionsim.Options{
		Address: c.Addr, APIKey: c.APIKey, SendTime: c.SendTime,
		Receipts: evolutionsim.Receipts{ServerAck: c.ServerAck, DeliveryAck: c.Delivery, Read: c.Read},
	}
	for _, text := range c.Instances {
		inst, err := simInstance(text)
		if err != nil {
			return err
		}
		opts.Instances = append(opts.Instances, inst)
	}
	sim, err := evolutionsim.Start(s.ctx, opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "simulated gateway at %s (ledger: %s/sim/ledger)\n", sim.URL(), sim.URL())
	<-s.ctx.Done()
	sim.Close()
	return nil
}

func simInstance(text string) (evolutionsim.Instance, error) {
	for i := range text {
		if text[i] == '=' && i > 0 && i < len(text)-1 {
			return evolutionsim.Instance{Name: text[:i], Number: text[i+1:]}, nil
		}
	}
	return evolutionsim.Instance{}, errors.New("--instances wants name=number")
}
