package receipts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxRow bounds one line of a file of webhooks, in bytes.
const maxRow = 16 << 20

// judgement is one line of the result of JudgeFile.
type judgement struct {
	Gateway string  `json:"gateway"`
	Event   string  `json:"event"`
	Kind    Kind    `json:"kind"`
	Keep    bool    `json:"keep"`
	KeyID   string  `json:"keyId"`
	Status  string  `json:"status"`
	State   string  `json:"state"` // public status of a receipt, "open" or "closed" of a connection; "" changes nothing
	FromMe  bool    `json:"fromMe"`
	Means   Meaning `json:"means"`
	Why     Reason  `json:"why"` // of what is ignored
}

// Meaning is what a webhook does.
type Meaning string

// Meanings.
const (
	MeansReceipt     Meaning = "receipt"      // a state of the message with this key id, if it is ours
	MeansStateChange Meaning = "state_change" // of the instance's connection
	MeansNothing     Meaning = "ignored"
)

// Reason is why a webhook is ignored.
type Reason string

// Reasons.
const (
	ReasonNotKept       Reason = "event_not_kept"      // an event that says nothing of what we sent or of connections; opt-ins to the shared number are read from its texts
	ReasonUnreadable    Reason = "unreadable"          // not the JSON of any event
	ReasonNoKeyID       Reason = "no_key_id"           // it names no message; messageId is the gateway's own row
	ReasonNotOurs       Reason = "not_ours"            // about a message that somebody else sent
	ReasonEdit          Reason = "edit"                // a changed content
	ReasonNoStatus      Reason = "no_status"           // there is none, or it is no plain word
	ReasonNoDelivery    Reason = "status_says_nothing" // PENDING, DELETED, and every word that is not known
	ReasonSameConnected Reason = "no_change"           // connecting, and every state that is not known
)

// JudgeFile reads webhooks of a gateway, one JSON object {gateway, event, body} a line with the body as a string, and writes for
// each what it means: {"gateway","event","kind","keep","keyId","status","state","fromMe","means","why"}, a line for each receipt where
// it holds several. Blank lines are skipped; the first line that cannot be read ends it with an error that names its number.
func JudgeFile(r io.Reader, w io.Writer) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxRow)
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var row struct {
			Gateway string  `json:"gateway"`
			Event   string  `json:"event"`
			Body    *string `json:"body"`
		}
		if err := json.Unmarshal(line, &row); err != nil || row.Body == nil {
			return errors.Join(fmt.Errorf("read line %d: want an object with event and body", n), out.Flush())
		}
		for _, j := range judge([]byte(*row.Body)) {
			j.Gateway, j.Event = row.Gateway, row.Event
			if err := encoder.Encode(j); err != nil {
				return fmt.Errorf("write line %d: %w", n, err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return errors.Join(fmt.Errorf("read webhooks: %w", err), out.Flush())
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write judgements: %w", err)
	}
	return nil
}

func judge(body []byte) []judgement {
	observations, kind := Observe(body)
	if len(observations) == 0 {
		why := map[Kind]Reason{KindReceipt: ReasonNoKeyID, KindOther: ReasonNotKept}[kind]
		if why == "" {
			why = ReasonUnreadable
		}
		return []judgement{{Kind: kind, Means: MeansNothing, Why: why}}
	}
	var out []judgement
	for _, o := range observations {
		j := judgement{Kind: kind, Keep: true, KeyID: o.Body.KeyID, Status: o.Body.Status, FromMe: o.Body.FromMe, Means: MeansNothing}
		state, means := StateOf(o.Body.Status)
		switch {
		case kind == KindConnection:
			j.Status, j.State, j.Why = o.Body.State, string(ConnectionOf(o.Body)), ReasonSameConnected
			if j.State != string(ConnectionSame) {
				j.Means, j.Why = MeansStateChange, ""
			}
		case !o.Body.FromMe:
			j.Why = ReasonNotOurs
		case o.Edit:
			j.Why = ReasonEdit
		case o.Body.Status == "":
			j.Why = ReasonNoStatus
		case !means:
			j.Why = ReasonNoDelivery
		default:
			j.State, j.Means = string(state), MeansReceipt
		}
		out = append(out, j)
	}
	return out
}
