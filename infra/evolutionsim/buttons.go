package evolutionsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

var buttonTypes = []string{"reply", "copy", "url", "call", "pix"}

func (s *Server) sendButtons(x *exchange) (reply, *taking) {
	violations := required(x.in, "number")
	list, given := x.in["buttons"].([]any)
	types := map[string]int{}
	for n, b := range list {
		button, _ := b.(map[string]any)
		kind := fields(button).string("type")
		types[kind]++
		if !slices.Contains(buttonTypes, kind) {
			violations = append(violations, fmt.Sprintf("buttons[%d].type is not one of enum values: %s", n, strings.Join(buttonTypes, ",")))
		}
	}
	if len(violations) > 0 {
		return invalid(violations...), nil
	}
	v := x.instance.view()
	switch {
	case !v.loaded:
		return plainError(http.StatusInternalServerError, undefined("buttonMessage")), nil
	case !given:
		return plainError(http.StatusInternalServerError, undefined("length")), nil
	case len(list) == 0:
		return listError(http.StatusBadRequest, "At least one button is required"), nil
	case types["reply"] > 0 && types["pix"] > 0, types["pix"] > 0 && len(list) > 1:
		return listError(http.StatusBadRequest, "Only one PIX button is allowed"), nil
	case types["reply"] > 3:
		return listError(http.StatusBadRequest, "Maximum of 3 reply buttons allowed"), nil
	case types["reply"] > 0 && types["reply"] < len(list):
		return listError(http.StatusBadRequest, "Reply buttons cannot be mixed with other button types"), nil
	}
	jid, answer, ok := s.reach(x, v)
	if !ok {
		return answer, nil
	}
	text, content := buttonsContent(x.in, list)
	m := s.compose(x, jid, "viewOnceMessage", content)
	m.buttons = true
	return reply{}, s.taking(m, text)
}

// buttonsContent is the message as the gateway stores it, and its text.
func buttonsContent(in fields, list []any) (string, any) {
	title := "undefined"
	if s, ok := in["title"].(string); ok {
		title = s
	}
	text := "*" + title + "*"
	if d := in.string("description"); d != "" {
		text += "\n\n" + d + "\n"
	}
	footer := map[string]any{}
	if f, ok := in["footer"].(string); ok {
		footer["text"] = f
	}
	buttons := make([]map[string]string, 0, len(list))
	for _, b := range list {
		button, _ := b.(map[string]any)
		buttons = append(buttons, nativeButton(button))
	}
	params := `{"from":"api","templateId":"` + uuid.NewString() + `"}`
	return text, map[string]any{"viewOnceMessage": map[string]any{"message": map[string]any{"interactiveMessage": map[string]any{
		"body":              map[string]string{"text": text},
		"footer":            footer,
		"nativeFlowMessage": map[string]any{"buttons": buttons, "messageParamsJson": params},
	}}}}
}

func nativeButton(b fields) map[string]string {
	params := map[string]any{}
	put := func(name, from string) {
		if v, ok := b[from]; ok {
			params[name] = v
		}
	}
	put("display_text", "displayText")
	name := map[string]string{"reply": "quick_reply", "url": "cta_url", "call": "cta_call", "copy": "cta_copy", "pix": "payment_info"}[b.string("type")]
	switch name {
	case "quick_reply":
		put("id", "id")
	case "cta_url":
		put("url", "url")
		put("merchant_url", "url")
	case "cta_call":
		put("phone_number", "phoneNumber")
	case "cta_copy":
		put("copy_code", "copyCode")
	}
	encoded, _ := json.Marshal(params) // values that came from JSON
	return map[string]string{"name": name, "buttonParamsJson": string(encoded)}
}
