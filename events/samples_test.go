package events_test

import (
	"encoding/json"
	"time"

	"pilotstatus.dev/events"
)

// at is a fixed time, so many milliseconds into the day of the samples.
func at(ms int) time.Time {
	return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

const (
	sampleMessage  = "msg_019adfb4c2007a4c8f3e5b6d7e8f9002"
	sampleInstance = "inst-a1"
	sampleTenant   = "tenant-b2"
)

// sample is a rich event of each wire name: every field that may be set is, so that a golden file shows it.
func samples() map[string]events.Event {
	out := map[string]events.Event{}
	sealed := events.Sealed{KeyID: "d-project-c3-2026-11-29", Blob: []byte("not really sealed")}
	env := func(typ, id string) events.Envelope {
		return events.Envelope{
			ID: id, Type: typ, Source: "pilot/dispatcher", Time: at(1500), Subject: sampleMessage, TenantID: sampleTenant,
			QueuedSeq: 41, TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}
	}
	add := func(typ string, e events.Envelope, address string, body any) *events.Event {
		ev := events.Event{Envelope: e, Address: address, Body: body}
		out[typ] = ev
		return &ev
	}
	about := func(typ, group, name string, body any) {
		add(typ, env(typ, sampleMessage+"."+name), events.EventSubject(2, sampleInstance, group, name), body)
	}

	q := env(events.TypeMessageQueued, sampleMessage)
	q.QueuedSeq, q.Source, q.DeliverAt, q.DeliverUntil = 0, "pilot/api", at(60_000), at(3_660_000)
	add(q.Type, q, events.QueuedSubject(2, events.Lane{Instance: sampleInstance, Class: events.ClassUtilityUrgent, Tenant: sampleTenant, Slot: 3}),
		&events.MessageQueued{
			Project: "project-c3", Environment: events.Live, KeyID: "key-d4", Category: events.Utility, Urgent: true,
			TemplateID: "template-e5", TemplateVersion: 3, Origin: "Example Shop", SourceNumber: "551100000000",
			CorrelationID: "cor_019adfb4c2007a4c8f3e5b6d7e8f90aa", RecipientHash: "r-0123456789abcdef", RetentionDays: 30,
			Labels: []string{"welcome"}, QuotaWindows: []string{"m-2026-11", "d-2026-11-29"}, RetryOf: "msg_019adfb4c2007a4c8f3e5b6d7e8f9102",
			Retry:  &events.Retry{By: "operator-f6", Reason: "gateway repaired", Force: true},
			Sealed: sealed,
		})
	about(events.TypeMessageRetryRequested, events.GroupMessage, "retry_requested",
		&events.MessageRetryRequested{By: "operator-f6", Reason: "gateway repaired", Force: true, RetriedAs: "msg_019adfb4c2007a4c8f3e5b6d7e8f9302"})
	about(events.TypeMessageErased, events.GroupMessage, "erased", &events.MessageErased{KeyID: "m-" + sampleMessage})
	about(events.TypeMessageDeliveryUnconfirmed, events.GroupMessage, "delivery_unconfirmed", &events.MessageDeliveryUnconfirmed{WindowDays: 7, Seen: 58})

	fenced := func(typ, name string, body any, more func(*events.Envelope)) {
		e := env(typ, "019adfb4-c300-7000-8000-000000000001")
		e.Attempt, e.Prev = 2, 57
		if more != nil {
			more(&e)
		}
		add(typ, e, events.EventSubject(2, sampleInstance, events.GroupDispatch, name), body)
	}
	key := func(e *events.Envelope) { e.GatewayID = "3EB0C431C26A1916E07E" }
	fenced(events.TypeDispatchStarted, "started",
		&events.DispatchStarted{Call: "sendButtons", BudgetMS: 2000, LimitMS: 15000, JIDHash: "j-0123456789abcdef"},
		func(e *events.Envelope) {
			key(e)
			e.Nonce, e.DeliverUntil, e.TextHash = "n-77aa", at(3_660_000), "0123456789abcdef.fedcba9876543210"
		})
	fenced(events.TypeDispatchAccepted, "accepted",
		&events.DispatchAccepted{HTTPStatus: 201, ElapsedMS: 412, Timestamp: 1795953601, Anomaly: events.AnomalyJIDMismatch}, key)
	fenced(events.TypeDispatchRefused, "refused",
		&events.DispatchRefused{Code: events.FailNotOnWhatsApp, Cause: "number_refused", HTTPStatus: 400, ElapsedMS: 88}, nil)
	fenced(events.TypeDispatchDeferred, "deferred",
		&events.DispatchDeferred{Cause: "connection_closed", Called: true, DueAt: at(9000), Park: "gateway", Limited: true, HTTPStatus: 500, ElapsedMS: 33},
		func(e *events.Envelope) { e.Called, e.DueAt = true, at(9000) })
	fenced(events.TypeDispatchUnknown, "unknown", &events.DispatchUnknown{Cause: "time_limit", HTTPStatus: 502, ElapsedMS: 15000}, nil)
	fenced(events.TypeDispatchAbsent, "absent", &events.DispatchAbsent{Count: 1, FirstMS: 181_000, LastMS: 242_000}, nil)
	fenced(events.TypeDispatchProved, "proved", &events.DispatchProved{By: events.ProofLookUp}, key)
	fenced(events.TypeDispatchDisproved, "disproved", &events.DispatchDisproved{
		By: events.DisprovedOperator, Code: events.FailGatewayRejected, Who: "operator-f6", Reason: "not on the phone",
	}, nil)
	fenced(events.TypeDispatchClosed, "closed",
		&events.DispatchClosed{
			Reason: events.ClosedTimeout, Code: events.FailDeliveryTimeout, Presumed: true, By: "operator-f6", Note: "sent by mistake",
			Messages: []events.ClosedMessage{{ID: sampleMessage, QueuedSeq: 41}, {ID: "msg_019adfb4c2007a4c8f3e5b6d7e8f9202", QueuedSeq: 44}},
		}, func(e *events.Envelope) { e.Subject, e.QueuedSeq, e.Attempt = "", 0, 0 })
	fenced(events.TypeDispatchRestored, "restored",
		&events.DispatchRestored{UpTo: 57, By: "operator-f6", Reason: "--accept-log 2:57"},
		func(e *events.Envelope) { e.Subject, e.TenantID, e.QueuedSeq, e.Attempt = "", "", 0, 0 })
	fenced(events.TypeDispatchSkipped, "skipped",
		&events.DispatchSkipped{Sequence: 44, By: "operator-f6", Reason: "published by hand"},
		func(e *events.Envelope) { e.Subject, e.TenantID, e.QueuedSeq, e.Attempt = "", "", 0, 0 })

	for typ, name := range map[string]string{
		events.TypeReceiptSent: "sent", events.TypeReceiptDelivered: "delivered", events.TypeReceiptRead: "read", events.TypeReceiptFailed: "failed",
	} {
		r := events.Receipt{GatewayStatus: "GATEWAY_" + name, At: at(3000), ReceivedAt: at(3200)}
		if name == "failed" {
			r.Code = events.FailGatewayRejected
		}
		e := env(typ, sampleMessage+"."+name)
		e.GatewayID, e.Source = "3EB0C431C26A1916E07E", "pilot/correlator"
		add(typ, e, events.EventSubject(2, sampleInstance, events.GroupReceipt, name), &r)
	}
	about(events.TypeEvidenceLate, events.GroupEvidence, "late", &events.EvidenceLate{Outcome: "accepted", Cause: "after_end", HTTPStatus: 201})
	about(events.TypeEvidenceAnomaly, events.GroupEvidence, "anomaly", &events.EvidenceAnomaly{Kind: events.AnomalyLateWrite, Detail: "0.4 s after the check"})
	about(events.TypeEvidenceAckOverdue, events.GroupEvidence, "ack_overdue", &events.EvidenceAckOverdue{AfterMS: 900_000, Seen: 58})
	o := env(events.TypeGatewayObserved, "019adfb4-c300-7000-8000-000000000002")
	o.Subject, o.TenantID, o.QueuedSeq = "", "", 0
	add(o.Type, o, events.ReceiptSubject(2, sampleInstance, "messages.update"), &events.GatewayObserved{
		Event: "messages.update", KeyID: "3EB0C431C26A1916E07E", Status: "DELIVERY_ACK", FromMe: true, State: "open", StatusReason: 200,
		At: at(3000), ReceivedAt: at(3200), JIDHash: "j-0123456789abcdef",
	})

	for _, name := range []string{"opened", "closed", "paused", "resumed", "draining", "parked", "unparked"} {
		typ := "instance." + name + ".v1"
		e := env(typ, "019adfb4-c300-7000-8000-000000000003")
		e.Subject, e.TenantID, e.QueuedSeq = "", "", 0
		add(typ, e, events.EventSubject(2, sampleInstance, events.GroupInstance, name),
			&events.InstanceChanged{By: "operator-f6", Reason: "maintenance", Scope: "instance"})
	}
	controlSamples(out, sealed)

	d := env(events.TypeHookDelivery, "wh-0123456789abcdef")
	delivery := &events.HookDelivery{
		Endpoint: "endpoint-a7", Instance: sampleInstance, Event: events.CustomerMessageFailed, MessageID: sampleMessage,
		Queued: events.Position{Partition: 2, Sequence: 41}, Cause: events.Position{Partition: 2, Sequence: 60}, Status: events.StatusFailed,
		At: at(3000), Correction: 1, GatewayID: "3EB0C431C26A1916E07E", ErrorCode: events.FailDeliveryTimeout, Environment: events.Live,
		CorrelationID: "cor_019adfb4c2007a4c8f3e5b6d7e8f90aa", Origin: "Example Shop", SourceNumber: "551100000000", WithContent: true,
		Attempt: 2, FirstAt: at(3100), Replay: &events.HookReplay{Nonce: "9f2c", After: 2, By: "operator-f6", Reason: "receiver repaired", At: at(4000)},
	}
	add(d.Type, d, events.HookSubject("endpoint-a7"), delivery)
	ev := out[d.Type]
	ev.DedupID = "wh-0123456789abcdef.2"
	out[d.Type] = ev
	a := env(events.TypeHookAttempt, "wh-0123456789abcdef.3")
	add(a.Type, a, events.HookLogSubject("endpoint-a7", events.HookFailed), &events.HookAttempt{
		Endpoint: "endpoint-a7", Event: events.CustomerMessageFailed, MessageID: sampleMessage, Attempt: 3, HTTPStatus: 503,
		Reason: "the endpoint answered 503", ElapsedMS: 120, NextAt: at(60_000), Delivery: delivery, Response: &sealed,
	})
	l := env(events.TypeDeadLetter, "dead.fanout.2:77")
	add(l.Type, l, events.DeadSubject(events.DeadFanout, sampleInstance), &events.DeadLetter{
		Stream: "EVENTS_2", Sequence: 77, Reason: "its accepted message is not in the log",
	})
	return out
}

func controlSamples(out map[string]events.Event, sealed events.Sealed) {
	days, typing, why := 7, true, "contract"
	defined := map[string]any{
		events.KindDeployment: &events.Defined[events.Deployment]{By: "pilot", Reason: why, Value: events.Deployment{Partitions: 4, CreatedAt: at(0)}},
		events.KindTenant: &events.Defined[events.Tenant]{By: "operator-f6", Reason: why, Value: events.Tenant{
			ID: sampleTenant, Name: "Example", TimeZone: "America/Sao_Paulo", Suspended: true, PlanID: "plan-free",
			ProfileNumbers: []events.PersonalNumber{{Hash: "aabbcc", Sealed: sealed}},
		}},
		events.KindProject: &events.Defined[events.Project]{By: "operator-f6", Reason: why, Value: events.Project{
			ID: "project-c3", TenantID: sampleTenant, Name: "Shop", ProductionApproved: true, RetentionDays: 30,
		}},
		events.KindKey: &events.Defined[events.Key]{By: "operator-f6", Reason: why, Value: events.Key{
			ID: "key-d4", TenantID: sampleTenant, ProjectID: "project-c3", Environment: events.Live, Name: "backend", PublicID: "Ab3dE6gH",
			SHA256: "00112233", SecretIDHash: "44556677", Scopes: events.KeyScopes(), InstanceID: sampleInstance, EndpointID: "endpoint-a7", RetentionDays: &days,
			ExpiresAt: at(86_400_000), RevokedAt: at(90_000_000), CreatedAt: at(0),
		}},
		events.KindTemplate: &events.Defined[events.Template]{By: "operator-f6", Reason: why, Value: events.Template{
			ID: "template-e5", TenantID: sampleTenant, ProjectID: "project-c3", Name: "welcome", Category: events.Utility,
			Versions: []events.TemplateVersion{{
				Version: 3, Structure: json.RawMessage(`{"body":{"text":"Hello {{name}}"}}`), State: events.TemplateApproved, ApprovedForProduction: true,
			}},
		}},
		events.KindInstance: &events.Defined[events.Instance]{By: "operator-f6", Reason: why, Value: events.Instance{
			ID: sampleInstance, TenantID: events.PlatformTenant, Shared: true, Name: "main", DisplayName: "Example Shop", Number: "551100000000",
			GatewayURL: "http://gateway.example", GatewayKey: sealed, Concurrency: 1, MaxConcurrency: 4,
			Pace: events.Pace{RatePerMinute: 20, Burst: 3, Jitter: 0.2, Costs: map[events.Category]float64{events.OTP: 0.1}}, Typing: &typing, IngressHash: "ffeeddcc", Ingress: sealed,
			IngressTold: &events.IngressTold{Digest: "ddccbbaa", At: at(1000)},
		}},
		events.KindEndpoint: &events.Defined[events.Endpoint]{By: "operator-f6", Reason: why, Value: events.Endpoint{
			ID: "endpoint-a7", TenantID: sampleTenant, ProjectID: "project-c3", Name: "orders", URL: "https://hooks.example/pilot", Environment: events.Live, Active: true,
			Events: []string{"*"}, Secrets: []events.Sealed{sealed}, CreatedAt: at(0),
			Disabled: &events.EndpointDisabled{At: at(1000), Reason: events.DisabledFailing, Failures: 20},
		}},
		events.KindPlan: &events.Defined[events.Plan]{By: "operator-f6", Reason: why, Value: events.Plan{
			ID: "plan-free", Name: "Free", Month: 200, Day: 50, TestDay: 100, Rate: 20, Burst: 40, Weight: 1,
		}},
		events.KindPackage: &events.Defined[events.Package]{By: "operator-f6", Reason: why, Value: events.Package{
			ID: "package-b8", TenantID: sampleTenant, Messages: 1000, From: "2026-11", Until: "2026-12",
		}},
		events.KindOptIn: &events.Defined[events.OptIn]{By: "ingest", Reason: why, Value: events.OptIn{
			ID: events.OptInID("project-c3", "aabbcc"), TenantID: sampleTenant, ProjectID: "project-c3", RecipientHash: "aabbcc",
			Source: events.SourceInbound, FirstAt: at(0), LastAt: at(86_400_000),
		}},
		events.KindOptOut: &events.Defined[events.OptOut]{By: "operator-f6", Reason: why, Value: events.OptOut{
			ID: events.OptOutID(sampleTenant, "aabbcc"), TenantID: sampleTenant, RecipientHash: "aabbcc", Source: events.SourceOperator, At: at(0),
		}},
		events.KindOperator: &events.Defined[events.Operator]{By: "operator-f6", Reason: why, Value: events.Operator{
			ID: "operator-f6", Name: "Ana", PublicID: "Zx9dE6gH", SHA256: "00112233", Scopes: events.OperatorScopes(),
			ExpiresAt: at(86_400_000), RevokedAt: at(90_000_000), CreatedAt: at(0),
		}},
		events.KindPlatform: &events.Defined[events.Platform]{By: "operator-f6", Reason: why, Value: events.Platform{
			Stopped: true, OptInRequired: true, RecipientLimit: 20, PlanID: "plan-free",
		}},
	}
	for kind, body := range defined {
		for typ, b := range map[string]any{
			events.DefinedType(kind): body,
			events.RemovedType(kind): &events.Removed{By: "operator-f6", Reason: "contract ended"},
		} {
			out[typ] = events.Event{
				Envelope: events.Envelope{ID: "019adfb4-c300-7000-8000-000000000004", Type: typ, Source: "pilot/api", Time: at(1500), TenantID: sampleTenant},
				Address:  events.ControlSubject(kind, kind+"-z9"), Body: b,
			}
		}
	}
}
