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
	Event  string `json:"event"`
	Kind   Kind   `json:"kind"`
	Keep   bool   `json:"keep"`
	KeyID  string `json:"keyId"`
	Status string `json:"status"`
	State  string `json:"state"` // public status of a receipt, "open" or "closed" of a connection; "" changes nothing
	FromMe bool   `json:"fromMe"`
}

// JudgeFile reads webhooks of a gateway, one JSON object {gateway, event, body} a line with the body as a string, and writes for
// each what it means: {"event","kind","keep","keyId","status","state","fromMe"}. Blank lines are skipped; the first line that
// cannot be read ends it with an error that names its number.
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
			Event string  `json:"event"`
			Body  *string `json:"body"`
		}
		if err := json.Unmarshal(line, &row); err != nil || row.Body == nil {
			return errors.Join(fmt.Errorf("read line %d: want an object with event and body", n), out.Flush())
		}
		for _, j := range judge(row.Event, []byte(*row.Body)) {
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

func judge(event string, body []byte) []judgement {
	observations, kind := Observe(body)
	if len(observations) == 0 {
		return []judgement{{Event: event, Kind: kind}}
	}
	var out []judgement
	for _, o := range observations {
		j := judgement{Event: event, Kind: kind, Keep: true, KeyID: o.Body.KeyID, Status: o.Body.Status, FromMe: o.Body.FromMe}
		if kind == KindConnection {
			j.Status, j.State = o.Body.State, string(ConnectionOf(o.Body))
		} else if state, ok := StateOf(o.Body.Status); ok && o.Body.FromMe {
			j.State = string(state)
		}
		out = append(out, j)
	}
	return out
}
