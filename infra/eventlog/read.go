package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/await"
)

// errNoMessage is the server's word that it has no such message.
var errNoMessage = errors.New("no such message")

// getRequest asks for one message; see JSApiMsgGetRequest in the server.
type getRequest struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
}

// Get gives one event whole. It asks any replica, and the leader when that has none: a miss is believed of the leader
// only. Errors: events.CodeNotFound, events.CodeMalformed, events.CodeUnavailable.
func (l *Log) Get(ctx context.Context, stream string, seq uint64) (events.Recorded, error) {
	m, err := l.directGet(ctx, stream, getRequest{Seq: seq})
	if err != nil {
		return l.GetLeader(ctx, stream, seq)
	}
	return l.decoded(stream, m, nil)
}

// GetLeader is Get asked of the stream's leader.
func (l *Log) GetLeader(ctx context.Context, stream string, seq uint64) (events.Recorded, error) {
	m, err := l.leaderGet(ctx, stream, getRequest{Seq: seq})
	return l.decoded(stream, m, err)
}

// LastBySubject gives the last event of a subject or filter, asked of the leader. Errors are those of Get.
func (l *Log) LastBySubject(ctx context.Context, stream, filter string) (events.Recorded, error) {
	m, err := l.leaderGet(ctx, stream, getRequest{LastFor: filter})
	return l.decoded(stream, m, err)
}

// LastSequence gives the last sequence of a stream, 0 when nothing was ever stored, asked of the leader. Without a quorum of the
// stream's copies it is events.CodeUnavailable.
func (l *Log) LastSequence(ctx context.Context, stream string) (uint64, error) {
	state, err := l.state(ctx, stream)
	return state.LastSeq, err
}

// InsistFor is how long it is worth to insist before something long is given up.
const InsistFor = 20 * time.Second

// Insist asks again, after growing pauses, while the log gives no answer (events.CodeUnavailable), until ctx or the limit ends: what took an
// hour must not be lost over a question that a busy machine had no time for. It gives what the last question ended with.
func Insist(ctx context.Context, limit time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for n := 0; ; n++ {
		err := ask(ctx)
		if events.CodeOf(err) != events.CodeUnavailable || !await.Backoff(ctx, 25*time.Millisecond, time.Second, n) {
			return err
		}
	}
}

// Clock gives the time of the server that answers for a stream: the clock that dates its events.
func (l *Log) Clock(ctx context.Context, stream string) (time.Time, error) {
	ctx, cancel := l.try(ctx)
	defer cancel()
	s, err := l.js.Stream(ctx, stream)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask %s for the time: %w", stream, events.Errorf(events.CodeUnavailable, "the log did not answer").WithCause(err))
	}
	return s.CachedInfo().TimeStamp, nil
}

func (l *Log) state(ctx context.Context, stream string) (jetstream.StreamState, error) {
	now, err := l.streamNow(ctx, stream, "")
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("read state of %s: %w", stream, events.Errorf(events.CodeUnavailable, "the log did not answer").WithCause(err))
	}
	return now.state, nil
}

func (l *Log) decoded(stream string, m events.Stored, err error) (events.Recorded, error) {
	switch {
	case errors.Is(err, errNoMessage):
		return events.Recorded{}, fmt.Errorf("read %s: %w", stream, events.Errorf(events.CodeNotFound, "no such event in the log"))
	case err != nil:
		return events.Recorded{}, fmt.Errorf("read %s: %w", stream, events.Errorf(events.CodeUnavailable, "the log did not answer").WithCause(err))
	}
	rec, err := l.opts.Registry.Decode(m)
	if err != nil {
		return events.Recorded{}, fmt.Errorf("read %s at %s: %w", stream, m.Position, err)
	}
	return rec, nil
}

// leaderGet uses the API that only the leader answers; the client library would use a direct get where the stream allows it.
func (l *Log) leaderGet(ctx context.Context, stream string, req getRequest) (events.Stored, error) {
	reply, err := l.request(ctx, "STREAM.MSG.GET."+stream, req)
	if err != nil {
		return events.Stored{}, err
	}
	var body struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &body); err != nil {
		return events.Stored{}, fmt.Errorf("read the server's answer: %w", err)
	}
	if body.Error != nil {
		if body.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return events.Stored{}, errNoMessage
		}
		return events.Stored{}, body.Error
	}
	if body.Message == nil {
		return events.Stored{}, errors.New("the server's answer holds no message")
	}
	m := body.Message
	var header nats.Header
	if len(m.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return events.Stored{}, fmt.Errorf("read headers: %w", err)
		}
	}
	return events.Stored{
		Wire:     events.Wire{Subject: m.Subject, Header: header, Data: m.Data},
		Position: position(stream, m.Seq), Time: m.Time,
	}, nil
}

func (l *Log) directGet(ctx context.Context, stream string, req getRequest) (events.Stored, error) {
	reply, err := l.request(ctx, "DIRECT.GET."+stream, req)
	if err != nil {
		return events.Stored{}, err
	}
	if status := reply.Header.Get("Status"); status != "" {
		if status == "404" {
			return events.Stored{}, errNoMessage
		}
		return events.Stored{}, fmt.Errorf("direct get: status %s", status)
	}
	seq, err := strconv.ParseUint(reply.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return events.Stored{}, fmt.Errorf("read sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, reply.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return events.Stored{}, fmt.Errorf("read time: %w", err)
	}
	return events.Stored{
		Wire:     events.Wire{Subject: reply.Header.Get(jetstream.SubjectHeader), Header: reply.Header, Data: reply.Data},
		Position: position(stream, seq), Time: at,
	}, nil
}

func (l *Log) request(ctx context.Context, api string, req getRequest) (*nats.Msg, error) {
	data, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	ctx, cancel := l.try(ctx)
	defer cancel()
	return l.nc.RequestWithContext(ctx, l.prefix+api, data)
}
