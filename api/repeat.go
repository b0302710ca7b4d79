package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/idempotency"
)

// Codes of repeated requests.
const (
	CodeKeyReused  events.Code = "IDEMPOTENCY_KEY_REUSED"  // the key was given to another request
	CodeInProgress events.Code = "IDEMPOTENCY_IN_PROGRESS" // the first request with the key is not answered yet
)

// claimTTL is how long a claim answers repeats, counted from its last write (docs/reference/api.md).
const claimTTL = 7 * 24 * time.Hour

// repeats tells repeated requests from new ones and keeps what they are told apart by.
type repeats struct {
	claims Claims
	recall Recall
	finder Finder
	rules  idempotency.Rules
	settle time.Duration // limit of what is written behind an append, whoever waits for the answer
}

// slotted is where the claim of a request goes: what the look-up found there.
type slotted struct {
	name     string // empty for a request without a key
	revision uint64
}

// repeated answers a request that was made before; nil when it is a new one. It goes right after the body, and a replay
// skips the other rules: they were judged when the message was accepted.
func (a *acceptor) repeated(ctx context.Context, d *draft, s submission) (*accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if s.key == "" {
		return a.recalled(ctx, d, s)
	}
	d.slot.name = idempotency.Request{
		Tenant: s.caller.Key.TenantID, Environment: s.caller.Key.Environment, Method: http.MethodPost, Path: s.path, Key: s.key, Item: s.item,
	}.Name()
	value, revision, err := a.repeats.claims.Get(ctx, d.slot.name)
	if err != nil {
		return nil, outage(err, "It cannot be looked up whether this was accepted before; nothing was accepted now.")
	}
	d.slot.revision = revision
	if value == nil {
		return nil, nil
	}
	var claim idempotency.Claim
	if err := json.Unmarshal(value, &claim); err != nil {
		return nil, internal(err)
	}
	m, err := a.resolve(ctx, claim, d.fingerprint, d.now)
	if m != nil && claim.Pending() {
		a.done(ctx, d.slot, claim)
	}
	return m, err
}

// recalled answers a post without a key that repeats one which was left without a known result.
func (a *acceptor) recalled(ctx context.Context, d *draft, _ submission) (*accepted, error) {
	claim, ok := a.repeats.recall.Take(ctx, d.fingerprint)
	if !ok {
		return nil, nil
	}
	rules := a.repeats.rules
	rules.Wait = 0 // the request that left it has ended
	m, err := a.resolveBy(ctx, rules, claim, d.fingerprint, d.now)
	if err != nil {
		a.keep(ctx, claim)
	}
	return m, err
}

func (a *acceptor) resolve(ctx context.Context, c idempotency.Claim, fingerprint string, now time.Time) (*accepted, error) {
	return a.resolveBy(ctx, a.repeats.rules, c, fingerprint, now)
}

// resolveBy gives what a claim says about a request; nil without an error that nothing was accepted for it.
func (a *acceptor) resolveBy(ctx context.Context, rules idempotency.Rules, c idempotency.Claim, fingerprint string, now time.Time) (*accepted, error) {
	verdict := c.Judge(fingerprint, now, rules)
	switch verdict {
	case idempotency.Reappend, idempotency.ReadBack:
	case idempotency.Reused:
		return nil, events.Errorf(CodeKeyReused, "This Idempotency-Key was given to another request.")
	case idempotency.InFlight:
		return nil, events.Errorf(CodeInProgress, "The first request with this Idempotency-Key is not answered yet; try again.")
	case idempotency.Replay:
		return replayed(c)
	}
	e, err := c.Rebuild()
	if err != nil {
		return nil, internal(err)
	}
	if verdict == idempotency.Reappend {
		if _, err := a.log.Append(ctx, e); err != nil {
			return nil, appendError(err)
		}
		return replayed(c)
	}
	found, err := a.find(ctx, e)
	switch {
	case err != nil:
		return nil, outage(err, unknownText)
	case found:
		return replayed(c)
	}
	return nil, nil
}

// find looks whether an event landed: in its partition, around its time.
func (a *acceptor) find(ctx context.Context, e events.Event) (bool, error) {
	addr, err := events.ParseEventSubject(e.Address)
	if err != nil {
		return false, err
	}
	since, until := e.Time.Add(-clocksDiffer), e.Time.Add(a.repeats.rules.Reappend+a.timeout+clocksDiffer)
	found, err := a.repeats.finder.Find(ctx, addr.Partition, since, until, []string{e.ID})
	return len(found) > 0, err
}

// clocksDiffer is more than the clocks of processes and of the log's server are apart.
const clocksDiffer = time.Minute

// replayed answers as the first request was, or would have been, answered.
func replayed(c idempotency.Claim) (*accepted, error) {
	m := &accepted{id: c.MessageID, replayed: true}
	if err := json.Unmarshal(c.Response, &m.response); err != nil {
		return nil, internal(err)
	}
	return m, nil
}

// claim writes down what is about to be appended, where the request has a key. An answer without an error says that
// another request with the key was faster.
func (a *acceptor) claim(ctx context.Context, d *draft, m accepted) (idempotency.Claim, *accepted, error) {
	response, err := json.Marshal(m.response)
	if err != nil {
		return idempotency.Claim{}, nil, internal(err)
	}
	claim, err := idempotency.New(d.fingerprint, m.lane.Instance, m.event, response)
	if err != nil {
		return idempotency.Claim{}, nil, internal(err)
	}
	if d.slot.name == "" {
		return claim, nil, nil
	}
	value, err := json.Marshal(claim)
	if err != nil {
		return idempotency.Claim{}, nil, internal(err)
	}
	revision, err := a.repeats.claims.Put(ctx, d.slot.name, value, d.slot.revision, claimTTL)
	switch {
	case err == nil:
		d.slot.revision = revision
		return claim, nil, nil
	case errors.Is(err, ErrMoved):
		faster, err := a.faster(ctx, d)
		return idempotency.Claim{}, faster, err
	default:
		return idempotency.Claim{}, nil, outage(err, "Nothing was accepted; try again.")
	}
}

// faster answers a request whose key another one claimed between its look-up and its own claim.
func (a *acceptor) faster(ctx context.Context, d *draft) (*accepted, error) {
	value, _, err := a.repeats.claims.Get(ctx, d.slot.name)
	if err != nil {
		return nil, outage(err, "Nothing was accepted; try again.")
	}
	var claim idempotency.Claim
	if value == nil || json.Unmarshal(value, &claim) != nil || claim.Fingerprint == d.fingerprint && claim.Pending() {
		return nil, events.Errorf(CodeInProgress, "Another request with this Idempotency-Key is being answered; try again.")
	}
	return a.resolve(ctx, claim, d.fingerprint, d.now)
}

// done marks a claim whose message is in the log. Where it fails, the next repeat finds the message by itself.
func (a *acceptor) done(ctx context.Context, at slotted, c idempotency.Claim) {
	if at.name == "" {
		return
	}
	value, err := json.Marshal(c.Done())
	if err != nil {
		return
	}
	ctx, cancel := a.behind(ctx)
	defer cancel()
	_, _ = a.repeats.claims.Put(ctx, at.name, value, at.revision, claimTTL)
}

// released takes back the claim of a request that was refused after it: refusals are not stored.
func (a *acceptor) released(ctx context.Context, at slotted) {
	if at.name == "" {
		return
	}
	ctx, cancel := a.behind(ctx)
	defer cancel()
	_ = a.repeats.claims.Delete(ctx, at.name, at.revision) // what stays is resolved like one whose process died
}

// keep keeps a post without a key whose append has no known result. A post with one has its claim.
func (a *acceptor) keep(ctx context.Context, c idempotency.Claim) {
	ctx, cancel := a.behind(ctx)
	defer cancel()
	a.repeats.recall.Keep(ctx, c)
}

// behind bounds what follows an append. It goes on when the client has gone: that is when it will ask again.
func (a *acceptor) behind(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), a.repeats.settle)
}

const unknownText = "It is not known whether the message was accepted; try again."

// appendError is the error of an append: unknown, unless the log can never take the event.
func appendError(err error) error {
	switch events.CodeOf(err) {
	case events.CodeMalformed, events.CodeInvalidSubject, events.CodeTooLarge:
		return internal(err)
	default:
		return unavailable(err, unknownText)
	}
}
