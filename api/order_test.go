package api

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/forecast"
	"pilotstatus.dev/events/presence"
)

// breaking is a send, and the world it comes into, of which one rule after the other is broken.
type breaking struct {
	*fixture
	quota    *fakeQuota
	presence fakePresence
	load     forecast.Load
	plan     events.Plan
	platform events.Platform

	key    string
	header []string
	body   map[string]any
}

func newBreaking(t *testing.T) *breaking {
	t.Helper()
	b := &breaking{
		fixture: newFixture(t), quota: &fakeQuota{taken: map[string]int{}}, presence: fakePresence{},
		plan: events.Plan{ID: "small"}, platform: events.Platform{PlanID: "small"}, key: liveKey,
	}
	if err := json.Unmarshal([]byte(toStranger), &b.body); err != nil {
		t.Fatal(err)
	}
	b.ports = func(p *Ports) { p.Quota, p.Presence = b.quota, b.presence }
	b.loads = fakeLoads(func(string) (forecast.Load, bool) { return b.load, true })
	b.define()
	b.start()
	return b
}

// define tells the catalog of plan and platform as they are now.
func (b *breaking) define() {
	define(b.catalog.cat, events.KindPlan, b.plan.ID, b.plan)
	define(b.catalog.cat, events.KindPlatform, events.PlatformID, b.platform)
}

func (b *breaking) post() reply {
	b.t.Helper()
	raw, err := json.Marshal(b.body)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.send(b.key, string(raw), b.header...)
}

func (b *breaking) redefine(raw, project string, change func(*events.Key)) {
	define(b.catalog.cat, events.KindKey, "key-"+raw[8:12], key(raw, "acme", project, events.Live, change))
	b.key = raw
}

// ordered are the rules of a send in their order, and how each is broken.
var ordered = []struct {
	code   events.Code
	field  string // that a VALIDATION_ERROR names
	breaks func(*breaking)
}{
	{code: events.CodeUnauthorized, breaks: func(b *breaking) { b.key = revokedKey }},
	{code: CodeTenantSuspended, breaks: func(b *breaking) {
		define(b.catalog.cat, events.KindTenant, "acme", events.Tenant{ID: "acme", Suspended: true})
	}},
	{code: CodeInsufficientScope, breaks: func(b *breaking) {
		b.redefine(rawProject, "draft", func(k *events.Key) { k.Scopes = []string{events.ScopeRead} })
	}},
	{code: CodeRateLimited, breaks: func(b *breaking) {
		b.plan.Rate, b.plan.Burst = 0.001, 1
		b.define()
		b.post() // takes the one
	}},
	{code: CodeEncodingNotSupported, breaks: func(b *breaking) { b.header = append(b.header, "Content-Encoding", "gzip") }},
	{code: events.CodeUnavailable, breaks: func(b *breaking) { b.catalog.behind = 6 * time.Second }},
	{code: CodeSendingStopped, breaks: func(b *breaking) {
		b.platform.Stopped = true
		b.define()
	}},
	{code: CodeProjectNotApproved, breaks: func(b *breaking) { b.key = rawProject }},
	{code: events.CodeValidation, field: "urgent", breaks: func(b *breaking) { b.body["urgent"] = "yes" }},
	{code: CodeMediaNotSupported, breaks: func(b *breaking) { b.body["media"], b.body["mediaType"] = "https://media.example/y.png", "image" }},
	{code: CodeKeyReused, breaks: func(b *breaking) { b.header = append(b.header, keyName, "used") }},
	{code: events.CodeValidation, field: "deliverUntil", breaks: func(b *breaking) { b.body["deliverUntil"] = stamp(clock.Add(-time.Minute)) }},
	{code: events.CodeValidation, field: "destinationNumber", breaks: func(b *breaking) { b.body["destinationNumber"] = "somebody" }},
	{code: CodeNotInTestList, breaks: func(b *breaking) { b.key = testKey }},
	{code: events.CodeTemplateNotFound, breaks: func(b *breaking) { b.body["templateId"] = "none" }},
	{code: events.CodeNoInstance, breaks: func(b *breaking) { b.redefine(ownKey, "shop", bound("gone")) }},
	{code: CodeInstanceClosed, breaks: func(b *breaking) {
		b.key = ownKey
		b.presence["own"] = presence.State{Connection: presence.Closed, Since: clock.Add(-time.Hour)}
	}},
	{code: events.CodeMarketingOwnNumber, breaks: func(b *breaking) {
		b.body["templateId"], b.body["variables"] = "t-sale", map[string]any{"what": "a"}
	}},
	{code: CodeOptedOut, breaks: func(b *breaking) {
		hash := hashOf("acme", strangerNumber)
		define(b.catalog.cat, events.KindOptOut, events.OptOutID("acme", hash), events.OptOut{TenantID: "acme", RecipientHash: hash})
	}},
	{code: CodeOptInRequired, breaks: func(b *breaking) {
		b.platform.OptInRequired = true
		b.define()
	}},
	{code: CodeRecipientLimit, breaks: func(b *breaking) {
		b.platform.RecipientLimit = 1
		b.define()
		b.post() // takes the one
	}},
	{code: CodeCannotDeliverInTime, breaks: func(b *breaking) {
		b.load = forecast.Load{Waiting: map[events.Class]int{events.ClassUtility: 10_000}, Turn: 2 * time.Second}
		b.body["rejectIfLate"] = true
	}},
	{code: events.CodeUnavailable, breaks: func(b *breaking) {
		b.keyring.seal = func(string, string, []byte, []byte) (events.Sealed, error) {
			return events.Sealed{}, events.Errorf(events.CodeUnavailable, "no keys")
		}
	}},
	{code: CodePlanLimit, breaks: func(b *breaking) {
		b.plan.Month = 1
		b.define()
		b.quota.taken["acme m-2026-11"] = 1
	}},
	{code: events.CodeUnavailable, breaks: func(b *breaking) {
		b.log.append = func(context.Context, events.Event) (uint64, error) {
			return 0, events.Errorf(events.CodeUnavailable, "no answer")
		}
	}},
}

// The order of the rules: of a send that breaks a rule and all the ones behind it, that one is told.
func TestOrderOfRules(t *testing.T) {
	t.Parallel()
	for i, first := range ordered {
		t.Run(strconv.Itoa(i+1)+" "+string(first.code), func(t *testing.T) {
			t.Parallel()
			b := newBreaking(t)
			for _, k := range []string{liveKey, testKey} { // what the key of a repeat was used for
				if r := b.send(k, note, keyName, "used"); r.status != http.StatusAccepted {
					t.Fatalf("%d %s", r.status, r.body)
				}
			}
			for j := len(ordered) - 1; j >= i; j-- {
				ordered[j].breaks(b)
			}
			r := b.post()
			wantCode(t, r, first.code)
			if first.field != "" && !strings.Contains(string(r.body), `"field":"`+first.field+`"`) {
				t.Errorf("not of %s: %s", first.field, r.body)
			}
			if n := len(b.events()); n != 2 {
				t.Errorf("%d events were appended", n)
			}
		})
	}
}

// docs/reference/api.md has the rules in this order, each by the code that it begins with, and names no code that there is not.
func TestDocsHaveTheOrderOfRules(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Order of rules\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var want, got []string
	for _, rule := range ordered {
		want = append(want, string(rule.code))
	}
	for _, rule := range regexp.MustCompile("(?m)^[0-9]+\\. `([A-Z_]+)`").FindAllStringSubmatch(section, -1) {
		got = append(got, rule[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the rules of the page (-code +page):\n%s", diff)
	}
	for _, code := range regexp.MustCompile("`([A-Z]+_[A-Z_]+)`").FindAllStringSubmatch(section, -1) {
		if _, ok := problems[events.Code(code[1])]; !ok {
			t.Errorf("there is no code %s", code[1])
		}
	}
}
