package sim

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/services/notifier"
)

// receiver is where a customer hears of its messages.
type receiver struct {
	w      *world
	host   *host
	secret string
	verify *standardwebhooks.Webhook
	server *http.Server
	served chan struct{}

	mu   sync.Mutex
	rand *rand.Rand
	mode receiverMode
}

// receiverMode says what a delivery meets.
type receiverMode string

const (
	receiverFine  receiverMode = "fine"
	receiverFails receiverMode = "receivers failing" // 500
	receiverHangs receiverMode = "receivers hanging" // it read the delivery and says nothing
	receiverDrops receiverMode = "receivers resetting"
	receiverSlow  receiverMode = "receivers slow"    // up to beyond the limit of a try
	receiverLimit receiverMode = "receivers limited" // 429 with Retry-After
)

var receiverModes = []receiverMode{receiverFails, receiverHangs, receiverDrops, receiverSlow, receiverLimit}

// Waits of the worker are shorter than in production, where ten tries take 76 hours.
var deliveryWaits = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

const tryLimit = 15 * time.Second

func (w *world) openReceiver(name string) *receiver {
	r := &receiver{
		w: w, host: w.net.listen(name), secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte("secret of "+name+" 0123456789abcdef")),
		rand: rand.New(rand.NewPCG(w.plan.Seed, uint64(len(w.receivers)))), mode: receiverFine,
	}
	var err error
	if r.verify, err = standardwebhooks.NewWebhook(r.secret); err != nil {
		w.rec.fail("open receiver", err)
	}
	r.server, r.served = serve(r.host, r)
	w.receivers = append(w.receivers, r)
	return r
}

func (r *receiver) close() {
	r.host.set(linkRefused)
	_ = r.server.Close() // repeats the listener's error
	<-r.served
}

func (r *receiver) set(m receiverMode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mode = m
}

// ServeHTTP takes a delivery, and answers as its mode says, at least to some.
func (r *receiver) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // it did not come whole
	}
	try := hookTry{
		Host: r.host.name, ID: req.Header.Get(standardwebhooks.HeaderWebhookID), Body: string(body),
		Signed: r.verify.Verify(body, req.Header) == nil, At: time.Now(),
	}
	r.mu.Lock()
	mode, wait := r.mode, time.Duration(r.rand.Int64N(int64(tryLimit*3/2)))
	if r.rand.IntN(4) == 0 {
		mode = receiverFine
	}
	r.mu.Unlock()
	status := http.StatusOK
	switch mode {
	case receiverFails:
		status = http.StatusInternalServerError
	case receiverLimit:
		rw.Header().Set("Retry-After", "40")
		status = http.StatusTooManyRequests
	case receiverSlow:
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
			status = 0
		}
	case receiverHangs:
		<-req.Context().Done()
		status = 0
	case receiverDrops:
		status = 0
	default:
	}
	if mode != receiverFine {
		r.w.rec.hit(string(mode))
	}
	try.Status = status
	r.w.rec.note(func(rec *recording) { rec.Tries = append(rec.Tries, try) })
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	rw.WriteHeader(status)
}

// drawReceivers plans how customers' endpoints fail.
func (p *plan) drawReceivers(r *rand.Rand) {
	for n := range 2*len(receiverModes) + int(p.Length/time.Hour) {
		mode, which, length := receiverModes[n%len(receiverModes)], r.IntN(len(tenants)), within(r, time.Second, 15*time.Minute)
		link := []linkMode{linkUp, linkUp, linkRefused, linkSilent}[r.IntN(4)]
		p.do(within(r, 0, p.Length), func(w *world) {
			to := w.receivers[1+which] // the first is the platform's, which hears of nothing
			to.set(mode)
			to.host.set(link)
			if link != linkUp {
				w.rec.hit("receivers away")
			}
			w.later(length, func() {
				to.set(receiverFine)
				to.host.set(linkUp)
			})
		})
	}
}

// deliver runs one worker after the other; each ends in the middle of what it does.
func (w *world) deliver(log *eventlog.Log) {
	for life := 1; w.ctx.Err() == nil; life++ {
		ctx, cancel := context.WithTimeout(w.ctx, time.Duration(life)*43*time.Minute)
		err := notifier.NewWorker(log, w.feed, w.keys, w.secrets, notifier.WorkerSettings{
			Client: notifier.ClientSettings{Dial: w.net.dial, Limit: tryLimit}, Waits: deliveryWaits, MaxRetryAfter: time.Minute, Logger: w.logger,
		}).Run(ctx)
		cancel()
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			w.rec.fail("worker", err)
			return
		}
	}
}

// seeDelivery keeps what the fan-out appends: a delivery is gone from its stream once it is made.
func (w *world) seeDelivery(o op) {
	if o.verb != "HPUB" || !strings.HasPrefix(o.subject, "hook.") {
		return
	}
	line := strings.Index(string(o.raw), "\r\n") + 2
	body := o.raw[line : len(o.raw)-2]
	end := strings.Index(string(body), "\r\n\r\n") + 4
	header, err := nats.DecodeHeadersMsg(body[:end])
	if err != nil {
		w.rec.fail("read a delivery", err)
		return
	}
	s := events.Stored{
		Wire: events.Wire{Subject: o.subject, Header: header, Data: append([]byte(nil), body[end:]...)}, Position: events.Position{Sequence: 1}, Time: time.Now(),
	}
	w.rec.note(func(r *recording) {
		id := header.Get(events.HeaderID)
		if r.ids == nil {
			r.ids = map[string]bool{}
		}
		if !r.ids[id] { // a try that is made again is the same
			r.ids[id] = true
			r.Hooks = append(r.Hooks, s)
		}
	})
}
