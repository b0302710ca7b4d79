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
	asked   map[*evolution.Client]time.Time
	again   time.Duration // before a gateway that did not tell its version is asked anew
}

func newGateways(open func(context.Context, events.Instance) (string, error), build func(url, key string) (*evolution.Client, error)) *gateways {
	return &gateways{
		open: open, build: build,
		clients: map[string]*evolution.Client{}, sealed: map[string]string{}, asked: map[*evolution.Client]time.Time{}, again: 30 * time.Second,
	}
}

// client gives the client of an instance's gateway. Instances that share gateway and key share it.
func (g *gateways) client(ctx context.Context, inst events.Instance) (*evolution.Client, error) {
	ref := inst.ID + "|" + inst.GatewayURL + "|" + hex.EncodeToString(inst.GatewayKey.Blob)
	g.mu.Lock()
	c := g.clients[g.sealed[ref]]
	g.mu.Unlock()
	if c != nil {
		g.learn(ctx, c)
		return c, nil
	}
	key, err := g.open(ctx, inst)
	if err != nil {
		return nil, fmt.Errorf("open gateway key: %w", err)
	}
	sum := sha256.Sum256([]byte(key))
	name := inst.GatewayURL + "|" + hex.EncodeToString(sum[:])
	c, err = g.named(name, inst, key, ref)
	if err != nil {
		return nil, err
	}
	g.learn(ctx, c)
	return c, nil
}

func (g *gateways) named(name string, inst events.Instance, key, ref string) (c *evolution.Client, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c = g.clients[name]; c == nil {
		if c, err = g.build(inst.GatewayURL, key); err != nil {
			return nil, fmt.Errorf("make gateway client: %w", err)
		}
		g.clients[name] = c
	}
	g.sealed[ref] = name
	return c, nil
}

// learn asks a gateway for its version: at first, and now and then while it has told none. Some answers mean something in known
// versions only, and only some take a chosen id. Not knowing it is safe.
func (g *gateways) learn(ctx context.Context, c *evolution.Client) {
	g.mu.Lock()
	at, asked := g.asked[c]
	if asked && (c.KnownVersion() != "" || time.Since(at) < g.again) {
		g.mu.Unlock()
		return
	}
	g.asked[c] = time.Now()
	g.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	_, _ = c.Version(bounded) // it is asked again
}

const versionLimit = 3 * time.Second

func (g *gateways) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.clients {
		c.Close()
	}
}
