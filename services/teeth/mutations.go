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
		patches: []patch{{"services/dispatcher/turn.go", "\tif s.age(now) >= a.p.d.set.Budget {", "\tif s.age(now) < 0 {"}},
		pkg:     "services/dispatcher", test: "TestR4IntentOlderThanItsBudgetIsNotCalled",
	},
	{
		without: "R4 the deadline at the write",
		patches: []patch{{"services/dispatcher/turn.go", "\tif !now.Before(j.deliverUntil) || a.p.timeless() {", "\tif a.p.timeless() {"}},
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
		without: "a start that waits for no partition for ever",
		patches: []patch{{"services/dispatcher/dispatcher.go", "\tg.Go(func() error { d.awaitParks(ctx); return nil })\n", ""}},
		pkg:     "services/dispatcher", test: "TestAPartitionThatCannotBeReadStopsNoOther",
	},
	{
		without: "who stands in to ask for a gateway",
		patches: []patch{{"services/dispatcher/actor.go", "\t\ta.standIn(ctx)\n", ""}},
		pkg:     "services/dispatcher", test: "TestAGatewayIsNotHeldByWhoCannotLetGo",
	},
	{
		without: "the bound of who stands in",
		patches: []patch{{"services/dispatcher/standin.go", "case now.Before(g.asks.next):", "case false:"}},
		pkg:     "services/dispatcher", test: "TestLoadOnAGatewayThatIsAway",
	},
	{
		without: "the look for a duplicate that was acknowledged",
		patches: []patch{{"infra/eventlog/duplicate.go", "\tcase !ack.Duplicate:\n", "\tcase !ack.Duplicate, ack.Sequence > 0:\n"}},
		pkg:     "infra/eventlog", test: "TestC3ADuplicateIsBelievedWhenItIsStored",
	},
	{
		without: "the watch of a tail that is brought nothing",
		patches: []patch{{"infra/eventlog/stuck.go", "\t\t\tfail(errStuck)\n", ""}},
		pkg:     "infra/eventlog", test: "TestC3ATailThatIsBroughtNothingBeginsAnew",
	},
	{
		without: "the readiness of a fold that stands still",
		patches: []patch{{"services/dispatcher/partition.go", "\t\tOnStuck: p.stall,\n", ""}},
		pkg:     "services/dispatcher", test: "TestC3AFoldThatIsBroughtNothingGoesOn",
	},
	{
		without: "the ear for who is still at work with a durable",
		patches: []patch{{"infra/eventlog/standing.go", "\t\t\ts.heard = now\n", "\t\t\t_ = now\n"}},
		pkg:     "infra/eventlog", test: "TestC3ADurableAtRestOrAtWorkIsNotCut",
	},
	{
		without: "what others have not settled, of a durable made anew",
		patches: []patch{{"infra/eventlog/place.go", "\tif believed && !p.alone {\n", "\tif false {\n"}},
		pkg:     "infra/eventlog", test: "TestWhatDiedWithAnotherProcessComesAgain",
	},
	{
		without: "what another process acknowledged, of a durable made anew",
		patches: []patch{{"infra/eventlog/standing.go", "\t\tc.tidy(ctx, busy)\n", ""}},
		pkg:     "infra/eventlog", test: "TestWhatAnotherProcessAcknowledgedIsNotToldAgain",
	},
	{
		without: "the quorum of who is believed",
		patches: []patch{{"infra/eventlog/look.go", "\tif follow <= all/2 {\n", "\tif false {\n"}},
		pkg:     "infra/eventlog", test: "TestAPartitionWithoutAQuorumIsAway",
	},
	{
		without: "the question whether a partition that refused is away",
		patches: []patch{{"services/app/healthy.go", " || !answered(p, f.at) {", " {"}},
		pkg:     "services/app", test: "TestReadyWhileOnePartitionRefuses",
	},
	{
		without: "the watch of a durable that is brought nothing",
		patches: []patch{{"infra/eventlog/standing.go", "\t\t\tcut(errStuck)\n", ""}},
		pkg:     "infra/eventlog", test: "TestC3ADurableThatIsBroughtNothingIsReadAnew",
	},
	{
		without: "the new consumer where a new session does not help",
		patches: []patch{{"infra/eventlog/standing.go", "if s.cuts > 0 && s.atCut == s.delivered {", "if s.cuts < 0 {"}},
		pkg:     "infra/eventlog", test: "TestC3ADurableFullOfWhatNobodyAcknowledgesIsMadeAnew",
	},
	{
		without: "the probe of what is closed and has no messages",
		patches: []patch{{"services/dispatcher/actor.go", "\tif !a.shut() {\n", "\tif !a.q.Parked() {\n"}},
		pkg:     "services/dispatcher", test: "TestC2AClosedInstanceWithoutMessagesIsProbed",
	},
	{
		without: "the park by the number check",
		patches: []patch{{"services/dispatcher/turn.go", "\t\ta.unplugged(ctx, inst)\n", "\t\ta.postpone(j, postponeFor)\n"}},
		pkg:     "services/dispatcher", test: "TestC1TheNumberCheckParksAnInstanceThatIsNotThere",
	},
	{
		without: "the bound of the wait for a connection",
		patches: []patch{{"infra/evolution/client.go", "\tif r.connect > 0 {\n", "\tif r.connect < 0 {\n"}},
		pkg:     "services/dispatcher", test: "TestAGatewayThatIsSlowToConnectIsCalled",
	},
	{
		without: "one receipt for each message and state",
		patches: []patch{
			{"services/receipts/bind.go", "ID: m.id + \".\" + name, Type", "ID: m.id + \".\" + name + time.Now().String(), Type"},
			{"services/receipts/bind.go", "\tcase cl.message.recorded.has(s.state):", "\tcase false:"},
		},
		pkg: "services/receipts", test: "TestReceiptsBindOnceInAnyOrder",
	},
	{
		without: "another correlator for a receipt whose consumer died",
		patches: []patch{{"services/receipts/correlator.go", "if known && cl.message.recorded.has(state) {", "if known && (c.live || cl.message.recorded.has(state)) {"}},
		pkg:     "services/receipts", test: "TestReceiptOfADeadConsumerIsRecorded",
	},
	{
		without: "the acknowledgement of a receipt that nobody knows",
		patches: []patch{{"services/receipts/bind.go", "\treturn string(out), 0 //", "\treturn string(out), c.settings.Grace //"}},
		pkg:     "services/receipts", test: "TestUnmatchedReceiptsHoldUpNoOther",
	},
	{
		without: "the question before a message is failed for want of a delivery",
		patches: []patch{{"events/silence/silence.go", "\tcase NotAsked:\n\t\treturn Ask\n", "\tcase NotAsked:\n\t\treturn step\n"}},
		pkg:     "services/reconciler", test: "TestNothingIsDecidedUnaskedAfterAnOutage",
	},
	{
		without: "the rule that a corrected message waits for nothing",
		patches: []patch{
			{"events/silence/silence.go", "m.LeftAt.IsZero(), m.Corrected:", "m.LeftAt.IsZero():"},
			{"projections/views/awaited.go", "dispatched_at IS NOT NULL AND NOT corrected\"", "dispatched_at IS NOT NULL\""},
		},
		pkg: "services/reconciler", test: "TestACorrectedMessageIsNotFailedAgain",
	},
	{
		without: "one id for each customer event",
		patches: []patch{{"services/notifier/fanout.go", "return id[:idLength], body, true, nil", "return id[:idLength-6] + time.Now().Format(\"150405\"), body, true, nil"}},
		pkg:     "services/e2e", test: "TestO2ResetConsumersSendNothingTwice",
	},
	{
		without: "what is put by for a dear class while cheap ones go",
		patches: []patch{{"events/queue/saving.go", "by > 0 && now.Before(until) {", "by < 0 && now.Before(until) {"}},
		pkg:     "events/queue", test: "TestPaceStarvesNobody",
	},
	{
		without: "the share of codes beside classes that save",
		patches: []patch{{"events/queue/saving.go", "c.dear && !c.saved {", "c.dear && c.cost < 0 {"}},
		pkg:     "events/queue", test: "TestPaceCodesGoBesideABacklog",
	},
	{
		without: "the room that each category has in the bucket's memory",
		patches: []patch{{"events/queue/pace.go", "rule.Cost(categories[rank]); cost > 0 {", "rule.Cost(categories[rank]); cost >= 0 {"}},
		pkg:     "events/queue", test: "TestPaceFreeCodesTakeNothingFromOthers",
	},
	{
		without: "what a turn without a start leaves to the next",
		patches: []patch{{"events/queue/inflight.go", "\t\tif !c.spent { ", "\t\tif c.turn == 0 { "}},
		pkg:     "events/queue", test: "TestPaceOfATurnWithoutAStart",
	},
	{
		without: "that questions move nobody",
		patches: []patch{{"events/queue/choose.go", "\tq.price(heads, now)\n", "\tq.settle()\n\tq.price(heads, now)\n"}},
		pkg:     "events/queue", test: "TestAskingChangesNoChoice",
	},
	{
		without: "the hold of a message that would go to somebody else",
		patches: []patch{{"services/dispatcher/numbers.go", "\t\t\treturn plain, numberForeign\n", "\t\t\tcontinue\n"}},
		pkg:     "services/dispatcher", test: "TestCrossDeliveryEndsAtTheDeadline",
	},
	{
		without: "the check, each time, of a number that the gateway may mix up",
		patches: []patch{{"services/dispatcher/numbers.go", "if !recipient.HoldsAnother(digits) {", "if digits != \"\" {"}},
		pkg:     "services/dispatcher", test: "TestCrossDeliveryEndsAtTheDeadline",
	},
	{
		without: "the hold of a message whose number check gives no answer, and that may go to somebody else",
		patches: []patch{{"services/dispatcher/numbers.go", "\t\t\treturn plain, numberUnsaid\n", "\t\t\treturn plain, numberFine\n"}},
		pkg:     "services/dispatcher", test: "TestCrossDeliveryIsNotRiskedWithoutAnAnswer",
	},
	{
		without: "a limit that outlives a call beside it",
		patches: []patch{{"services/dispatcher/holdoff.go", "\tif h.limit.After(h.until) {", "\tif h.limit.After(h.until) && h.fails > 0 {"}},
		pkg:     "services/dispatcher", test: "TestALimitOutlivesACallBesideIt",
	},
	{
		without: "P2 the look for a row at a time that the gateway's clock made wrong",
		patches: []patch{{"services/dispatcher/rows.go", "\t\tcase said, timely:\n", "\t\tcase timely:\n"}},
		pkg:     "services/dispatcher", test: "TestC1AGatewayWhoseClockIsOffMakesNothingAbsent",
	},
	{
		without: "P2 the word that an instance was moved since an attempt",
		patches: []patch{{"services/dispatcher/absent.go", "\tcase a.elsewhere(s): // it is another connection", "\tcase a.elsewhere(s) && w.shut: // it is another connection"}, {"services/dispatcher/absent.go", " || a.elsewhere(s) {", " {"}},
		pkg:     "services/dispatcher", test: "TestAnAttemptOfAnInstanceThatWasMovedIsNotAbsent",
	},
	{
		without: "P2 the version asked again after an answer that depends on it",
		patches: []patch{{"infra/evolution/version.go", "if v.Outcome == strict.Outcome {", "if v.Outcome == strict.Outcome || version != \"\" {"}},
		pkg:     "services/dispatcher", test: "TestAReplacedGatewayIsNotTakenForTheOldOne",
	},
	{
		without: "the doubt of a version when an instance goes on",
		patches: []patch{{"services/dispatcher/parks.go", "if changesVersion(rec.Type, s) {", "if changesVersion(\"\", s) {"}},
		pkg:     "services/dispatcher", test: "TestAnUpgradeIsKnownWhenItsInstanceGoesOn",
	},
	{
		without: "a request the transport cannot repeat",
		patches: []patch{{"infra/evolution/client.go", "\treq.GetBody = nil", "\treq.Header.Set(\"Idempotency-Key\", \"x\")"}},
		pkg:     "infra/evolution", test: "TestTheTransportNeverSendsTwice",
	},
}
