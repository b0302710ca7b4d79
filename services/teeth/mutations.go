package main

// mutations are the protections that are taken out, one at a time.
var mutations = []mutation{
	{
		without: "R1 the fence: the expected sequence",
		patches: []patch{{"infra/eventlog/append.go", "\tmaps.Copy(header, more)\n", "\t_ = more\n"}},
		pkg:     "infra/eventlog", test: "TestR1OnlyOneOfManyAppendersMovesTheGroup",
	},
	{
		without: "R1 the fence, seen at the gateway",
		patches: []patch{{"infra/eventlog/append.go", "\tmaps.Copy(header, more)\n", "\t_ = more\n"}},
		pkg:     "services/dispatcher", test: "TestR1TwoDispatchersThatBothLeadCallOnce",
	},
	{
		without: "R1 the version that the reconciler saw",
		patches: []patch{{"infra/eventlog/append.go", "\tmaps.Copy(header, more)\n", "\t_ = more\n"}},
		pkg:     "services/reconciler", test: "TestC3StaleSilenceIsDropped",
	},
	{
		without: "R1 the fence under the reconciler's ends",
		patches: []patch{{"infra/eventlog/append.go", "\tmaps.Copy(header, more)\n", "\t_ = more\n"}},
		pkg:     "services/reconciler", test: "TestC3StaleEndIsDropped",
	},
	{
		without: "R9 the reconciler's wait before an open start is unknown",
		patches: []patch{{"services/reconciler/ends.go", "if time.Since(since) < r.set.SuccessorWait || ", "if "}},
		pkg:     "services/reconciler", test: "TestR9AnOpenStartOfNobodyBecomesUnknown",
	},
	{
		without: "R2 the nonce of a start",
		patches: []patch{
			{"services/dispatcher/turn.go", "landed = at.Nonce == s.nonce; landed &&", "landed = true; landed &&"},
			{"services/dispatcher/turn.go", "at.State != message.AttemptOpen || at.Nonce != s.nonce {", "at.State != message.AttemptOpen {"},
		},
		pkg: "services/dispatcher", test: "TestR2AStartOfAnotherIsNotMine",
	},
	{
		without: "R2 the search for a lost acknowledgement",
		patches: []patch{{"infra/eventlog/fence.go", "len(got) > 0 && got[0] == id {", "len(got) > 1 && got[0] == id {"}},
		pkg:     "infra/eventlog", test: "TestR2RefusedButStoredIsMine",
	},
	{
		without: "R1 the fold: one open start at a time",
		patches: []patch{
			{"events/queue/decide.go", "case len(q.ix.open)+q.startless(id) >= q.Limit():", "case len(q.ix.open)+q.startless(id) >= 1000+q.Limit():"},
			{"events/queue/decide.go", "\t\tif o.Lane.Slot == e.Lane.Slot {", "\t\tif o.Lane.Slot == e.Lane.Slot+1 {"},
		},
		pkg: "services/dispatcher", test: "TestP5TwoDispatchersThatBothLeadNeverOverlap",
	},
	{
		without: "R1 the fold asked again at the intent",
		patches: []patch{{"services/dispatcher/turn.go", " || q.MayStart(j.id, now) != queue.HoldNone {", " {"}},
		pkg:     "services/dispatcher", test: "TestR1NoIntentOnceThePauseIsRead",
	},
	{
		without: "R3 the chain of the fenced group",
		patches: []patch{{"events/queue/chain.go", "fault{wrong: l.prev != before, ", "fault{wrong: l.prev != before && l.seq == 0, "}},
		pkg:     "events/queue", test: "TestR3ABrokenChainHoldsTheInstance",
	},
	{
		without: "R4 the age at the write",
		patches: []patch{{"services/dispatcher/turn.go", "\tif s.age(now) >= a.p.d.set.Budget || ", "\tif "}},
		pkg:     "services/dispatcher", test: "TestR4IntentOlderThanItsBudgetIsNotCalled",
	},
	{
		without: "R4 the deadline at the write",
		patches: []patch{{"services/dispatcher/turn.go", " || !now.Before(j.deliverUntil) || ", " || "}},
		pkg:     "services/dispatcher", test: "TestR4NoCallAfterTheDeadline",
	},
	{
		without: "R4 the pause at the write",
		patches: []patch{{"services/dispatcher/turn.go", " || a.q.Paused() || ", " || "}},
		pkg:     "services/dispatcher", test: "TestR4PauseAfterTheIntentStopsTheCall",
	},
	{
		without: "P5 the calls that are allowed, at the write",
		patches: []patch{{"services/dispatcher/turn.go", "\tif !a.q.MayCall(j.id) {", "\tif j.id == \"\" {"}},
		pkg:     "services/dispatcher", test: "TestP5ConcurrencyLoweredBeforeTheWrite",
	},
	{
		without: "P5 the message that a turn is busy with",
		patches: []patch{{"events/queue/inflight.go", "\t\tq.taken[id] = e.Lane.Slot\n", "\t\t_ = e\n"}},
		pkg:     "events/queue", test: "TestP5ATakenMessageCountsAsOpen",
	},
	{
		without: "R8 the hold of an unknown attempt",
		patches: []patch{{"events/queue/decide.go", "\t\treturn HoldUnknown\n", "\t\treturn HoldNone\n"}},
		pkg:     "services/dispatcher", test: "TestC1SentBut400WithoutARowEndsPresumed",
	},
	{
		without: "R8 absence: a socket that was open throughout",
		patches: []patch{{"services/dispatcher/absent.go", "\tcase w.shut, w.changed.After(s.since.Add(-lookSlack)), ", "\tcase "}},
		pkg:     "services/dispatcher", test: "TestNoAbsenceWithoutEveryCondition",
	},
	{
		without: "R8 absence: never after a 400",
		patches: []patch{{"events/absence/absence.go", "return u.HTTPStatus >= 500 && u.HTTPStatus <= 599", "return u.HTTPStatus >= 400 && u.HTTPStatus <= 599"}},
		pkg:     "services/dispatcher", test: "TestC1SentBut400IsNeverAbsent",
	},
	{
		without: "R9 the successor's wait",
		patches: []patch{{"services/dispatcher/ends.go", "now.Sub(first) >= a.p.d.set.SuccessorWait {", "now.Sub(first) >= 0 {"}},
		pkg:     "services/dispatcher", test: "TestR6R9OpenStartOfAnotherLife",
	},
	{
		without: "P2 the word for a restored log, in the log",
		patches: []patch{{"services/dispatcher/restored.go", "\tif limit == 0 {\n", "\tif limit >= 0 {\n"}},
		pkg:     "services/dispatcher", test: "TestP2AcceptedLogIsHeldWithoutSnapshotsAndWitness",
	},
	{
		without: "rows and checkpoint in one transaction",
		patches: []patch{{
			"projections/projector/tx.go", "\tq.Queue(moveCheckpoint, View,",
			"\tif err := p.pool.SendBatch(ctx, q).Close(); err != nil {\n\t\treturn result{}, err\n\t}\n\tq = &pgx.Batch{}\n\tq.Queue(moveCheckpoint, View,",
		}},
		pkg: "projections/projector", test: "TestNothingIsLostOrDoubledByACrash",
	},
	{
		without: "a batch is new from the checkpoint on only",
		patches: []patch{{"projections/projector/batch.go", "\t\tif rec.Position.Sequence <= at {\n", "\t\tif rec.Position.Sequence <= at && at > checkpoint {\n"}},
		pkg:     "projections/projector", test: "TestCheckpointNeverMovesBack",
	},
	{
		without: "the witness, when a dispatcher starts",
		patches: []patch{{"services/dispatcher/witness.go", "marks = append(marks, expected{m, \"the witness\"})", "_ = m"}},
		pkg:     "services/dispatcher", test: "TestRestoredLogStopsUntilAnOperatorsWord",
	},
	{
		without: "the witness, before an append",
		patches: []patch{{"services/app/guard.go", "err = snapshots.Check(ctx, g.log, p, m, \"the witness\")", "_ = m"}},
		pkg:     "services/app", test: "TestGuard",
	},
	{
		without: "P3 the ends that an owner does not make",
		patches: []patch{{"services/dispatcher/ownership.go", "if a.busy() && !a.owned() && a.overdue() {", "if a.busy() && !a.owned() && a.overdue() && a.owned() {"}},
		pkg:     "services/dispatcher", test: "TestP3AnEndIsMadeThoughItsOwnerDoesNothing",
	},
	{
		without: "a dispatcher's word taken back at a stop",
		patches: []patch{{"services/dispatcher/membership.go", "\tdefer m.withdraw(ctx)\n", ""}},
		pkg:     "services/dispatcher", test: "TestRollingRestartPausesNothing",
	},
	{
		without: "a member that has heard its own word",
		patches: []patch{{"services/dispatcher/membership.go", "case me.Beat == m.heard: // nothing new: another one spoke", "case me.Beat == 0:"}},
		pkg:     "services/dispatcher", test: "TestMembersSpeakOnceASecond",
	},
	{
		without: "the place of a mark: the event that is there",
		patches: []patch{{"infra/snapshots/check.go", "\tcase err == nil && rec.ID == m.EventID:\n", "\tcase err == nil && (rec.ID == m.EventID || rec.ID != \"\"):\n"}},
		pkg:     "infra/snapshots", test: "TestCheck",
	},
	{
		without: "the digest of a snapshot's chunks",
		patches: []patch{{"infra/snapshots/store.go", "err != nil || !bytes.Equal(want, sum[:]) {", "err != nil || !bytes.Equal(want[:0], sum[:0]) {"}},
		pkg:     "infra/snapshots", test: "TestMissingOrChangedChunkIsDamage",
	},
	{
		without: "the digest of a snapshot's states",
		patches: []patch{{"services/dispatcher/snapshot.go", "len(state) != h.Size || hex.EncodeToString(sum[:]) != h.Digest {", "len(state) != h.Size || hex.EncodeToString(sum[:]) == \"\" {"}},
		pkg:     "services/dispatcher", test: "TestUnusableSnapshotsArePassedOver",
	},
	{
		without: "the name comes last: a snapshot half written has none",
		patches: []patch{{
			"infra/snapshots/put.go", "\tdigest := sha256.New()\n",
			"\tif early, err := json.Marshal(info); err == nil {\n\t\t_, _ = s.js.Publish(ctx, metas+base64.URLEncoding.EncodeToString([]byte(name)), early)\n\t}\n\tdigest := sha256.New()\n",
		}},
		pkg: "infra/snapshots", test: "TestKillWhileAPutIsHalfWritten",
	},
	{
		without: "the digests of the audit",
		patches: []patch{{"projections/audit/walk.go", "\tcase ok && kept != w.digest:\n", "\tcase ok && kept != w.digest && seq == 0:\n"}},
		pkg:     "projections/audit", test: "TestVerifyFindsAnotherEventByItsDigest",
	},
	{
		without: "one receipt for each message and state",
		patches: []patch{
			{"services/receipts/bind.go", "ID: m.id + \".\" + name, Type", "ID: m.id + \".\" + name + time.Now().String(), Type"},
			{"services/receipts/bind.go", "\tcase cl.message.recorded[s.state]:", "\tcase false:"},
		},
		pkg: "services/receipts", test: "TestReceiptsBindOnceInAnyOrder",
	},
	{
		without: "one id for each customer event",
		patches: []patch{{"services/notifier/fanout.go", "return id[:idLength], body, true, nil", "return id[:idLength-6] + time.Now().Format(\"150405\"), body, true, nil"}},
		pkg:     "services/e2e", test: "TestO2ResetConsumersSendNothingTwice",
	},
	{
		without: "a request the transport cannot repeat",
		patches: []patch{{"infra/evolution/client.go", "\treq.GetBody = nil", "\treq.Header.Set(\"Idempotency-Key\", \"x\")"}},
		pkg:     "infra/evolution", test: "TestTheTransportNeverSendsTwice",
	},
}
