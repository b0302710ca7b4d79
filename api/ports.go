package api

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/forecast"
	"pilotstatus.dev/events/message"
)

// ErrKeyMissing says that the data key of a sealed value was destroyed: what it held is gone for good. A Keyring wraps it;
// it must not be returned for a key that could only not be reached.
var ErrKeyMissing = errors.New("data key is gone")

// Catalog serves the control plane from memory.
type Catalog interface {
	// Read calls f with the catalog, guarded against changes. f must not keep the pointer.
	Read(f func(*catalog.Catalog))
	// Behind is how long ago the catalog was last known to be up to date with CONTROL; very long before it was first read.
	Behind() time.Duration
}

// Log appends events.
type Log interface {
	// Append stores e and gives its sequence in the partition its address names. While the result is unknown it appends
	// the same event again, under the same id, until ctx ends; an error then means that nothing is known. The codes
	// MALFORMED_EVENT and INVALID_SUBJECT mean that nothing was appended and trying again does not help.
	Append(ctx context.Context, e events.Event) (sequence uint64, err error)
}

// Keyring seals under data keys and opens again. An error with a code other than UNAVAILABLE is a fault that does not go
// away by trying again; every other error is an outage.
type Keyring interface {
	// Seal seals plaintext under the tenant's data key, which is made when it does not exist.
	Seal(ctx context.Context, tenant, keyID string, aad, plaintext []byte) (events.Sealed, error)
	// Open gives what was sealed; an error that wraps ErrKeyMissing when the key was destroyed.
	Open(ctx context.Context, tenant string, sealed events.Sealed, aad []byte) ([]byte, error)
}

// Control writes to the control plane and knows its history. Errors as of Log, and CONFLICT.
type Control interface {
	// Append records an event of an entity when CONTROL ends at expected, and gives its sequence; CONFLICT when it does not.
	// body is an *events.Defined or an *events.Removed that fits the type. UNAVAILABLE means that the result is not known.
	Append(ctx context.Context, kind, id, eventType string, body any, expected uint64) (sequence uint64, err error)
	// Await returns when the catalog of this process has taken in the sequence.
	Await(ctx context.Context, sequence uint64) error
	// CatchUp returns when the catalog has taken in everything that CONTROL holds now.
	CatchUp(ctx context.Context) error
	// History gives the events of an entity behind a sequence, the oldest first and at most limit.
	History(ctx context.Context, kind, id string, after uint64, limit int) ([]events.Recorded, error)
}

// Secrets seals secrets of the control plane, each bound to its entity. Errors as of Keyring.
type Secrets interface {
	Seal(ctx context.Context, entity string, secret []byte) (events.Sealed, error)
	// SealIngress gives the instance with what its gateway must present to hand in receipts.
	SealIngress(ctx context.Context, in events.Instance, s events.IngressSecret) (events.Instance, error)
	// Ingress opens what SealIngress sealed.
	Ingress(ctx context.Context, in events.Instance) (events.IngressSecret, error)
}

// NumberState is the connection of a number as customers see it; empty where the gateway does not tell.
type NumberState string

// The states of numbers.
const (
	NumberOpen       NumberState = "OPEN"
	NumberConnecting NumberState = "CONNECTING"
	NumberClose      NumberState = "CLOSE"
)

// Pairing is what a gateway gives to pair a number with a telephone. All of it is empty while the gateway has none yet.
type Pairing struct {
	Open    bool   // it is connected: there is nothing to pair
	Picture string // QR code as a data URL
	Text    string // what the QR code says
	Code    string // to be typed instead
}

// Gateway asks the gateway of an instance. Its errors are outages; every call ends with ctx.
type Gateway interface {
	ConnectionState(ctx context.Context, in events.Instance) (NumberState, error)
	// Connect begins a connection where there is none.
	Connect(ctx context.Context, in events.Instance) (Pairing, error)
}

// Eraser destroys data keys: what was sealed under one is gone for good. One that is not there is no error.
type Eraser interface {
	Erase(ctx context.Context, tenant, keyID string) error
}

// Hasher makes keyed hashes of personal data that can be compared inside a tenant but not reversed. Errors as of Keyring.
type Hasher interface {
	Hash(ctx context.Context, tenant, purpose string, data []byte) (string, error)
}

// Views reads what was projected, inside a scope. A miss has the code NOT_FOUND, an outage UNAVAILABLE or the error of ctx;
// any other error is a fault of ours.
type Views interface {
	// Message gives the message whose message id, correlation id or WhatsApp id is id; of several the newest.
	Message(ctx context.Context, scope Scope, id string) (MessageView, error)
	// Timeline lists the events of a message in the order of the log.
	Timeline(ctx context.Context, scope Scope, messageID string) ([]TimelineEntry, error)
	// WaitFor returns when the view of p has taken in sequence, or with an error when ctx ends before.
	WaitFor(ctx context.Context, p events.Partition, sequence uint64) error
}

// Heads knows where the log ends.
type Heads interface {
	// Last gives the last sequence of a partition's stream.
	Last(ctx context.Context, p events.Partition) (sequence uint64, err error)
}

// Records reads the facts behind messages, inside a scope; ids outside of it are left out. Errors are those of Views.
type Records interface {
	Records(ctx context.Context, scope Scope, ids []string) ([]MessageRecord, error)
}

// Fence reads and appends to the fenced group of an instance: all that decides whether a call to the gateway may follow.
type Fence interface {
	// Read gives the events of the group behind a sequence, and the sequence of its last one: what the next append expects.
	Read(ctx context.Context, p events.Partition, instance string, after uint64) (recs []events.Recorded, last uint64, err error)
	// Restored gives the newest word of an operator that a log which lost events was accepted, nil when there is none.
	Restored(ctx context.Context, p events.Partition, instance string) (*events.Recorded, error)
	// Append stores e if the group still ends at expected. The code FENCED says that it does not, and that e is not stored;
	// any other error that e may be stored now or later.
	Append(ctx context.Context, p events.Partition, instance string, e events.Event, expected uint64) (sequence uint64, err error)
}

// Finder finds accepted messages in the log of a partition by the time at which they were stored. Events are whole.
type Finder interface {
	Find(ctx context.Context, p events.Partition, since, until time.Time, ids []string) (map[string]events.Recorded, error)
}

// Loads knows what waits at instances.
type Loads interface {
	// Load gives what waits at an instance; false when nothing recent is known. It takes no more than half a second.
	Load(ctx context.Context, p events.Partition, instance string) (forecast.Load, bool)
}

// Check is one named condition of readiness.
type Check struct {
	Name string // a word, shown to anyone who asks
	// Degrades names what does not work while the check fails, e.g. "reads". Empty means that nothing does: not ready.
	Degrades string
	Run      func(context.Context) error // its error is logged, never shown
}

// Ports are what the API needs from outside. Checks may be empty, Now and NewID nil (the wall clock and UUIDv7); the rest is required.
type Ports struct {
	Catalog Catalog
	Log     Log
	Keyring Keyring
	Hasher  Hasher
	Reads   Reads
	// AAD builds the associated data of a sealed field: tenant, entity id and field.
	AAD     func(tenant, entity, field string) []byte
	Views   Views
	Heads   Heads
	Records Records
	Fence   Fence
	Finder  Finder
	Hooks   Log   // stores deliveries to endpoints
	Loads   Loads // may be nil: no message has a forecast
	Claims  Claims
	Recall  Recall
	// Presence and Quota may be nil: then no bound instance is refused, and plans limit nothing.
	Presence Presence
	Quota    Quota
	// Control, Words, Originals, Secrets and Eraser serve the routes of operators; without Control there are none.
	Control   Control
	Words     Words
	Originals Originals
	Secrets   Secrets
	Eraser    Eraser
	// Gateway may be nil: then states of numbers are those last known, and none is paired.
	Gateway Gateway
	Checks  []Check
	Now     func() time.Time
	NewID   func() uuid.UUID // UUIDv7
}

// Scope is what a key may see: nothing outside of it exists for the caller (promise P12).
type Scope struct {
	Tenant      string
	Project     string
	Environment events.Environment
}

// MessageView is a message as the views know it. Zero times and empty strings are shown as null.
type MessageView struct {
	ID            string
	Tenant        string
	Environment   events.Environment
	CorrelationID string
	Category      events.Category
	TemplateID    string // empty for free text
	Origin        string
	SourceNumber  string
	GatewayID     string // WhatsApp id
	Stage         events.Stage
	AckOverdue    bool // DISPATCHED, and no receipt came in time
	Attempts      int
	ErrorCode     events.ErrorCode
	Sealed        events.Sealed // Blob empty when erased
	CreatedAt     time.Time
	DeliverAt     time.Time
	DeliverUntil  time.Time
	SentAt        time.Time
	DeliveredAt   time.Time
	ReadAt        time.Time
	FailedAt      time.Time
	CanceledAt    time.Time
}

// MessageRecord is a message as the facts that the views have of it.
type MessageRecord struct {
	ID         string
	Position   events.Position // of its acceptance
	Instance   string
	CreatedAt  time.Time
	DeliverAt  time.Time // zero: at once
	Checkpoint uint64    // sequence up to which Facts is complete
	Facts      message.Record
	Unreadable bool // something that decides about it could not be read
}

// TimelineEntry is one event of a message.
type TimelineEntry struct {
	Event    string // wire name without its version, e.g. "dispatch.started"
	Time     time.Time
	Position events.Position
	Attempt  int // 1-based; 0 when the event is about none
}

// Reads are the ports of lists and figures.
type Reads struct {
	Lists      Lists
	Deliveries Deliveries
	Figures    Figures
}

// Figures counts what was projected, inside a scope. Errors are those of Views.
type Figures interface {
	// Counts gives, for each stretch between two following bounds, how many messages were accepted in it, by their status now.
	Counts(ctx context.Context, scope Scope, bounds []time.Time) ([]map[events.Status]int, error)
}

// Deliveries lists tries to tell customers' endpoints. Errors are those of Views.
type Deliveries interface {
	// Deliveries gives the newest tries to tell an endpoint of a tenant, at most limit, the newest first; with before those before that
	// place. An endpoint of another tenant has none.
	Deliveries(ctx context.Context, tenant, endpoint string, before uint64, limit int) ([]DeliveryView, error)
	// Delivery gives the newest try of the delivery with a webhook-id.
	Delivery(ctx context.Context, tenant, endpoint, webhookID string) (DeliveryView, error)
	// Ended gives the newest try of each delivery that passes f, at most limit, the oldest first.
	Ended(ctx context.Context, tenant, endpoint string, f EndedFilter, limit int) ([]DeliveryView, error)
}

// EndedFilter narrows deliveries by their newest try.
type EndedFilter struct {
	Results  []string  // of events.HookSucceeded, HookFailed and HookExhausted
	From, To time.Time // made at or after From, and before To
	After    uint64    // behind this place
}

// Lists lists what was projected, inside a scope. Errors are those of Views.
type Lists interface {
	// Messages gives at most limit messages that pass f, newest first, those behind the place after; the zero place begins.
	Messages(ctx context.Context, scope Scope, f MessageFilter, after ListPlace, limit int) ([]MessageView, error)
}

// MessageFilter narrows a list of messages; an empty field does not.
type MessageFilter struct {
	Status        events.Status
	Stage         events.Stage
	Category      events.Category
	Instance      string
	Template      string // id
	RecipientHash string
	Label         string
	From, To      time.Time // accepted at or after From, and before To
}

// ListPlace is where a message stands in lists, newest first. It never changes, and is the same after a rebuild.
type ListPlace struct {
	CreatedAt time.Time // to the microsecond
	ID        string
}
