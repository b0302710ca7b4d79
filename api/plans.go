package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/timezone"
)

// Codes of limits that are not of a key's burst.
const (
	CodePlanLimit      events.Code = "PLAN_LIMIT_REACHED"      // details: window, limit, resetsAt
	CodeRecipientLimit events.Code = "RECIPIENT_LIMIT_REACHED" // details: limit
)

// maxRecipients bounds the recipients whose messages one process keeps count of.
const maxRecipients = 200_000

// Quota keeps what tenants accept within their plans (docs/reference/quota.md).
type Quota interface {
	// Reserve takes a place in each window or in none. full is the window without a place; an error means that it is not known
	// whether there is one.
	Reserve(ctx context.Context, tenant string, windows []quota.Window) (r Reservation, full *quota.Window, err error)
	// Used tells how many places of each window are taken.
	Used(ctx context.Context, tenant string, windows []quota.Window) ([]int64, error)
}

// Reservation is the place that was taken for one message.
type Reservation interface {
	// Names lists the windows.
	Names() []string
	// Used tells how many places of each of these windows are taken, this one included.
	Used() []int64
	// GiveBack gives the place back, for a message that is certain not to be in the log.
	GiveBack(ctx context.Context)
}

// noReservation is that of a message that counts nowhere.
type noReservation struct{}

func (noReservation) Names() []string          { return nil }
func (noReservation) Used() []int64            { return nil }
func (noReservation) GiveBack(context.Context) {}

// windowWords say what a window is in headers and in texts.
var windowWords = map[quota.Kind]struct{ name, each string }{
	quota.Month: {"month", "a month"}, quota.Day: {"day", "a day"}, quota.TestDay: {"testDay", "a day in TEST"},
}

// limitOf is what the headers say of a window.
func limitOf(w quota.Window, used int64, now time.Time) Limit {
	return Limit{
		Name: windowWords[w.Kind].name, Quota: int64(w.Limit), Window: w.Resets.Sub(w.Begins), Left: int64(w.Limit) - used, Reset: w.Resets.Sub(now),
	}
}

// errNoPlan is a fault of ours: a plan that tenants have cannot be removed.
func errNoPlan() error { return internal(errors.New("the plan of the tenant is not in the catalog")) }

// reserve takes a place in the windows of the plan, and tells the caller what is left of them.
func (a *acceptor) reserve(ctx context.Context, d draft, s submission) (Reservation, error) {
	if a.quota == nil {
		return noReservation{}, nil
	}
	var ws []quota.Window
	known := false
	key, zone := s.caller.Key, timezone.OfTenant(d.zone)
	a.catalog.Read(func(c *catalog.Catalog) { ws, known = c.Windows(key.TenantID, key.Environment, d.profile, d.now, zone) })
	if !known {
		return nil, errNoPlan()
	}
	if len(ws) == 0 {
		return noReservation{}, nil
	}
	r, full, err := a.quota.Reserve(ctx, key.TenantID, ws)
	if err != nil {
		return nil, outage(err, "The limits of the plan cannot be checked; nothing was accepted.")
	}
	if full != nil {
		noteLimit(ctx, limitOf(*full, int64(full.Limit), d.now))
		return nil, events.Errorf(CodePlanLimit, "The plan allows %d messages %s.", full.Limit, windowWords[full.Kind].each).
			WithDetails("window", full.Name).WithDetails("limit", full.Limit).WithDetails("resetsAt", stamp(full.Resets))
	}
	for i, used := range r.Used() {
		noteLimit(ctx, limitOf(ws[i], used, d.now))
	}
	return r, nil
}

// recipients holds tenants to a number of messages in an hour to one recipient, each process by itself.
type recipients struct {
	mu sync.Mutex
	of *bursts // for the limit that is its size
}

// take takes one of the messages to a recipient; wait is how long until there is another.
func (r *recipients) take(limit int, name string, now time.Time) (left Limit, wait time.Duration, ok bool) {
	r.mu.Lock()
	if r.of == nil || r.of.size != limit {
		r.of = newBursts(float64(limit)/time.Hour.Seconds(), limit)
		r.of.most = maxRecipients
	}
	of := r.of
	r.mu.Unlock()
	left, ok = of.take(name, 1, now)
	return left, time.Duration(float64(time.Hour) / float64(limit)), ok
}

// seldom refuses what would be one message too many to a recipient in an hour, whatever key asks for it: somebody else's form must
// not bomb a person with codes.
func (a *acceptor) seldom(ctx context.Context, d *draft, s submission) error {
	limit := 0
	a.catalog.Read(func(c *catalog.Catalog) { limit = c.Platform().RecipientLimit })
	if limit <= 0 || d.profile {
		return nil
	}
	left, wait, ok := a.recipients.take(limit, s.caller.Key.TenantID+" "+d.recipientHash, d.now)
	if ok {
		return nil
	}
	left.Name, left.Reset = "recipient", wait // at most until the next one; the whole hour would be too long
	noteLimit(ctx, left)
	return events.Errorf(CodeRecipientLimit, "Too many messages to this recipient within an hour.").WithDetails("limit", limit)
}
