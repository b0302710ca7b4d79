package failpoint

// Point is a place of the work that can be armed.
type Point struct {
	Name  string
	Where string // what has happened and what has not
	Fails bool   // it can be armed with an error
}

// Points lists every place. A test holds the list and the calls together.
func Points() []Point {
	return []Point{
		{Name: "dispatcher.before_intent", Where: "a turn has its content and number, its intent is not in the log"},
		{Name: "dispatcher.after_intent", Where: "the intent is in the log and read, the last check before the write is still to come"},
		{Name: "dispatcher.during_post", Where: "the request to the gateway is written, its answer outstanding"},
		{Name: "dispatcher.before_outcome", Where: "the gateway has answered, the outcome is not in the log"},
		{Name: "dispatcher.before_ack", Where: "the outcome is in the log, the head of the lane is not acknowledged"},
		{Name: "dispatcher.snapshot_half_written", Where: "the first chunk of a snapshot is in its bucket, nothing names it yet"},
		{Name: "dispatcher.before_absent", Where: "the look-ups have found nothing of an attempt under all conditions, its absence is not in the log"},
		{Name: "dispatcher.before_parked", Where: "the log has an attempt that found the sender or its gateway unusable, the park is not in it"},
		{Name: "dispatcher.before_unparked", Where: "a probe has found the instance, or its gateway, usable again, that is not in the log"},
		{Name: "dispatcher.joined", Where: "the other dispatchers know that this one works, it has taken none of its instances"},
		{Name: "ingest.before_answer", Where: "what the gateway said is in RECEIPTS, the gateway has no answer"},
		{Name: "correlator.before_ack", Where: "the receipt is in the log, the observation is not acknowledged"},
		{Name: "reconciler.before_append", Where: "the gateway has shown receipts that had not come, they are not in RECEIPTS"},
		{Name: "notifier.before_ack", Where: "the deliveries of an event are in HOOKS, the event is not acknowledged"},
		{Name: "notifier.after_post", Where: "the customer's endpoint has answered, the try is not recorded"},
		{Name: "projector.mid_batch", Where: "the rows of a batch are written, the transaction is not committed", Fails: true},
		{Name: "api.cancel_before_answer", Where: "the end of the canceled messages is in the log, the client has no answer"},
		{Name: "api.retry_before_answer", Where: "the new message that a retry made is in the log, nothing says yet that its retry is done, the operator has no answer"},
		{Name: "api.before_answer", Where: "the message is in the log, the client has no answer"},
	}
}
