package evolution

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxRow bounds one line of a file of answers, in bytes.
const maxRow = 16 << 20

// judgeRow is one line of a file of answers. The answer is the body as a JSON string, or the JSON of the body itself.
type judgeRow struct {
	Case    string          `json:"case"`
	Gateway string          `json:"gateway"`
	Method  *string         `json:"method"`
	Path    *string         `json:"path"`
	Status  json.RawMessage `json:"status"`
	Answer  json.RawMessage `json:"answer"`
}

// judgement is one line of the result.
type judgement struct {
	Case    string  `json:"case"`
	Call    Call    `json:"call"`
	Verdict Outcome `json:"verdict"`
	Scope   Scope   `json:"scope"`
	Code    string  `json:"code"`
}

// JudgeFile reads answers of a gateway, one JSON object {case, gateway, method, path, request, status, answer} a line, and writes for each
// a line {"case","call","verdict","scope","code"}. gateway begins with the version. A status of null or 0 means that no answer came after
// the request was written. Blank lines are skipped; the first line that cannot be read ends it with an error that names its number.
func JudgeFile(r io.Reader, w io.Writer) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxRow)
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		j, err := judgeLine(line)
		if err != nil {
			return errors.Join(fmt.Errorf("line %d: %w", number, err), out.Flush())
		}
		if err := encoder.Encode(j); err != nil {
			return fmt.Errorf("write verdict of line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return errors.Join(fmt.Errorf("line %d: %w", number+1, err), out.Flush())
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write verdicts: %w", err)
	}
	return nil
}

func judgeLine(line []byte) (judgement, error) {
	var row judgeRow
	if err := json.Unmarshal(line, &row); err != nil {
		return judgement{}, fmt.Errorf("read row: %w", err)
	}
	if row.Method == nil || row.Path == nil {
		return judgement{}, errors.New("read row: method and path are required")
	}
	call := CallOf(*row.Method, *row.Path)
	v, err := row.verdict(call)
	if err != nil {
		return judgement{}, err
	}
	return judgement{Case: row.Case, Call: call, Verdict: v.Outcome, Scope: v.Scope, Code: v.Code}, nil
}

func (row judgeRow) verdict(call Call) (Verdict, error) {
	if row.Status == nil {
		return Verdict{}, errors.New("read row: status is required (null when no answer came)")
	}
	var status *int
	if err := json.Unmarshal(row.Status, &status); err != nil {
		return Verdict{}, errors.New("read row: status is no whole number")
	}
	if status == nil || *status == 0 {
		return JudgeFailure(call, true, false, context.DeadlineExceeded), nil
	}
	if *status < 100 || *status > 999 {
		return Verdict{}, fmt.Errorf("read row: %d is no HTTP status", *status)
	}
	body := []byte(row.Answer)
	if s, ok := text(row.Answer); ok {
		body = []byte(s)
	} else if string(row.Answer) == "null" {
		body = nil
	}
	return Judge(call, row.Gateway, Answer{Status: *status, Body: body}), nil
}
