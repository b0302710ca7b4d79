package topology

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
)

// Names of buckets. Names of streams are in package events.
const (
	BucketKeys      = "keys"      // data keys: "<tenant>.<key id>"
	BucketIdem      = "idem"      // idempotency claims
	BucketQuota     = "quota"     // what the log says of quota windows: "<tenant>.<window>.<partition>"
	BucketLeases    = "leases"    // who lives and works: "disp.<id>", "load.<p>.<id>", "recon.leader"
	BucketSnapshots = "SNAPSHOTS" // the dispatcher's folds
)

// Defaults of a deployment.
const (
	DefaultPartitions = 4
	DefaultReplicas   = 1
	DefaultLaneCap    = 250 // open lane consumers of one EVENTS stream
	spareConsumers    = 200 // tails, durables and operators beside the lanes
)

// Limits that the table states (docs/reference/streams.md).
const (
	DedupWindow    = 10 * time.Minute // in which a repeated Nats-Msg-Id is answered with the first sequence
	MaxEventSize   = 256 << 10        // bytes, headers included
	IdempotencyTTL = 7 * 24 * time.Hour
	day            = 24 * time.Hour
	quotaAge       = 100 * day   // longer than any window
	markerTTL      = time.Minute // a limit marker must be stated for a TTL per key to be allowed
)

// Deployment is what the table depends on. Zero fields take the defaults.
type Deployment struct {
	Partitions int // 1..events.MaxPartitions; fixed when the deployment is created
	Replicas   int // copies of every stream: 1 on one node, 3 in a cluster
	LaneCap    int // most open lanes of one EVENTS stream
}

func (d Deployment) withDefaults() Deployment {
	if d.Partitions == 0 {
		d.Partitions = DefaultPartitions
	}
	if d.Replicas == 0 {
		d.Replicas = DefaultReplicas
	}
	if d.LaneCap == 0 {
		d.LaneCap = DefaultLaneCap
	}
	return d
}

// Kind says what a resource is to its users.
type Kind string

// The kinds of resources.
const (
	KindStream   Kind = "stream"
	KindKeyValue Kind = "key-value"
	KindObjects  Kind = "object store"
)

// Resource is one line of the table.
type Resource struct {
	Name    string // of the stream or bucket
	Kind    Kind
	Purpose string
	// Stream is the wanted configuration; of a bucket, that of the stream behind it as far as the table states it.
	Stream jetstream.StreamConfig
	// KeyValue and Objects create a bucket; exactly the one of the kind is set.
	KeyValue *jetstream.KeyValueConfig
	Objects  *jetstream.ObjectStoreConfig

	partition bool // of one partition: the others can do without it
}

// Table lists every stream and bucket of a deployment, CONTROL first because it says how many partitions there are.
func Table(d Deployment) []Resource {
	d = d.withDefaults()
	table := []Resource{control(d)}
	for i := range d.Partitions {
		table = append(table, eventsOf(d, events.Partition(i)))
	}
	for i := range d.Partitions {
		table = append(table, receiptsOf(d, events.Partition(i)))
	}
	for h := range events.HookShards {
		table = append(table, hooks(d, h))
	}
	return append(table,
		limited(d, events.StreamHookLog, events.HookLogSubject("*", "*"), 30*day, "attempts made to deliver to customers"),
		quota(d),
		limited(d, events.StreamDead, events.DeadSubject("*", "*"), 30*day, "what no code could process"),
		snapshots(d),
		bucket(d, jetstream.KeyValueConfig{Bucket: BucketKeys}, "data keys; never expire, deleted by the reaper"),
		Claims(d),
		bucket(d, jetstream.KeyValueConfig{Bucket: BucketQuota, TTL: quotaAge}, "what was accepted and refunded in quota windows, as folded from the log"),
		Leases(d),
	)
}

// Claims is the bucket of idempotency claims. Its age is a second net: an update of a key drops the TTL it was created with.
func Claims(d Deployment) Resource {
	d = d.withDefaults()
	return bucket(d, jetstream.KeyValueConfig{Bucket: BucketIdem, TTL: IdempotencyTTL, LimitMarkerTTL: markerTTL},
		"idempotency claims; TTL per key, at most 7 d")
}

// Leases is the bucket of leases. It lives in memory: a standalone server that restarts comes back without it, and
// whoever misses it creates it again.
func Leases(d Deployment) Resource {
	d = d.withDefaults()
	return bucket(d, jetstream.KeyValueConfig{Bucket: BucketLeases, Storage: jetstream.MemoryStorage, LimitMarkerTTL: markerTTL},
		"ownership, TTL per key; in memory, safety comes from the log")
}

func stream(d Deployment, name, purpose string, subjects ...string) Resource {
	return Resource{Name: name, Kind: KindStream, Purpose: purpose, Stream: jetstream.StreamConfig{
		Name: name, Description: purpose, Subjects: subjects,
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardOld,
		Replicas: d.Replicas, Duplicates: DedupWindow, AllowDirect: true, Compression: jetstream.NoCompression,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1, MaxMsgSize: -1,
	}}
}

func control(d Deployment) Resource {
	r := stream(d, events.StreamControl, "the control plane: state of every entity and its history", events.ControlSubject("*", "*"))
	r.Stream.DenyDelete, r.Stream.DenyPurge = true, true
	return r
}

func eventsOf(d Deployment, p events.Partition) Resource {
	r := stream(d, events.EventsStream(p), "the log", events.EventsFilter(p))
	r.Stream.DenyDelete, r.Stream.DenyPurge = true, true
	r.Stream.Compression = jetstream.S2Compression
	r.Stream.MaxConsumers = d.LaneCap + spareConsumers
	r.Stream.MaxMsgSize = MaxEventSize
	r.partition = true
	return r
}

func receiptsOf(d Deployment, p events.Partition) Resource {
	r := limited(d, events.ReceiptsStream(p), events.ReceiptsFilter(p), 14*day, "what the gateways said")
	r.partition = true
	return r
}

// hooks states no bound: a bounded stream would drop schedules without a trace, and one that discards new messages
// may hold none.
func hooks(d Deployment, h int) Resource {
	r := stream(d, events.HooksStream(h), "customer deliveries to make, and schedules of their next tries", events.HooksFilters(h)...)
	r.Stream.Retention = jetstream.WorkQueuePolicy
	r.Stream.AllowMsgSchedules = true
	r.Stream.AllowRollup = true // implied by schedules
	return r
}

func limited(d Deployment, name, subject string, age time.Duration, purpose string) Resource {
	r := stream(d, name, purpose, subject)
	r.Stream.MaxAge = age
	return r
}

// quota keeps its history: with one message a subject a retried addition would count twice after a restart.
func quota(d Deployment) Resource {
	r := limited(d, events.StreamQuota, events.QuotaSubject("*", "*"), quotaAge, "counters of accepted messages by tenant and window")
	r.Stream.AllowMsgCounter = true
	return r
}

func snapshots(d Deployment) Resource {
	cfg := &jetstream.ObjectStoreConfig{Bucket: BucketSnapshots, Description: "the dispatcher's folds", Replicas: d.Replicas}
	return Resource{Name: cfg.Bucket, Kind: KindObjects, Purpose: cfg.Description, Objects: cfg, Stream: jetstream.StreamConfig{
		Name: "OBJ_" + cfg.Bucket, Subjects: []string{"$O." + cfg.Bucket + ".C.>", "$O." + cfg.Bucket + ".M.>"},
		Storage: jetstream.FileStorage, Replicas: d.Replicas, Discard: jetstream.DiscardNew,
		AllowRollup: true, AllowDirect: true,
	}}
}

func bucket(d Deployment, cfg jetstream.KeyValueConfig, purpose string) Resource {
	cfg.Description, cfg.History, cfg.Replicas = purpose, 1, d.Replicas
	return Resource{Name: cfg.Bucket, Kind: KindKeyValue, Purpose: purpose, KeyValue: &cfg, Stream: jetstream.StreamConfig{
		Name: "KV_" + cfg.Bucket, Subjects: []string{"$KV." + cfg.Bucket + ".>"},
		Storage: cfg.Storage, Replicas: d.Replicas, Discard: jetstream.DiscardNew,
		MaxAge: cfg.TTL, MaxMsgsPerSubject: 1, DenyDelete: true, AllowRollup: true, AllowDirect: true,
		AllowMsgTTL: cfg.LimitMarkerTTL > 0, SubjectDeleteMarkerTTL: cfg.LimitMarkerTTL,
	}}
}
