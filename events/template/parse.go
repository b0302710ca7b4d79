package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Parse reads a structure as a JSON object, as a JSON string that holds either
// that object or plain text, or as plain text that is no JSON at all. Plain text
// becomes the body, unchanged. Unknown fields are ignored. A header of type NONE
// is no header; media headers are refused.
//
// The error is of type Faults. Parse checks the form only; Validate the rules.
func Parse(raw []byte) (Structure, error) {
	trimmed := bytes.TrimSpace(raw)
	if !json.Valid(trimmed) {
		return Structure{Body: Text{Text: string(raw)}}, nil
	}
	switch trimmed[0] {
	case '{':
		return decode(trimmed)
	case '"':
		var s string
		if err := json.Unmarshal(trimmed, &s); err != nil {
			return Structure{}, Faults{{Field: "structure", Rule: RuleWrongType}}
		}
		return ParseText(s)
	}
	return Structure{}, Faults{{Field: "structure", Rule: RuleWrongType}}
}

// ParseText reads the content of a string: a JSON object, else plain text that
// becomes the body, unchanged. The error is of type Faults.
func ParseText(s string) (Structure, error) {
	trimmed := strings.TrimSpace(s)
	if strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
		return decode([]byte(trimmed))
	}
	return Structure{Body: Text{Text: s}}, nil
}

// UnmarshalJSON reads the forms of Parse that are JSON; null changes nothing.
func (s *Structure) UnmarshalJSON(raw []byte) error {
	if absent(raw) {
		return nil
	}
	parsed, err := Parse(raw)
	if err != nil {
		return fmt.Errorf("read template structure: %w", err)
	}
	*s = parsed
	return nil
}

func decode(object []byte) (Structure, error) {
	var wire struct {
		Header  json.RawMessage `json:"header"`
		Body    json.RawMessage `json:"body"`
		Footer  json.RawMessage `json:"footer"`
		Buttons json.RawMessage `json:"buttons"`
	}
	if err := json.Unmarshal(object, &wire); err != nil {
		return Structure{}, Faults{{Field: "structure", Rule: RuleWrongType}}
	}
	var s Structure
	var faults Faults
	s.Header = decodeText("header", wire.Header, &faults)
	if body := decodeText("body", wire.Body, &faults); body != nil {
		s.Body = *body
	}
	s.Footer = decodeText("footer", wire.Footer, &faults)
	s.Buttons = decodeButtons(wire.Buttons, &faults)
	if len(faults) > 0 {
		return Structure{}, faults
	}
	return s, nil
}

// decodeText reads {"text"}, with the kind under "type" or "format", or a bare
// string.
func decodeText(field string, raw json.RawMessage, faults *Faults) *Text {
	if absent(raw) {
		return nil
	}
	var wire struct {
		Type   string `json:"type"`
		Format string `json:"format"`
		Text   string `json:"text"`
	}
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &wire.Text); err != nil {
			faults.add(field, RuleWrongType)
		}
		return &Text{Text: wire.Text}
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		faults.add(field, RuleWrongType)
		return nil
	}
	kind := wire.Type
	if kind == "" {
		kind = wire.Format
	}
	switch strings.ToUpper(kind) {
	case "NONE":
		return nil
	case "", "TEXT":
		return &Text{Text: wire.Text}
	}
	faults.add(field+".type", RuleUnsupported)
	return nil
}

func decodeButtons(raw json.RawMessage, faults *Faults) []Button {
	if absent(raw) {
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		faults.add("buttons", RuleWrongType)
		return nil
	}
	var buttons []Button
	for i, item := range items {
		var b Button
		if err := json.Unmarshal(item, &b); err != nil || absent(item) {
			faults.add(buttonField(i, ""), RuleWrongType)
			continue
		}
		b.Type = ButtonType(strings.ToUpper(string(b.Type)))
		buttons = append(buttons, b)
	}
	return buttons
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
