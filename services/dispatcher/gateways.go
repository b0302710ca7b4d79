package dispatcher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolution"
)

// gateways keeps one client per gateway and key. Those of one gateway share what is known of its version (versions.go).
type gateways struct {
	open  func(ctx context.Context, inst events.Instance) (string, error) // unseals the apikey of an instance
	build func(url, key string) (*evolution.Client, error)

	mu      sync.Mutex
	clients map[string]*evolution.Client // by URL and hash of the key
	sealed  map[string]string            // by instance and sealed key → name in clients
	askers  map[string]*asker            // by URL

	looks chan struct{} // the asking for versions looks again
	moved atomic.Bool   // the catalog changed since it was read for gateways
}

func newGateways(open func(context.Context, events.Instance) (string, error), build func(url, key string) (*evolution.Client, error)) *gateways {
	return &gateways{
		open: open, build: build,
		clients: map[string]*evolution.Client{}, sealed: map[string]string{}, askers: map[string]*asker{},
		looks: make(chan struct{}, 1),
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
	return g.named(name, inst, key, ref)
}

func (g *gateways) named(name string, inst events.Instance, key, ref string) (c *evolution.Client, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c = g.clients[name]; c == nil {
		if c, err = g.build(inst.GatewayURL, key); err != nil {
			return nil, fmt.Errorf("make gateway client: %w", err)
		}
		of, err := g.asker(inst.GatewayURL)
		if err != nil {
			return nil, err
		}
		c.ShareVersion(of.client)
		g.clients[name] = c
	}
	g.sealed[ref] = name
	return c, nil
}

func (g *gateways) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.clients {
		c.Close()
	}
	for _, a := range g.askers {
		a.client.Close()
	}
}
