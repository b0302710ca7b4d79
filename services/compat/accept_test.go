package compat

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"pilotstatus.dev/services/demo"
)

func acceptChecks(t *testing.T, w *checks) {
	w.check(t, "base_paths", func(t *testing.T) { acceptBasePaths(t, w) })
	w.check(t, "key_headers", func(t *testing.T) { acceptKeyHeaders(t, w) })
	w.check(t, "body_fields", func(t *testing.T) { acceptBodyFields(t, w) })
	w.check(t, "numbers_as_given", func(t *testing.T) {
		for i, number := range []string{someone, shortNumber, "+551188887777", "551188887777"} { // the last two without the ninth digit
			id := stringOf(w.accepted(t, w.keys.own, map[string]any{"destinationNumber": number, "text": "accept: number " + string(rune('a'+i))}), "id")
			if got := w.read(t, w.keys.own, id).json(t)["destinationNumber"]; got != number {
				t.Errorf("%s is echoed as %v", number, got)
			}
		}
	})
	w.check(t, "times", func(t *testing.T) {
		until := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second)
		for _, form := range []string{"2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000Z", "2006-01-02T15:04:05-03:00"} {
			at := until
			if strings.HasSuffix(form, "-03:00") {
				at = until.In(time.FixedZone("", -3*3600))
			}
			given := at.Format(strings.Replace(form, "-03:00", "Z07:00", 1))
			out := w.accepted(t, w.keys.own, with(text("accept: a time."), "deliverAt", "2020-01-01T00:00:00Z", "deliverUntil", given))
			if got := stringOf(out, "deliverUntil"); got != until.Format("2006-01-02T15:04:05.000Z") {
				t.Errorf("%s is %s", given, got)
			}
			w.await(t, w.keys.own, stringOf(out, "id"), "READ") // a deliverAt in the past is now
		}
	})
	w.check(t, "cancel_with_1_to_100_ids", func(t *testing.T) {
		ids := make([]string, 101)
		for i := range ids {
			ids[i] = "msg_" + random(16)
		}
		for n, want := range map[int]int{0: http.StatusBadRequest, 1: http.StatusOK, 100: http.StatusOK, 101: http.StatusBadRequest} {
			if a := w.cancel(t, w.keys.own, ids[:n]...); a.status != want {
				t.Errorf("%d ids: %d %s", n, a.status, a.raw)
			}
		}
		if a := w.call(t, request{method: http.MethodDelete, url: w.v1() + "/messages/cancel", key: w.keys.own}); a.status != http.StatusBadRequest {
			t.Errorf("no body: %d %s", a.status, a.raw)
		}
	})
	w.check(t, "what_senders_also_call", func(t *testing.T) {
		for _, path := range []string{
			"/numbers", "/numbers/" + demo.OwnInstanceID, "/numbers/" + demo.OwnInstanceID + "/status", "/webhooks", "/templates", "/templates/boas_vindas", "/api-keys",
			"/analytics/dashboard?period=7d&tz=America/Sao_Paulo",
		} {
			for _, base := range []string{w.v1(), w.apiV1()} {
				if a := w.call(t, request{method: http.MethodGet, url: base + path, key: w.keys.own}); a.status != http.StatusOK {
					t.Errorf("%s%s: %d %s", base, path, a.status, a.raw)
				}
			}
		}
	})
	w.check(t, "media_groups_newsletters_by_name", func(t *testing.T) {
		for code, body := range map[string]map[string]any{
			"MEDIA_NOT_SUPPORTED":      {"destinationNumber": someone, "media": "data:image/png;base64,iVBORw0KGgo=", "mediaType": "image", "caption": "x"},
			"GROUP_NOT_SUPPORTED":      {"groupId": "120363021234567890@g.us", "text": "x"},
			"NEWSLETTER_NOT_SUPPORTED": {"newsletterId": "120363021234567890@newsletter", "text": "x"},
		} {
			if a := w.send(t, w.keys.own, body); a.status != http.StatusBadRequest || stringOf(a.json(t), "code") != code {
				t.Errorf("%s: %d %s", code, a.status, a.raw)
			}
		}
	})
}

func acceptBasePaths(t *testing.T, w *checks) {
	for _, base := range []string{w.v1(), w.apiV1()} {
		a := w.call(t, request{method: http.MethodPost, url: base + "/messages/send", key: w.keys.own, body: with(text("accept: base."), "deliverAt", ahead(time.Hour))})
		id := stringOf(a.json(t), "id")
		if a.status != http.StatusAccepted || id == "" {
			t.Fatalf("%s: %d %s", base, a.status, a.raw)
		}
		for _, r := range []request{
			{method: http.MethodGet, url: base + "/messages/" + id},
			{method: http.MethodGet, url: base + "/messages/opt-in?destinationNumber=%2B5511988887777"},
			{method: http.MethodDelete, url: base + "/messages/cancel", body: map[string]any{"messageIds": []string{id}}},
		} {
			r.key = w.keys.own
			if a := w.call(t, r); a.status != http.StatusOK { // a redirect would have been an error
				t.Errorf("%s %s: %d %s", r.method, r.url, a.status, a.raw)
			}
		}
	}
}

func acceptKeyHeaders(t *testing.T, w *checks) {
	post := func(header map[string]string) int {
		return w.call(t, request{method: http.MethodPost, url: w.v1() + "/messages/send", header: header, body: text("accept: header.")}).status
	}
	for name, want := range map[string]int{"x-api-key": 202, "X-API-KEY": 202, "X-Api-Key": 202, "Authorization": 401, "x-api-key-id": 401} {
		value := w.keys.own
		if name == "Authorization" {
			value = "Bearer " + value
		}
		if got := post(map[string]string{name: value}); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
	if got := post(map[string]string{
		"x-api-key": w.keys.own, "x-whatsapp-number-id": "another", "x-request-source": "n8n", "Accept": "text/html", "Authorization": "Bearer x",
	}); got != http.StatusAccepted {
		t.Errorf("with unknown headers: %d", got)
	}
	for name, key := range map[string]string{"ps_…": w.keys.old, "ps_live_… of the old system": w.keys.private} {
		if got := post(map[string]string{"x-api-key": key}); got != http.StatusAccepted {
			t.Errorf("%s: %d", name, got)
		}
	}
	if a := w.send(t, w.keys.test, map[string]any{"destinationNumber": profile, "templateId": "plain-notice"}); a.status != http.StatusAccepted {
		t.Errorf("ps_test_…: %d %s", a.status, a.raw)
	}
}

func acceptBodyFields(t *testing.T, w *checks) {
	for name, body := range map[string]map[string]any{
		"template by id":            {"templateId": "tpl-" + demo.TemplateMarket, "variables": map[string]any{"name": "a"}},
		"template by name with '-'": {"templateId": "onboarding-test", "variables": map[string]any{"name": "a"}},
		"template by name with '_'": {"templateId": "boas_vindas", "variables": map[string]any{"nome": "a"}},
		"no variables":              {"templateId": "plain-notice"},
		"more variables than used":  {"templateId": "boas_vindas", "variables": map[string]any{"nome": "a", "other": "b"}},
		"everything optional": {
			"templateId": "boas_vindas", "variables": map[string]any{"nome": "a"}, "labels": []string{"lead"}, "markRead": true,
			"marketingOptions": map[string]any{"aiRewriteEnabled": true}, "deliverAt": ahead(-time.Second), "deliverUntil": ahead(time.Hour),
		},
		"nulls for absent fields": {
			"text": "accept: nulls.", "templateId": nil, "variables": nil, "groupId": nil, "newsletterId": nil, "deliverAt": nil, "deliverUntil": nil,
			"labels": nil, "media": nil, "marketingOptions": nil,
		},
		"unknown fields": {"text": "accept: unknown.", "delay": 1200, "whatsappNumberId": "n-1", "number": "1", "metadata": map[string]any{"a": []int{1}}},
		"text with buttons": {
			"text": "accept: buttons.", "header": "Oi", "footer": "Acme", "buttons": []any{map[string]any{"type": "QUICK_REPLY", "text": "Sim"}},
		},
	} {
		if a := w.send(t, w.keys.own, with(body, "destinationNumber", someone)); a.status != http.StatusAccepted {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
}
