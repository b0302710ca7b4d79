package dispatcher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

// gateways keeps one client per gateway and key.
type gateways struct {
	open  func(ctx context.Context, inst events.Instance) (string, error) // unseals the apikey of an instance
	build func(url, key string) (*evolution.Client, error)

	mu      sync.Mutex
	clients map[string]*evolution.Client // by URL and hash of the key
	sealed  map[string]string            // by instance and sealed key → name in clients
}

func newGateways(open func(context.Context, events.Instance) (string, error), build func(url, key string) (*evolution.Client, error)) *gateways {
	return &gateways{
		open: open, build: build,
		clients: map[string]*evolution.Client{}, sealed: map[string]string{},
	}
}

// client gives the client of an instance's gateway. Instances that share gateway and key share it.
func (g *gateways) client(ctx context.Context, inst events.Instance) (*evolution.Client, error) {
	ref := inst.ID + "|" + inst.GatewayURL + "|" + hex.EncodeToString(inst.GatewayKey.Blob)
	g.mu.Lock()
	c := g.clients[g.sealed[ref]]
	g.mu.Unlock()
	if c != nil {
		return c, nil
	}
	key, err := g.open(ctx, inst)
	if err != nil {
		return nil, fmt.Errorf("open gateway key: %w", err)
	}
	sum := sha256.Sum256([]byte(key))
	name := inst.GatewayURL + "|" + hex.EncodeToString(sum[:])
	c, made, err := g.named(name, inst, key, ref)
	if made {
		learnVersion(ctx, c)
	}
	return c, err
}

func (g *gateways) named(name string, inst events.Instance, key, ref string) (c *evolution.Client, made bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c = g.clients[name]; c == nil {
		if c, err = g.build(inst.GatewayURL, key); err != nil {
			return nil, false, fmt.Errorf("make gateway client: %w", err)
		}
		g.clients[name] = c
		made = true
	}
	g.sealed[ref] = name
	return c, made, nil
}

// learnVersion asks the gateway for its version once: some answers mean something in known versions only, and without it they
// count as unknown. Not knowing it is safe.
func learnVersion(ctx context.Context, c *evolution.Client) {
	bounded, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	_, _ = c.Version(bounded)
}

const versionLimit = 3 * time.Second

func (g *gateways) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.clients {
		c.Close()
	}
}
