package evolution

import (
	"bytes"
	"encoding/json"
	"strings"
)

// shape is the form of the message of an error envelope. The same words in another form come from another place in the gateway and can
// mean another thing.
type shape int

const (
	shapeNone   shape = iota // no message, or a form never seen
	shapeString              // "text"
	shapeList                // ["text"]
	shapeNested              // [["text", …]]: the gateway's validation of our request
	shapeObject              // [{…}]
)

// envelope is what can be read from an error answer. The zero value is a body that is not JSON.
type envelope struct {
	isObject bool
	shape    shape
	text     string                     // of shapeString and shapeList
	object   map[string]json.RawMessage // of shapeObject
	wrapped  bool                       // the message lies inside "response"
	fields   map[string]json.RawMessage // the top level
}

// readEnvelope reads the three envelopes of the gateway. It accepts any bytes.
func readEnvelope(body []byte) envelope {
	fields, ok := object(body)
	if !ok {
		return envelope{}
	}
	e := envelope{isObject: true, fields: fields}
	message := fields["message"]
	if response, ok := object(fields["response"]); ok {
		e.wrapped = true
		message = response["message"]
	}
	e.readMessage(message)
	return e
}

func (e *envelope) readMessage(raw json.RawMessage) {
	if s, ok := text(raw); ok {
		e.shape, e.text = shapeString, s
		return
	}
	var list []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return
	}
	if o, ok := object(list[0]); ok {
		e.shape, e.object = shapeObject, o
		return
	}
	if len(list) != 1 {
		return
	}
	if s, ok := text(list[0]); ok {
		e.shape, e.text = shapeList, s
		return
	}
	var inner []string
	if list[0][0] == '[' && json.Unmarshal(list[0], &inner) == nil && len(inner) > 0 {
		e.shape = shapeNested
	}
}

// object decodes a JSON object with its keys as written: struct decoding would ignore their case.
func object(raw []byte) (map[string]json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil, false
	}
	return fields, true
}

func text(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// isHTML reports whether an answer is a web page, by its declared type or its first bytes.
func isHTML(contentType string, body []byte) bool {
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), "text/html") {
		return true
	}
	start := bytes.ToLower(bytes.TrimSpace(body[:min(len(body), 512)]))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}
