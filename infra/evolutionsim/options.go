package evolutionsim

import (
	"context"
	"net"
	"time"
)

// Never as a receipt's delay keeps that receipt from being sent.
const Never time.Duration = -1

// Options shape a simulator. The zero value is usable.
type Options struct {
	Address string // to listen on; 127.0.0.1:0
	// DontListen opens no socket: requests come through ServeHTTP, and Address is the host that URL names. For simulations in
	// virtual time, where sockets do not work.
	DontListen bool
	APIKey     string // the global key; "sim-key"
	Version    string // 2.3.6
	// NumberCache is how numbers are remembered; CacheExact.
	NumberCache NumberCache

	Receipts  Receipts
	Webhooks  Webhooks
	SendTime  time.Duration // how long one send occupies its instance, which sends one at a time; 0
	NoSaving  bool          // the gateway keeps no messages: look-ups find nothing, receipts come without messageId
	Instances []Instance    // there from the start

	LedgerCap   int // entries kept, the oldest go first; 200,000
	MessageCap  int // messages kept per instance; 10,000
	NumberCap   int // numbers in the cache; 100,000
	PendingCap  int // webhooks waiting for their time or a worker; what exceeds it is dropped and counted; 500,000
	FaultsLimit int // faults set at once; 10,000
}

// Receipts are the delays after a message was taken. 0 means at once, Never means not at all.
type Receipts struct {
	ServerAck, DeliveryAck, Read time.Duration
}

// Webhooks say how events are posted. The defaults are those of the gateway, except for the number of workers.
type Webhooks struct {
	Workers      int           // posts at one time; 32
	Timeout      time.Duration // of one post; 30 s
	MaxAttempts  int           // tries in all; 10
	InitialDelay time.Duration // before the second try, doubled for each further one; 5 s
	MaxDelay     time.Duration // 5 min
	Jitter       float64       // share by which a wait is drawn around its value, never below InitialDelay; 0.2, negative for none
	// Dial replaces the dialer of posts; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (o *Options) setDefaults() {
	setDefault(&o.Address, "127.0.0.1:0")
	setDefault(&o.APIKey, "sim-key")
	setDefault(&o.Version, "2.3.6")
	setDefault(&o.NumberCache, CacheExact)
	setDefault(&o.LedgerCap, 200_000)
	setDefault(&o.MessageCap, 10_000)
	setDefault(&o.NumberCap, 100_000)
	setDefault(&o.PendingCap, 500_000)
	setDefault(&o.FaultsLimit, 10_000)
	setDefault(&o.Webhooks.Workers, 32)
	setDefault(&o.Webhooks.Timeout, 30*time.Second)
	setDefault(&o.Webhooks.MaxAttempts, 10)
	setDefault(&o.Webhooks.InitialDelay, 5*time.Second)
	setDefault(&o.Webhooks.MaxDelay, 5*time.Minute)
	setDefault(&o.Webhooks.Jitter, 0.2)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
