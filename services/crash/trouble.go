package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"pilotstatus.dev/infra/apicall"
	"pilotstatus.dev/infra/await"
	"pilotstatus.dev/infra/evolutionsim"
)

// refusal is an answer by which an instance, or the gateway, cannot be used.
type refusal struct {
	status int // 0: connections are refused
	body   string
}

// ofInstance are what a gateway says of one instance. A key that three of them are refused is the gateway's.
var ofInstance = []refusal{
	{http.StatusUnauthorized, `{"status":401,"error":"Unauthorized","response":{"message":"Unauthorized"}}`},
	{http.StatusForbidden, `{"status":403,"error":"Forbidden","response":{"message":"Forbidden"}}`},
	{http.StatusNotFound, `{"status":404,"error":"Not Found","response":{"message":["The \"x\" instance does not exist"]}}`},
}

// ofGateway are what is wrong with all instances at once.
var ofGateway = []refusal{
	{http.StatusServiceUnavailable, `{"code":"LICENSE_REQUIRED"}`},
	{http.StatusNotFound, `{"status":404,"error":"Not Found","response":{"message":["Cannot POST /message/sendText/x"]}}`},
	{},
}

// asked are the calls that are refused; "" is every send.
var asked = []string{"", "connectionState", "whatsappNumbers", "findMessages", "sendPresence"}

// refuse has the gateway give an answer to whatever it is asked of some instances, until end is called.
func (d *deployment) refuse(ctx context.Context, r refusal, some []int) (end func(context.Context) error, err error) {
	if r.status == 0 {
		return d.front.open, d.front.refuse(ctx)
	}
	began := time.Now()
	var set []int64
	for _, i := range some {
		for _, call := range asked {
			id, err := d.fault(ctx, evolutionsim.Fault{
				Kind: "answer", When: "before", Status: r.status, Body: r.body, ContentType: "application/json", Instance: instanceID(i), Call: call,
			})
			if err != nil {
				return nil, err
			}
			set = append(set, id)
		}
	}
	return func(ctx context.Context) error {
		defer func() { d.refusals = append(d.refusals, span{began, time.Now()}) }()
		for _, id := range set {
			status, raw, err := apicall.Do(ctx, d.load.client, http.MethodDelete, d.sim+"/sim/faults/"+strconv.FormatInt(id, 10), "", nil)
			if err != nil || status != http.StatusOK {
				return fmt.Errorf("let the gateway work again: %d %s: %w", status, raw, err)
			}
		}
		return nil
	}, nil
}

// fault sets a fault of the simulated gateway, and gives its id.
func (d *deployment) fault(ctx context.Context, f evolutionsim.Fault) (int64, error) {
	status, raw, err := apicall.Do(ctx, d.load.client, http.MethodPost, d.sim+"/sim/faults", "", f)
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("set a fault of the gateway: %d %s: %w", status, raw, err)
	}
	var out struct {
		ID int64 `json:"id"`
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return 0, fmt.Errorf("read the id of a fault: %w", err)
	}
	return out.ID, nil
}

// Bounds of one round of trouble: before it begins, until the gateway cannot be used either, how long that holds, and how much longer the
// instance cannot.
const (
	troubleWithin = 100 * time.Millisecond
	troubleLead   = 250 * time.Millisecond
	troubleLeast  = 200 * time.Millisecond
	troubleMore   = 500 * time.Millisecond
	troubleTail   = 300 * time.Millisecond
	mostRounds    = 15
	resumeWithin  = 30 * time.Second
)

// troubled reports whether instances and gateway are refused in this trial: where the point is about that, and in a drawn half of the others.
// The hanging calls of dispatcher.before_absent must be the only ones without effect.
func (t *trial) troubled() bool {
	return t.point != "dispatcher.before_absent" && (t.parks() || t.trouble)
}

// parks reports that the point is passed only where an instance parks.
func (t *trial) parks() bool {
	return t.point == "dispatcher.before_parked" || t.point == "dispatcher.before_unparked"
}

// refuse lets the gateway refuse one instance, then all, then that one only, so that both park while the process is hit. Where the point is
// passed by parks only, it refuses every instance, and again until the point is reached.
func (t *trial) refuse(ctx context.Context) error {
	if !t.troubled() {
		return nil
	}
	draw := rand.New(rand.NewPCG(t.seed, uint64(t.pass)<<32|uint64(t.pauseAt))) //nolint:gosec // a seeded draw is wanted; of its own, since it goes on beside others
	for range mostRounds {
		if err := t.round(ctx, draw); err != nil {
			return err
		}
		select {
		case <-t.hit:
			return nil
		default:
		}
		if !t.parks() {
			return nil
		}
		if err := t.d.resumed(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) round(ctx context.Context, draw *rand.Rand) error {
	below := func(d time.Duration) time.Duration { return time.Duration(draw.Int64N(int64(d))) }
	all := draw.Perm(instances)
	some := all[:1]
	if t.parks() {
		some = all
	}
	await.Elapsed(ctx, below(troubleWithin))
	ofOne, err := t.d.refuse(ctx, ofInstance[draw.IntN(len(ofInstance))], some)
	if err != nil {
		return err
	}
	await.Elapsed(ctx, below(troubleLead))
	ofAll, err := t.d.refuse(ctx, ofGateway[draw.IntN(len(ofGateway))], all)
	if err != nil {
		return err
	}
	await.Elapsed(ctx, troubleLeast+below(troubleMore))
	if err := ofAll(ctx); err != nil {
		return err
	}
	await.Elapsed(ctx, below(troubleTail))
	return ofOne(ctx)
}

// resumed waits until no instance is parked: nobody does anything about it.
func (d *deployment) resumed(ctx context.Context) error {
	if err := d.chain.wait(ctx, resumeWithin, func() bool { return len(d.chain.parks()) == 0 }); err != nil {
		return fmt.Errorf("%v stay parked, and the gateway works: %w", d.chain.parks(), err)
	}
	return nil
}
