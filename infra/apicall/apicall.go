// Package apicall makes calls of Pilot's HTTP API for the programs that try it out (demonstration, benchmark, crash, power cut) and for
// operators' commands.
package apicall

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// answerLimit bounds the answer that is read.
const answerLimit = 1 << 22

// Do makes one call and gives status and body of the answer, whatever the status. key is sent as x-api-key unless it is empty,
// body as JSON unless it is nil, and further headers as pairs of name and value. An error means that there was no whole answer: the call may have had its effect. The client
// bounds the time.
func Do(ctx context.Context, client *http.Client, method, url, key string, body any, header ...string) (int, []byte, error) {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, nil, fmt.Errorf("encode request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, payload)
	if err != nil {
		return 0, nil, fmt.Errorf("make request: %w", err)
	}
	if key != "" {
		req.Header.Set("x-api-key", key)
	}
	if payload != nil {
		req.Header.Set("content-type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("call the api: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer of the api: %w", err)
	}
	return res.StatusCode, raw, nil
}
