package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// streamNow is what the leader of a stream said of it.
type streamNow struct {
	state     jetstream.StreamState // with Subjects, where a filter was asked for
	retention jetstream.RetentionPolicy
	all       bool // the subjects are all there are
}

// copies is what the server that answered knows of a stream's copies; nil where it is the only server.
type copies struct {
	Leader string `json:"leader"`
	Others []struct {
		Offline bool          `json:"offline"`
		Pending bool          `json:"pending"` // it is not one of them yet
		Active  time.Duration `json:"active"`  // since it was last heard; 0 also where the leader is new and it was not
	} `json:"replicas"`
}

// heardWithin is how long a copy may say nothing to its leader, which it answers each second, until it counts as away. A leader itself
// waits 10 to 20 s before it steps down.
const heardWithin = 5 * time.Second

// led says why what was answered is not the word of a leader that most copies follow: without one nothing is taken, a follower may not
// have all of it, and a leader that is alone may have been replaced. A follower answers only when it knows of no leader.
func (c *copies) led() error {
	if c == nil {
		return nil
	}
	if c.Leader == "" {
		return errors.New("its copies have no leader")
	}
	all, follow := 1, 1
	for _, o := range c.Others {
		if o.Pending {
			continue
		}
		all++
		if !o.Offline && o.Active < heardWithin {
			follow++
		}
	}
	if follow <= all/2 {
		return fmt.Errorf("%d of its %d copies are there", follow, all)
	}
	return nil
}

// streamNow asks the leader, and fails where that has no quorum; among, unless empty, also for how many messages stand under each subject that it covers.
func (l *Log) streamNow(ctx context.Context, stream, among string) (streamNow, error) {
	body, err := json.Marshal(struct {
		Subjects string `json:"subjects_filter,omitempty"`
	}{among})
	if err != nil {
		return streamNow{}, fmt.Errorf("encode request: %w", err)
	}
	ctx, cancel := l.try(ctx)
	defer cancel()
	reply, err := l.nc.RequestWithContext(ctx, l.prefix+"STREAM.INFO."+stream, body)
	if err != nil {
		return streamNow{}, fmt.Errorf("ask for %s: %w", stream, err)
	}
	var info struct {
		Error  *jetstream.APIError    `json:"error"`
		Config jetstream.StreamConfig `json:"config"`
		State  jetstream.StreamState  `json:"state"`
		Total  int                    `json:"total"`
		Copies *copies                `json:"cluster"`
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		return streamNow{}, fmt.Errorf("read the server's answer: %w", err)
	}
	if info.Error != nil {
		return streamNow{}, fmt.Errorf("ask for %s: %w", stream, info.Error)
	}
	if err := info.Copies.led(); err != nil {
		return streamNow{}, fmt.Errorf("ask for %s: %w", stream, err)
	}
	return streamNow{state: info.State, retention: info.Config.Retention, all: info.Total <= len(info.State.Subjects)}, nil
}

// looks keeps what was asked of streams a moment ago, so that many idle readers of one stream cost one question.
type looks struct {
	mu sync.Mutex
	of map[[2]string]*look
}

type look struct {
	begun time.Time
	done  chan struct{}
	now   streamNow
	err   error
}

// look is streamNow as of half an interval ago at most.
func (l *Log) look(ctx context.Context, stream, among string) (streamNow, error) {
	key := [2]string{stream, among}
	l.looks.mu.Lock()
	k := l.looks.of[key]
	mine := k == nil || time.Since(k.begun) >= l.opts.Stuck/2
	if mine {
		k = &look{begun: time.Now(), done: make(chan struct{})}
		l.looks.of[key] = k
	}
	l.looks.mu.Unlock()
	if mine {
		k.now, k.err = l.streamNow(ctx, stream, among)
		close(k.done)
	}
	select {
	case <-k.done:
		return k.now, k.err
	case <-ctx.Done():
		return streamNow{}, ctx.Err()
	}
}

// everything is the filter of a reader without one.
var everything = []string{">"}

// standsFrom reports that a stream holds an event that one of the filters covers at a sequence or behind it.
func (l *Log) standsFrom(ctx context.Context, stream string, filters []string, from uint64) (bool, error) {
	if len(filters) == 0 {
		filters = everything
	}
	for _, f := range filters {
		_, err := l.leaderGet(ctx, stream, getRequest{Seq: max(from, 1), NextFor: f})
		if !errors.Is(err, errNoMessage) {
			return err == nil, err
		}
	}
	return false, nil
}

// first gives the sequence of the first event that one of the filters covers, 0 when there is none.
func (l *Log) first(ctx context.Context, stream string, filters []string) (seq uint64, err error) {
	for _, f := range filters {
		m, err := l.leaderGet(ctx, stream, getRequest{Seq: 1, NextFor: f})
		switch {
		case errors.Is(err, errNoMessage):
		case err != nil:
			return 0, err
		case seq == 0 || m.Position.Sequence < seq:
			seq = m.Position.Sequence
		}
	}
	return seq, nil
}
