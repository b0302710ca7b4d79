package projector

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/message"
)

// timelineRow is a row of table timeline: one event as it concerns one message.
type timelineRow struct {
	seq                            uint64
	messageID, event               string
	at, storedAt, dueAt            time.Time
	attempt                        int
	folded, called, presumed       bool
	nonce, gatewayID, code, reason string
	cause                          string
	httpStatus                     int
	elapsedMS                      int64
}

// timelineOf gives the row of an event, without a message id: a closed event has one row for each message it names.
func timelineOf(rec events.Recorded) timelineRow {
	stored := rec.Stored
	if stored.IsZero() {
		stored = time.Unix(0, 0).UTC()
	}
	at := rec.Time
	if at.IsZero() {
		at = stored
	}
	r := timelineRow{
		seq: rec.Position.Sequence, event: text(eventName(rec.Type)), at: at, storedAt: stored, dueAt: rec.DueAt,
		attempt: rec.Attempt, nonce: text(rec.Nonce), gatewayID: text(rec.GatewayID),
	}
	if f, ok := message.FactOf(rec); ok {
		if f.At.IsZero() {
			f.At = at
		}
		r.folded, r.called, r.presumed = true, f.Called, f.Presumed
		r.at, r.code, r.reason = f.At.UTC(), text(string(f.Code)), text(f.Reason)
	}
	switch b := rec.Body.(type) {
	case *events.DispatchAccepted:
		r.cause, r.httpStatus, r.elapsedMS = b.Anomaly, b.HTTPStatus, b.ElapsedMS
	case *events.DispatchRefused:
		r.cause, r.httpStatus, r.elapsedMS = b.Cause, b.HTTPStatus, b.ElapsedMS
	case *events.DispatchDeferred:
		r.cause, r.httpStatus, r.elapsedMS = b.Cause, b.HTTPStatus, b.ElapsedMS
	case *events.DispatchUnknown:
		r.cause, r.httpStatus, r.elapsedMS = b.Cause, b.HTTPStatus, b.ElapsedMS
	case *events.DispatchProved:
		r.cause = b.By
	case *events.EvidenceLate:
		r.cause, r.httpStatus = b.Cause, b.HTTPStatus
	case *events.EvidenceAnomaly:
		r.cause = b.Kind
	case *events.Receipt:
		r.cause = b.GatewayStatus
	}
	r.cause = text(r.cause)
	return r
}

// eventName is a wire name without its version: what a timeline shows.
func eventName(wireType string) string {
	i := strings.LastIndex(wireType, ".v")
	if i < 0 {
		return wireType
	}
	if _, err := strconv.ParseUint(wireType[i+2:], 10, 32); err != nil {
		return wireType
	}
	return wireType[:i]
}

// text makes s storable: Postgres refuses NUL and invalid UTF-8, and one such event must not stop all after it.
func text(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Text makes s storable, as every text of the views is.
func Text(s string) string { return text(s) }

// storable reports whether an id can be a key. One that cannot was not made by any writer of ours.
func storable(id string) bool { return id != "" && text(id) == id }

// int32Of keeps a number inside its column.
func int32Of(n int) int32 { return int32(max(math.MinInt32, min(math.MaxInt32, n))) }
