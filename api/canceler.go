package api

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/cancel"
)

// Bounds of a cancel (docs/reference/api.md).
const (
	cancelTries    = 3               // appends of one request to one instance; each reads only what is new
	cancelReading  = 2 * time.Second // of one instance's group, or of one search in the log
	cancelParallel = 8               // readers of the log in one process: each is a consumer at the server
	searchMargin   = time.Minute     // how far the clock that made an id may be off the server's, to either side
)

// canceler cancels messages through the fenced group of their instances: exact also while a dispatcher is about to send them.
type canceler struct {
	catalog Catalog
	records Records
	fence   Fence
	finder  Finder
	views   Views
	catchUp func(context.Context, events.Partition) error
	now     func() time.Time
	newID   func() uuid.UUID
	log     zerolog.Logger
	timeout time.Duration // of the whole
	wait    time.Duration // for the views to show it
	readers chan struct{}
}

// located is a message whose instance is known, and from where the group of that instance is to be read.
type located struct {
	cancel.Message
	partition events.Partition
	instance  string
	after     uint64
}

// verdicts collects what is said of each id. It is safe for concurrent use.
type verdicts struct {
	mu sync.Mutex
	of map[string]cancel.Verdict
}

func (v *verdicts) set(verdict cancel.Verdict, ids ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		v.of[id] = verdict
	}
}

// cancel gives a verdict for every id: cancel.Canceled, or the reason of a refusal. Its error says that nothing was tried. by is the
// operator who cancels, none for a customer.
func (c *canceler) cancel(ctx context.Context, scope Scope, ids []string, by author) (map[string]cancel.Verdict, error) {
	ctx, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	said := &verdicts{of: make(map[string]cancel.Verdict, len(ids))}
	found, viewed, err := c.locate(ctx, scope, ids, said)
	if err != nil {
		return nil, err
	}
	type home struct {
		partition events.Partition
		instance  string
	}
	groups := map[home][]located{}
	for _, m := range found {
		h := home{m.partition, m.instance}
		groups[h] = append(groups[h], m)
	}
	var all sync.WaitGroup
	for h, messages := range groups {
		all.Go(func() { c.group(ctx, h.partition, h.instance, messages, by, said, viewed) })
	}
	all.Wait()
	return said.of, nil
}

// group cancels messages of one instance.
func (c *canceler) group(ctx context.Context, p events.Partition, instance string, messages []located, by author, said *verdicts, viewed bool) {
	ids := make([]string, len(messages))
	ms := make([]cancel.Message, len(messages))
	after := messages[0].after
	for i, m := range messages {
		ids[i], ms[i], after = m.ID, m.Message, min(after, m.after)
	}
	said.set(cancel.TryAgain, ids...) // until more is known
	log := c.log.With().Stringer("partition", p).Str("instance", instance).Logger()
	g := cancel.NewGroup(after, ms)
	restored, err := c.fence.Restored(ctx, p, instance)
	if err != nil {
		log.Warn().Err(err).Msg("messages not canceled: whether the log was restored is not known")
		return
	}
	if restored != nil {
		g.Restored(*restored)
	}
	for range cancelTries {
		last, err := c.read(ctx, p, instance, g)
		if err != nil {
			log.Warn().Err(err).Msg("messages not canceled: the group cannot be read")
			return
		}
		for _, id := range ids {
			v := g.Verdict(id)
			if v == cancel.May { // decided below, or not in time
				v = cancel.TryAgain
			}
			said.set(v, id)
		}
		end, some := g.Close()
		if !some {
			return
		}
		end.By, end.Note = by.by, by.reason
		seq, err := c.fence.Append(ctx, p, instance, c.event(p, instance, end, messages), last)
		switch events.CodeOf(err) {
		case "":
			for _, m := range end.Messages {
				said.set(cancel.Canceled, m.ID)
			}
			if viewed {
				c.show(ctx, p, seq)
			}
			return
		case events.CodeFenced: // something was decided meanwhile: what, is read
		default:
			log.Warn().Err(err).Int("messages", len(end.Messages)).Msg("messages not known to be canceled")
			return
		}
	}
	log.Warn().Int("tries", cancelTries).Msg("messages not canceled: others were faster each time")
}

// read folds what is new in the group, and gives the sequence that the next append expects.
func (c *canceler) read(ctx context.Context, p events.Partition, instance string, g *cancel.Group) (uint64, error) {
	ctx, stop := context.WithTimeout(ctx, cancelReading)
	defer stop()
	if err := c.reader(ctx); err != nil {
		return 0, err
	}
	defer func() { <-c.readers }()
	recs, last, err := c.fence.Read(ctx, p, instance, g.At())
	g.Apply(recs...)
	return last, err
}

// reader waits for the right to read the log.
func (c *canceler) reader(ctx context.Context) error {
	select {
	case c.readers <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err(), "Too many messages are being canceled.")
	}
}

// show waits until the views know of the end, so that who canceled a message reads it as canceled. It holds without them.
func (c *canceler) show(ctx context.Context, p events.Partition, seq uint64) {
	ctx, stop := context.WithTimeout(ctx, c.wait)
	defer stop()
	if err := c.views.WaitFor(ctx, p, seq); err != nil {
		c.log.Info().Err(err).Stringer("partition", p).Msg("the views do not show a cancel yet")
	}
}

func (c *canceler) event(p events.Partition, instance string, end events.DispatchClosed, messages []located) events.Event {
	id := c.newID()
	e := events.Event{
		Envelope: events.Envelope{ID: id.String(), Type: events.TypeDispatchClosed, Source: "pilot/api", Time: c.now().UTC().Truncate(time.Millisecond)},
		Address:  events.EventSubject(p, instance, events.GroupDispatch, "closed"),
		Body:     &end,
	}
	if len(end.Messages) == 1 {
		e.Subject, e.QueuedSeq, e.TenantID = end.Messages[0].ID, end.Messages[0].QueuedSeq, messages[0].Tenant
	}
	return e
}

// locate finds the messages: in the views, and in the log what the views may not have. What is decided by that is said; viewed
// tells that the views answered.
func (c *canceler) locate(ctx context.Context, scope Scope, ids []string, said *verdicts) (found []located, viewed bool, err error) {
	partitions := partitionsOf(c.catalog)
	missing := map[events.Partition][]string{}
	for _, id := range ids {
		p, _, ok := events.ParseMessageID(id)
		if !ok || int(p) >= partitions {
			said.set(cancel.NotFound, id)
			continue
		}
		missing[p] = append(missing[p], id)
	}
	viewed = true
	look := func() error {
		var asked []string
		for _, of := range missing {
			asked = append(asked, of...)
		}
		if len(asked) == 0 {
			return nil
		}
		records, err := c.records.Records(ctx, scope, asked)
		for _, r := range records {
			p := r.Position.Partition
			missing[p] = slices.DeleteFunc(missing[p], func(id string) bool { return id == r.ID })
			found = append(found, located{partition: p, instance: r.Instance, after: r.Checkpoint, Message: cancel.Message{
				ID: r.ID, QueuedSeq: r.Position.Sequence, Tenant: scope.Tenant, Record: r.Facts, Unreadable: r.Unreadable, ReadyAt: later(r.CreatedAt, r.DeliverAt),
			}})
		}
		return err
	}
	if err := look(); err != nil {
		if err := readError(err); events.CodeOf(err) != events.CodeUnavailable {
			return nil, false, err
		}
		viewed = false
	}
	behind := c.settle(ctx, missing, viewed)
	if viewed {
		if err := look(); err != nil {
			viewed, behind = false, missing
		}
	}
	for p, of := range missing {
		if _, open := behind[p]; !open { // the view has seen all there was: it would know them
			said.set(cancel.NotFound, of...)
			continue
		}
		found = append(found, c.search(ctx, scope, p, of, said)...)
	}
	return found, viewed, nil
}

// settle waits for the views of the partitions with messages that are missing, and gives those whose views cannot be waited for.
func (c *canceler) settle(ctx context.Context, missing map[events.Partition][]string, viewed bool) map[events.Partition][]string {
	var mu sync.Mutex
	behind := map[events.Partition][]string{}
	var all sync.WaitGroup
	for p, of := range missing {
		if len(of) == 0 {
			continue
		}
		all.Go(func() {
			if viewed && c.catchUp(ctx, p) == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			behind[p] = of
		})
	}
	all.Wait()
	return behind
}

// search finds messages in the log of a partition, by the time in their ids. Those it cannot find may exist all the same.
func (c *canceler) search(ctx context.Context, scope Scope, p events.Partition, ids []string, said *verdicts) []located {
	said.set(cancel.TryAgain, ids...)
	ctx, stop := context.WithTimeout(ctx, cancelReading)
	defer stop()
	if err := c.reader(ctx); err != nil {
		return nil
	}
	defer func() { <-c.readers }()
	var out []located
	for _, w := range windows(ids, c.timeout) {
		queued, err := c.finder.Find(ctx, p, w.since, w.until, w.ids)
		if err != nil {
			c.log.Warn().Err(err).Stringer("partition", p).Msg("messages not found in the log: it cannot be read")
			return out
		}
		for id, rec := range queued {
			addr, err := events.ParseEventSubject(rec.Address)
			body, ok := rec.Body.(*events.MessageQueued)
			// What is outside of the scope is said to be as what does not exist.
			if err != nil || !ok || (Scope{Tenant: rec.TenantID, Project: body.Project, Environment: body.Environment}) != scope {
				continue
			}
			out = append(out, located{partition: p, instance: addr.Instance, after: rec.Position.Sequence, Message: cancel.Message{
				ID: id, QueuedSeq: rec.Position.Sequence, Tenant: scope.Tenant, ReadyAt: later(rec.Time, rec.DeliverAt),
			}})
		}
	}
	return out
}

// window is a span of the log in which the acceptances of ids lie.
type window struct {
	since, until time.Time
	ids          []string
}

// windows gives the spans to search for ids, in order; those that overlap are one. An append takes at most as long as given.
func windows(ids []string, appending time.Duration) []window {
	var out []window
	for _, id := range ids {
		_, milli, _ := events.ParseMessageID(id)
		at := time.UnixMilli(milli)
		out = append(out, window{since: at.Add(-searchMargin), until: at.Add(appending + searchMargin), ids: []string{id}})
	}
	slices.SortFunc(out, func(a, b window) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	merged := out[:0]
	for _, w := range out {
		if n := len(merged); n > 0 && !w.since.After(merged[n-1].until) {
			merged[n-1].until = w.until
			merged[n-1].ids = append(merged[n-1].ids, w.ids...)
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
