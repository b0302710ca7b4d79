package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/api"
	"pilotstatus.dev/events"
	"pilotstatus.dev/events/absence"
	"pilotstatus.dev/events/queue"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/infra/keyring"
	"pilotstatus.dev/infra/snapshots"
	"pilotstatus.dev/projections/projector"
	"pilotstatus.dev/projections/schema"
	"pilotstatus.dev/projections/views"
	"pilotstatus.dev/services/dispatcher"
)

// starters start the roles; each gives its parts to the supervisor.
var starters = map[Role]func(context.Context, *App) error{
	RoleProjector:  startProjector,
	RoleCorrelator: startCorrelator,
	RoleNotifier:   startNotifier,
	RoleDispatcher: startDispatcher,
	RoleReconciler: startReconciler,
	RoleIngest:     startIngest,
	RoleAPI:        startAPI,
}

// startPartitions runs one part per partition, so that trouble in one does not stop the others.
func (a *App) startPartitions(ctx context.Context, role string, run func(context.Context, events.Partition) error) {
	for _, p := range a.p.partitions() {
		a.sup.start(ctx, role+"-"+p.String(), func(ctx context.Context) error { return run(ctx, p) })
	}
}

func startProjector(ctx context.Context, a *App) error {
	logs, err := a.p.logsFor(ctx, "projector", patient)
	if err != nil {
		return err
	}
	a.views()
	waiting := newWaiting()
	a.ready["projector"] = roleHealth{work: waiting.work}
	pr := projector.New(a.p.pool, projector.Config{Gapless: true, OnCommit: a.p.views.Committed, OnBatch: a.metrics.batch, OnWait: waiting.set, Logger: a.log})
	// Tables before readers, where Postgres is there; where it is not, everything but reads starts without it.
	first, cancel := context.WithTimeout(ctx, firstMigration)
	defer cancel()
	if err := schema.Migrate(first, a.p.postgresURL, a.p.cfg.Schema); err != nil {
		a.log.Warn().Err(err).Msg("views wait for Postgres")
	}
	a.startPartitions(ctx, "projector", func(ctx context.Context, p events.Partition) error {
		if err := schema.Migrate(ctx, a.p.postgresURL, a.p.cfg.Schema); err != nil {
			return err
		}
		return pr.Run(ctx, p, source{logs[p]})
	})
	a.startDeliveries(ctx, logs[0])
	return a.startKeeper(ctx)
}

// firstMigration bounds the migration that a start waits for; later ones are tried until they succeed.
const firstMigration = 15 * time.Second

// views makes the queries once; projector and API share them, so that a read hears of a commit in the same process.
func (a *App) views() *views.Views {
	if a.p.views == nil {
		a.p.views = views.New(a.p.pool)
	}
	return a.p.views
}

func startDispatcher(ctx context.Context, a *App) error {
	logs, err := a.p.logsFor(ctx, "dispatcher", urgent)
	if err != nil {
		return err
	}
	cfg := a.p.cfg
	kept, err := a.p.snapshots(ctx)
	if err != nil {
		return err
	}
	accept, err := acceptLog(cfg.AcceptLog)
	if err != nil {
		return err
	}
	d := dispatcher.New(dispatcher.Config{
		Settings: dispatcher.Settings{
			ID: processID(), Rules: cfg.rules(), Budget: cfg.IntentBudget, CallLimit: cfg.SendLimit, SuccessorWait: cfg.SuccessorWait,
			LookUps: cfg.LookUps, Absence: absence.Rules{After: cfg.AbsentAfter, Apart: cfg.AbsentApart}, ProbeEvery: cfg.ProbeEvery, FailOn: cfg.FailOn, LaneCap: cfg.LaneCap, LeaseTTL: cfg.LeaseTTL, FoldGrace: cfg.FoldGrace, SkipNumbers: cfg.SkipNumbers,
			SnapshotEvery: cfg.SnapshotEvery, SnapshotMaxAge: cfg.SnapshotMaxAge, WitnessEvery: cfg.WitnessEvery,
			RestoredWait: cfg.RestoredWait, Accept: accept,
		},
		Logs: logs, Leases: a.p.leases, Catalog: a.p.feed,
		Keys: dispatchKeys{keys: a.p.keys, secrets: a.p.secrets},
		Gateway: func(url, key string) (*evolution.Client, error) {
			return evolution.New(evolution.Config{
				BaseURL: url, APIKey: key,
				Limits: evolution.Limits{Send: cfg.SendLimit, NumberCheck: cfg.NumberLimit, Presence: cfg.PresenceLimit},
			})
		},
		Logger: a.log, Metrics: a.metrics.dispatch,
		Snapshots: kept, Witness: snapshots.NewWitness(cfg.witnessDir()), Checkpoint: a.checkpoint(),
		Courtesy: a.p.courtesy,
	})
	a.sup.start(ctx, "dispatcher", d.Run)
	a.ready["dispatcher"] = roleHealth{work: d.Unready, some: d.Faults}
	return nil
}

// rules are those of queues: dispatchers and the reconciler have the same.
func (c Config) rules() queue.Rules {
	rules := queue.DefaultRules()
	rules.PresumedAfter, rules.Quiet = c.PresumedAfter, c.Quiet
	rules.Policies, _ = policies(c.AfterAbsence) // Validate has read them
	return rules
}

// processID names this process in leases and lane consumers: a token, new with each start.
func processID() string {
	host, err := os.Hostname()
	if err != nil || !events.ValidToken(host) || len(host) > 20 {
		host = "host"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
}

func startAPI(ctx context.Context, a *App) error {
	log, err := a.p.logFor(ctx, "api", urgent)
	if err != nil {
		return err
	}
	checks := append(a.health(), api.Check{Name: "postgres", Degrades: "reads", Run: a.p.pool.Ping})
	claims := eventlog.NewClaims(log, a.p.deployment)
	fence := apiFence{log, &a.appends, a.guard}
	quota, err := a.startQuota(ctx)
	if err != nil {
		return err
	}
	cfg := api.Config{Version: Version, Log: a.log.With().Str("role", "api").Logger(), AcceptTimeout: a.p.cfg.AcceptLimit, ViewWait: a.p.cfg.ReadYourWrite, ClaimWait: a.p.cfg.ClaimWait, BurstRate: a.p.cfg.BurstRate, Burst: a.p.cfg.Burst}
	return a.serveAPI(ctx, cfg, api.Ports{
		Catalog: apiCatalog{a.p.feed}, Log: guardedAPILog{apiLog{log, &a.appends, a.p.courtesy}, a.guard}, Keyring: apiKeys{a.p.keys}, Hasher: a.p.keys, AAD: keyring.AAD,
		Reads: a.reads(),
		Views: apiViews{a.views()}, Heads: apiLog{log: log}, Checks: checks,
		Records: apiViews{a.views()}, Fence: fence, Finder: fence,
		Hooks: apiLog{log: log, health: &a.appends}, Loads: newAPILoads(a.p.leases, a.log),
		Claims: apiClaims{claims}, Recall: a.recall(ctx, claims), Presence: a.startPresence(ctx, log), Quota: quota,
	}, log)
}

// Version is what the API says of itself; main sets it before anything runs.
var Version = "dev"
