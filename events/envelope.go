package events

import (
	"strconv"
	"strings"
	"time"
	"unique"
)

// SpecVersion is the CloudEvents version whose attributes travel in the headers (https://github.com/cloudevents/spec, 1.0.2).
const SpecVersion = "1.0"

// HeaderMsgID is JetStream's deduplication header. Events outside the fenced group carry it with their ce-id;
// fenced ones rely on the fence and a nonce instead and never carry it.
const HeaderMsgID = "Nats-Msg-Id"

// Names of the envelope's headers. The body of an event holds nothing that is here.
const (
	HeaderSpecVersion  = "ce-specversion"
	HeaderID           = "ce-id"
	HeaderType         = "ce-type"
	HeaderSource       = "ce-source"
	HeaderTime         = "ce-time"
	HeaderSubject      = "ce-subject"
	HeaderTenantID     = "ce-tenantid"
	HeaderDeliverAt    = "ce-deliverat"
	HeaderDeliverUntil = "ce-deliveruntil"
	HeaderAttempt      = "ce-attempt"
	HeaderNonce        = "ce-nonce"
	HeaderPrev         = "ce-prev"
	HeaderQueuedSeq    = "ce-queuedseq"
	HeaderDueAt        = "ce-dueat"
	HeaderCalled       = "ce-called"
	HeaderGatewayID    = "ce-gatewayid"
	HeaderTextHash     = "ce-texthash"
	HeaderTraceParent  = "ce-traceparent"
)

// Envelope is what every event carries in headers, so that a reader of headers alone can fold (docs/events.md).
// Zero fields are left out of the headers.
type Envelope struct {
	ID           string    // unique; for queued the message id, for receipts "<message>.<state>"
	Type         string    // wire name, e.g. "dispatch.started.v1"
	Source       string    // "pilot/<role>"
	Time         time.Time // when it happened, by the appender's clock, UTC
	Subject      string    // message id; empty when the event is not about exactly one message
	TenantID     string
	DeliverAt    time.Time // no call before
	DeliverUntil time.Time // no call after
	Attempt      int       // 1-based number of the attempt it is about; 0 when none
	Nonce        string    // of started: whose start it is (rule R2)
	Prev         uint64    // fenced: sequence of the event before it in the group; 0 is the first
	QueuedSeq    uint64    // sequence of the accepted message in the same partition
	DueAt        time.Time // of deferred: when the next attempt is due
	Called       bool      // of deferred: a call was made
	GatewayID    string    // WhatsApp key id
	TextHash     string    // of started, where a repeated last message is suppressed: keyed hashes of recipient and content
	TraceParent  string    // W3C trace context
}

// headers gives the headers of e for an event of spec s.
func (e Envelope) headers(s Spec, dedupID string) map[string][]string {
	h := make(map[string][]string, 12)
	set := func(k, v string) {
		if v != "" {
			h[k] = []string{v}
		}
	}
	set(HeaderSpecVersion, SpecVersion)
	set(HeaderID, e.ID)
	set(HeaderType, e.Type)
	set(HeaderSource, e.Source)
	set(HeaderTime, formatTime(e.Time))
	set(HeaderSubject, e.Subject)
	set(HeaderTenantID, e.TenantID)
	set(HeaderDeliverAt, formatTime(e.DeliverAt))
	set(HeaderDeliverUntil, formatTime(e.DeliverUntil))
	if e.Attempt > 0 {
		set(HeaderAttempt, strconv.Itoa(e.Attempt))
	}
	set(HeaderNonce, e.Nonce)
	if s.Fenced {
		set(HeaderPrev, strconv.FormatUint(e.Prev, 10))
	} else if dedupID != "" {
		set(HeaderMsgID, dedupID)
	} else {
		set(HeaderMsgID, e.ID)
	}
	if e.QueuedSeq > 0 {
		set(HeaderQueuedSeq, strconv.FormatUint(e.QueuedSeq, 10))
	}
	set(HeaderDueAt, formatTime(e.DueAt))
	if s.Called {
		set(HeaderCalled, strconv.FormatBool(e.Called))
	}
	set(HeaderGatewayID, e.GatewayID)
	set(HeaderTextHash, e.TextHash)
	set(HeaderTraceParent, e.TraceParent)
	return h
}

// readEnvelope reads headers; a header that is there but malformed is an error naming the header.
func readEnvelope(h map[string][]string) (Envelope, error) {
	get := func(k string) string {
		if v := h[k]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	// The client library hands out pieces of one text, the whole block of headers: whoever keeps an id for long, as a fold of a million
	// pending messages does, would keep the block with it.
	own := func(k string) string { return strings.Clone(get(k)) }
	shared := func(k string) string { return unique.Make(get(k)).Value() } // of few values: events in memory share one copy
	var bad string
	at := func(k string) time.Time {
		v := get(k)
		if v == "" {
			return time.Time{}
		}
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			bad = k
		}
		return t.UTC()
	}
	num := func(k string, bits int) uint64 {
		v := get(k)
		if v == "" {
			return 0
		}
		n, err := strconv.ParseUint(v, 10, bits)
		if err != nil {
			bad = k
		}
		return n
	}
	e := Envelope{
		ID: own(HeaderID), Type: shared(HeaderType), Source: shared(HeaderSource), Time: at(HeaderTime),
		Subject: own(HeaderSubject), TenantID: shared(HeaderTenantID),
		DeliverAt: at(HeaderDeliverAt), DeliverUntil: at(HeaderDeliverUntil),
		Attempt: int(num(HeaderAttempt, 16)), Nonce: own(HeaderNonce),
		Prev: num(HeaderPrev, 64), QueuedSeq: num(HeaderQueuedSeq, 64), DueAt: at(HeaderDueAt),
		GatewayID: own(HeaderGatewayID), TextHash: own(HeaderTextHash), TraceParent: own(HeaderTraceParent),
	}
	switch get(HeaderCalled) {
	case "", "false":
	case "true":
		e.Called = true
	default:
		bad = HeaderCalled
	}
	if e.ID == "" {
		bad = HeaderID
	}
	if e.Type == "" {
		bad = HeaderType
	}
	if bad != "" {
		return Envelope{}, Errorf(CodeMalformed, "header %s is missing or malformed", bad)
	}
	return e, nil
}

// formatTime writes RFC 3339 in UTC with milliseconds: the precision every clock involved has.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
