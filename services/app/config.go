// Package app wires the roles of Pilot together: what `pilot up` and `pilot <role>` run, in the order they need each other,
// stopped in reverse.
package app

import (
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/natsserver"
)

// Role is one part of Pilot that can run in a process of its own.
type Role string

// The roles.
const (
	RoleAPI        Role = "api"
	RoleDispatcher Role = "dispatcher"
	RoleIngest     Role = "ingest"
	RoleCorrelator Role = "correlator"
	RoleProjector  Role = "projector"
	RoleNotifier   Role = "notifier"
	RoleReconciler Role = "reconciler"
)

// Roles lists every role, in the order in which they are started.
func Roles() []Role {
	return []Role{RoleProjector, RoleCorrelator, RoleNotifier, RoleDispatcher, RoleReconciler, RoleIngest, RoleAPI}
}

// Config is every setting of a process. Each field is a flag and an environment variable (PILOT_ and the flag's name);
// `pilot up --help` lists them. The zero value of an optional field is its default.
type Config struct {
	DataDir string `help:"Directory of the embedded server, the managed Postgres and the master key." default:".pilot" env:"PILOT_DATA_DIR" type:"path"`

	NATSURL      string        `name:"nats-url" help:"URL of an external NATS server; empty starts an embedded one." env:"PILOT_NATS_URL"`
	NATSPort     int           `name:"nats-port" help:"Loopback port of the embedded server; 0 takes a free one." default:"4222" env:"PILOT_NATS_PORT"`
	NATSSync     string        `name:"nats-sync" help:"When the embedded server syncs to disk: group (one sync for all that wait; ext4 and xfs only, and only this process may append), always (each message, before its acknowledgement), auto (group where it holds, else always) or default (every two minutes: a power cut loses acknowledged messages)." enum:"auto,group,always,default" default:"auto" env:"PILOT_NATS_SYNC"`
	SyncPatience time.Duration `help:"Under group commit: how long work in the background waits for a sync that a request or a call causes before it causes one of its own." default:"3ms" env:"PILOT_SYNC_PATIENCE"`
	CodePatience time.Duration `help:"How long work in the background waits, at each step, while a code is on its way to its gateway in the same process; 0: not at all." default:"3ms" env:"PILOT_CODE_PATIENCE"`
	Partitions   int           `help:"Number of partitions; fixed when a deployment is created." default:"4" env:"PILOT_PARTITIONS"`
	Replicas     int           `help:"Copies of every stream: 1 on one node, 3 in a cluster." default:"1" env:"PILOT_REPLICAS"`

	PostgresURL  string `name:"postgres-url" help:"URL of Postgres; empty runs a managed one from installed binaries." env:"PILOT_POSTGRES_URL"`
	PostgresPort int    `name:"postgres-port" help:"Loopback port of the managed Postgres; 0 takes a free one." default:"0" env:"PILOT_POSTGRES_PORT"`
	Schema       string `help:"Schema of the views." default:"pilot" env:"PILOT_SCHEMA"`

	HTTPAddr    string `name:"http-addr" help:"Address of the API." default:"127.0.0.1:8080" env:"PILOT_HTTP_ADDR"`
	AdminAddr   string `name:"admin-addr" help:"Address of the operators' routes; empty serves them with the API." env:"PILOT_ADMIN_ADDR"`
	IngestAddr  string `name:"ingest-addr" help:"Address at which gateways hand in receipts." default:"127.0.0.1:8082" env:"PILOT_INGEST_ADDR"`
	MetricsAddr string `name:"metrics-addr" help:"Address of the Prometheus metrics; empty serves none." env:"PILOT_METRICS_ADDR"`
	IngestURL   string `name:"ingest-url" help:"URL of ingest as the gateways see it; empty derives it from the address." env:"PILOT_INGEST_URL"`

	MasterKeyFile string `name:"master-key-file" help:"File of the master key; empty is master.key in the data directory, made on first run." env:"PILOT_MASTER_KEY_FILE"`

	AllowLoopbackEndpoints bool `name:"allow-loopback-endpoints" help:"Let customer webhooks go to loopback addresses and plain http (demo and tests)." env:"PILOT_ALLOW_LOOPBACK_ENDPOINTS"`

	QuotaEvery time.Duration `help:"How often counters of plans' windows are compared with the log; longer than a minute." default:"2m" env:"PILOT_QUOTA_EVERY"`

	AcceptLimit    time.Duration   `help:"How long a send waits for the log before it is answered 503." default:"20s" env:"PILOT_ACCEPT_LIMIT"`
	ClaimWait      time.Duration   `help:"Age of an Idempotency-Key whose request has no result, from which a repeat resolves it; before, it is answered 409." default:"10s" env:"PILOT_CLAIM_WAIT"`
	BurstRate      float64         `help:"Requests a second that an API key may make for long, in each process; below 0 any number." default:"50" env:"PILOT_BURST_RATE"`
	Burst          int             `help:"Requests that an API key may make at once after a pause." default:"100" env:"PILOT_BURST"`
	IntentBudget   time.Duration   `help:"Age of an intent after which it is no longer called." default:"2s" env:"PILOT_INTENT_BUDGET"`
	SendLimit      time.Duration   `help:"Limit of a send, counted from its intent." default:"15s" env:"PILOT_SEND_LIMIT"`
	NumberLimit    time.Duration   `help:"Limit of a number check." default:"10s" env:"PILOT_NUMBER_LIMIT"`
	PresenceLimit  time.Duration   `help:"Limit of a presence call." default:"3s" env:"PILOT_PRESENCE_LIMIT"`
	SuccessorWait  time.Duration   `help:"Wait before an open start of another life is called unknown." default:"20s" env:"PILOT_SUCCESSOR_WAIT"`
	LookUps        []time.Duration `help:"Ages of the first look-ups of an unknown attempt; further ones back off." default:"20s,60s" env:"PILOT_LOOK_UPS"`
	AbsentAfter    time.Duration   `help:"Age of an attempt without an answer at the first of the two look-ups that find it absent. Not below how long the gateway may still send what we gave up." default:"180s" env:"PILOT_ABSENT_AFTER"`
	AbsentApart    time.Duration   `help:"Time between these two look-ups." default:"60s" env:"PILOT_ABSENT_APART"`
	AfterAbsence   []string        `help:"Categories of which another attempt may follow one that was found absent; the others are never sent again. none for none." default:"UTILITY,MARKETING" env:"PILOT_AFTER_ABSENCE"`
	PresumedAfter  time.Duration   `help:"After deliverUntil, when an attempt still unknown is presumed to have failed." default:"10m" env:"PILOT_PRESUMED_AFTER"`
	Quiet          time.Duration   `help:"Pause of an instance after an attempt without an answer." default:"60s" env:"PILOT_QUIET"`
	ProbeEvery     time.Duration   `help:"How often a parked instance is probed." default:"5s" env:"PILOT_PROBE_EVERY"`
	FailOn         []string        `help:"Answers that fail a message instead of parking the sender until it can be used again: ${enum}." enum:"unauthorized,instance_unknown,license_required" env:"PILOT_FAIL_ON"`
	LaneCap        int             `help:"Most lane consumers of one partition, of all dispatchers together." default:"250" env:"PILOT_LANE_CAP"`
	LeaseTTL       time.Duration   `name:"lease-ttl" help:"After which the others take a dispatcher that says nothing for gone; whole seconds." default:"3s" env:"PILOT_LEASE_TTL"`
	FoldGrace      time.Duration   `help:"How long a dispatcher goes on folding a partition that two others fold." default:"30s" env:"PILOT_FOLD_GRACE"`
	HookTimeout    time.Duration   `help:"Limit of one try of a customer webhook." default:"15s" env:"PILOT_HOOK_TIMEOUT"`
	HookWaits      []time.Duration `help:"Waits before each further try of a customer webhook." default:"5s,5m,30m,2h,5h,10h,14h,20h,24h" env:"PILOT_HOOK_WAITS"`
	HookDisable    int             `name:"hook-disable-after" help:"Deliveries in a row that end without success after which a customer's endpoint is switched off; below 0 never." default:"20" env:"PILOT_HOOK_DISABLE_AFTER"`
	ReceiptsGrace  time.Duration   `help:"After which the views are asked for the message of a receipt, and one that another process was to record is recorded." default:"30s" env:"PILOT_RECEIPTS_GRACE"`
	ReceiptsKept   int             `help:"How many messages of the last 72 h a correlator remembers for their receipts, over all partitions; the views are asked for others. About 450 bytes each." default:"1000000" env:"PILOT_RECEIPTS_KEPT"`
	ReconcileEvery time.Duration   `help:"Pause between two rounds of the reconciler." default:"15s" env:"PILOT_RECONCILE_EVERY"`
	AckOverdue     time.Duration   `help:"From when a message left until its first receipt is overdue: the gateway is asked, then it is said." default:"15m" env:"PILOT_ACK_OVERDUE"`
	DeliveryWindow time.Duration   `help:"From when a message left until it is FAILED because no delivery was confirmed." default:"168h" env:"PILOT_DELIVERY_WINDOW"`
	AskFor         time.Duration   `help:"How long a gateway that does not answer is asked for receipts, from its first failure, before it is decided without it." default:"1h" env:"PILOT_ASK_FOR"`
	EndsMargin     time.Duration   `help:"How long after it is due an end is left to dispatchers before the reconciler appends it." default:"2m" env:"PILOT_ENDS_MARGIN"`
	SnapshotEvery  int             `help:"Events of a partition from one snapshot of the dispatcher's fold to the next." default:"50000" env:"PILOT_SNAPSHOT_EVERY"`
	SnapshotMaxAge time.Duration   `help:"Age of a snapshot after which fewer events are enough for the next." default:"10m" env:"PILOT_SNAPSHOT_MAX_AGE"`
	WitnessEvery   time.Duration   `help:"How often the dispatcher compares the log with what it has seen, and writes its witness." default:"5s" env:"PILOT_WITNESS_EVERY"`
	AcceptLog      []string        `name:"accept-log" help:"An operator's word for a log that lost events, as partition:last sequence; what is pending is looked up before it is sent (docs/runbook.md)." env:"PILOT_ACCEPT_LOG"`
	RestoredWait   time.Duration   `help:"Wait from an operator's word for a log to the first look-up of what is pending in it." default:"3m" env:"PILOT_RESTORED_WAIT"`
	ReadYourWrite  time.Duration   `help:"How long a read waits for the view to show a fresh message." default:"2s" env:"PILOT_READ_YOUR_WRITE"`
	StopWithin     time.Duration   `help:"Deadline of an orderly stop." default:"30s" env:"PILOT_STOP_WITHIN"`
	StartWithin    time.Duration   `help:"Deadline of a start." default:"2m" env:"PILOT_START_WITHIN"`
	SkipNumbers    bool            `help:"Do not ask the gateway's number check before a first send." env:"PILOT_SKIP_NUMBERS"`
	ContextFile    bool            `help:"Write the nats CLI context \"pilot\"." env:"PILOT_CONTEXT_FILE"`
	LogLevel       string          `help:"Least level that is logged." enum:"debug,info,warn,error" default:"info" env:"PILOT_LOG_LEVEL"`
	LogFormat      string          `help:"json or console." enum:"json,console" default:"json" env:"PILOT_LOG_FORMAT"`
}

// MasterKeyPath is where the master key is.
func (c Config) MasterKeyPath() string {
	if c.MasterKeyFile != "" {
		return c.MasterKeyFile
	}
	return filepath.Join(c.DataDir, "master.key")
}

// Validate gives every complaint at once.
func (c Config) Validate() error {
	var faults []string
	complain := func(bad bool, text string) {
		if bad {
			faults = append(faults, text)
		}
	}
	complain(c.Partitions < 1 || c.Partitions > 256, "--partitions is from 1 to 256")
	complain(c.Replicas < 1 || c.Replicas > 5, "--replicas is from 1 to 5")
	complain(c.IntentBudget <= 0 || c.SendLimit <= c.IntentBudget, "--send-limit is longer than --intent-budget, and both are positive")
	complain(c.SnapshotEvery <= 0 || c.SnapshotMaxAge <= 0 || c.WitnessEvery <= 0 || c.RestoredWait <= 0, "--snapshot-every, --snapshot-max-age, --witness-every and --restored-wait are positive")
	complain(c.ReconcileEvery <= 0 || c.AskFor < 0 || c.EndsMargin <= 0, "--reconcile-every and --ends-margin are positive, --ask-for is not negative")
	complain(c.ReceiptsKept <= 0, "--receipts-kept is positive")
	complain(c.AckOverdue <= 0 || c.DeliveryWindow <= c.AckOverdue, "--delivery-window is longer than --ack-overdue, and both are positive")
	if _, err := acceptLog(c.AcceptLog); err != nil {
		complain(true, err.Error())
	}
	if u, err := url.Parse(c.IngestURL); c.IngestURL != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
		complain(true, "--ingest-url is an http or https URL")
	}
	complain(c.HookDisable == 0, "--hook-disable-after is not 0: below 0 switches no endpoint off")
	complain(c.LaneCap < 0, "--lane-cap is not negative")
	complain(c.LeaseTTL < time.Second || c.LeaseTTL%time.Second != 0 || c.FoldGrace <= 0, "--lease-ttl is a whole number of seconds, --fold-grace is positive")
	complain(c.SuccessorWait <= c.SendLimit, "--successor-wait is longer than --send-limit: a call may be under way until then")
	complain(len(c.LookUps) == 0, "--look-ups names at least one age")
	for i, d := range c.LookUps {
		complain(d <= 0 || (i > 0 && d <= c.LookUps[i-1]), "--look-ups grow")
	}
	complain(c.AbsentAfter < c.SendLimit || c.AbsentApart <= 0, "--absent-after is not shorter than --send-limit, and --absent-apart is positive")
	if _, err := policies(c.AfterAbsence); err != nil {
		complain(true, err.Error())
	}
	complain(c.SyncPatience < 0 || c.CodePatience < 0, "--sync-patience and --code-patience are not negative")
	complain(c.NATSURL != "" && c.NATSSync == string(natsserver.SyncGroup), "--nats-sync group is of the embedded server only: with --nats-url the server's own sync_interval decides")
	complain(c.NATSURL == "" && c.Replicas > 1, "--replicas above 1 needs a cluster: give --nats-url")
	if len(faults) == 0 {
		return nil
	}
	text := ""
	for _, f := range faults {
		text += "\n  " + f
	}
	return fmt.Errorf("the configuration does not hold:%s", text)
}

// Log writes the effective configuration, secrets as set or unset.
func (c Config) Log(log zerolog.Logger, roles []Role) {
	secret := func(v string) string {
		if v == "" {
			return "unset"
		}
		return "set"
	}
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	log.Info().Strs("roles", names).Str("data_dir", c.DataDir).Str("nats_url", secret(c.NATSURL)).Int("nats_port", c.NATSPort).
		Str("nats_sync", c.NATSSync).Stringer("sync_patience", c.SyncPatience).Stringer("code_patience", c.CodePatience).Int("partitions", c.Partitions).Int("replicas", c.Replicas).
		Str("postgres_url", secret(c.PostgresURL)).Int("postgres_port", c.PostgresPort).Str("schema", c.Schema).
		Str("http_addr", c.HTTPAddr).Str("admin_addr", c.AdminAddr).Str("ingest_addr", c.IngestAddr).Str("ingest_url", c.IngestURL).Str("metrics_addr", c.MetricsAddr).
		Str("master_key_file", c.MasterKeyPath()).Bool("allow_loopback_endpoints", c.AllowLoopbackEndpoints).
		Stringer("accept_limit", c.AcceptLimit).Stringer("claim_wait", c.ClaimWait).
		Float64("burst_rate", c.BurstRate).Int("burst", c.Burst).Stringer("intent_budget", c.IntentBudget).Stringer("send_limit", c.SendLimit).Stringer("number_limit", c.NumberLimit).
		Stringer("presence_limit", c.PresenceLimit).Stringer("successor_wait", c.SuccessorWait).Interface("look_ups", texts(c.LookUps)).
		Stringer("absent_after", c.AbsentAfter).Stringer("absent_apart", c.AbsentApart).Strs("after_absence", c.AfterAbsence).
		Stringer("presumed_after", c.PresumedAfter).Stringer("quiet", c.Quiet).Stringer("probe_every", c.ProbeEvery).Strs("fail_on", c.FailOn).Stringer("quota_every", c.QuotaEvery).
		Int("lane_cap", c.LaneCap).Stringer("lease_ttl", c.LeaseTTL).Stringer("fold_grace", c.FoldGrace).Stringer("hook_timeout", c.HookTimeout).Interface("hook_waits", texts(c.HookWaits)).Int("hook_disable_after", c.HookDisable).Stringer("receipts_grace", c.ReceiptsGrace).Int("receipts_kept", c.ReceiptsKept).
		Stringer("reconcile_every", c.ReconcileEvery).Stringer("ack_overdue", c.AckOverdue).Stringer("delivery_window", c.DeliveryWindow).
		Stringer("ask_for", c.AskFor).Stringer("ends_margin", c.EndsMargin).
		Int("snapshot_every", c.SnapshotEvery).Stringer("snapshot_max_age", c.SnapshotMaxAge).Stringer("witness_every", c.WitnessEvery).
		Strs("accept_log", c.AcceptLog).Stringer("restored_wait", c.RestoredWait).
		Stringer("read_your_write", c.ReadYourWrite).Stringer("stop_within", c.StopWithin).Stringer("start_within", c.StartWithin).
		Bool("skip_numbers", c.SkipNumbers).Bool("context_file", c.ContextFile).Str("log_level", c.LogLevel).Str("log_format", c.LogFormat).Msg("configuration")
}

func texts(ds []time.Duration) []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = d.String()
	}
	return out
}

// Defaults gives the configuration of a process without flags; the environment is read as by the command line.
func Defaults() (Config, error) {
	var c struct {
		Config `embed:""`
	}
	parser, err := kong.New(&c)
	if err != nil {
		return Config{}, fmt.Errorf("build configuration: %w", err)
	}
	if _, err := parser.Parse(nil); err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return c.Config, nil
}

// Local makes the configuration that of a process that stands alone: everything embedded, in dir, on free loopback ports,
// with customer webhooks to loopback allowed and no limit to bursts.
func (c *Config) Local(dir string) {
	c.DataDir, c.MasterKeyFile, c.NATSURL, c.PostgresURL = dir, "", "", ""
	c.NATSPort, c.PostgresPort, c.HTTPAddr, c.IngestAddr, c.IngestURL = 0, 0, "127.0.0.1:0", "127.0.0.1:0", ""
	c.AllowLoopbackEndpoints, c.ContextFile, c.BurstRate = true, false, -1
}
