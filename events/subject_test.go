package events_test

import (
	"strings"
	"testing"

	"pilotstatus.dev/events"
)

// These are frozen: streams, filters, permissions and runbooks of every deployment hold them.
func TestSubjects(t *testing.T) {
	t.Parallel()
	lane := events.Lane{Instance: "inst-a1", Class: events.ClassOTPUrgent, Tenant: "tenant-b2", Slot: 7}
	for want, got := range map[string]string{
		"evt.3.inst-a1.queued.otp-urgent.tenant-b2.7": events.QueuedSubject(3, lane),
		"evt.255.inst-a1.dispatch.started":            events.EventSubject(255, "inst-a1", events.GroupDispatch, "started"),
		"evt.0.inst-a1.message.retry_requested":       events.EventSubject(0, "inst-a1", events.GroupMessage, "retry_requested"),
		"evt.0.inst-a1.dispatch.>":                    events.DispatchFilter(0, "inst-a1"),
		"evt.4.>":                                     events.EventsFilter(4),
		"evt.4.*.receipt.>":                           events.GroupFilter(4, events.GroupReceipt),
		"evt.4.*.message.erased":                      events.TypeFilter(4, events.GroupMessage, "erased"),
		"EVENTS_17":                                   events.EventsStream(17),
		"RECEIPTS_17":                                 events.ReceiptsStream(17),
		"HOOKS_7":                                     events.HooksStream(7),
		"rcp.2.inst-a1.messages-update":               events.ReceiptSubject(2, "inst-a1", "messages.update"),
		"rcp.2.inst-a1.SEND_MESSAGE":                  events.ReceiptSubject(2, "inst-a1", "SEND_MESSAGE"),
		"rcp.2.inst-a1.a---b-":                        events.ReceiptSubject(2, "inst-a1", "a *>b "),
		"rcp.2.inst-a1.-":                             events.ReceiptSubject(2, "inst-a1", ""),
		"rcp.2.>":                                     events.ReceiptsFilter(2),
		"hook.3.endpoint-a7":                          events.HookSubject("endpoint-a7"),
		"hooksch.3.endpoint-a7.0a1b":                  events.HookScheduleSubject("endpoint-a7", "0a1b"),
		"hook.6.*,hooksch.6.*.*":                      strings.Join(events.HooksFilters(6), ","),
		"hlg.endpoint-a7.exhausted":                   events.HookLogSubject("endpoint-a7", events.HookExhausted),
		"ctl.template.t-1":                            events.ControlSubject(events.KindTemplate, "t-1"),
		"quota.tenant-b2.m-2026-11":                   events.QuotaSubject("tenant-b2", "m-2026-11"),
		"dead.receipt.inst-a1":                        events.DeadSubject("receipt", "inst-a1"),
		"lane_inst-a1_otp-urgent_tenant-b2_7_disp-1":  events.LaneConsumer(lane, "disp-1"),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, n := range []string{events.StreamControl, events.StreamQuota, events.StreamDead, events.StreamHookLog} {
		if n == "" || strings.ContainsAny(n, ".*> ") {
			t.Errorf("stream name %q", n)
		}
	}
}

func TestParseEventSubject(t *testing.T) {
	t.Parallel()
	got, err := events.ParseEventSubject("evt.3.inst-a1.queued.otp-urgent.tenant-b2.7")
	want := events.EventAddress{
		Partition: 3, Instance: "inst-a1", Group: "queued", Name: "queued",
		Lane: events.Lane{Instance: "inst-a1", Class: events.ClassOTPUrgent, Tenant: "tenant-b2", Slot: 7},
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = events.ParseEventSubject("evt.3.inst-a1.evidence.ack_overdue")
	if want := (events.EventAddress{Partition: 3, Instance: "inst-a1", Group: "evidence", Name: "ack_overdue"}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, s := range []string{
		"", "evt", "evt.3", "evt.3.a.dispatch", "evt.3.a.dispatch.", "evt.3.a..started", "evt.3..dispatch.started", "evt..a.dispatch.started",
		"rcp.3.a.dispatch.started", "evt.03.a.dispatch.started", "evt.256.a.dispatch.started", "evt.-1.a.dispatch.started", "evt.+1.a.dispatch.started",
		"evt.3.A.dispatch.started", "evt.3.a.dispatch.Started", "evt.3.a.dispatch.*", "evt.3.a.dispatch.>", "evt.3.*.dispatch.started",
		"evt.3.a.dispatch.started.more", "evt.3.a.queued.otp", "evt.3.a.queued.otp.t", "evt.3.a.queued.otp.t.", "evt.3.a.queued.otp.t.256",
		"evt.3.a.queued.otp.t.01", "evt.3.a.queued.otp.t.-1", "evt.3.a.queued.otp.T.1", "evt.3.a.queued..t.1", "evt.3.a.queued.otp.t.1.2",
		"evt.3.a.dispatch.start ed", "evt.3." + strings.Repeat("a", 41) + ".dispatch.started",
	} {
		if a, err := events.ParseEventSubject(s); events.CodeOf(err) != events.CodeInvalidSubject || a != (events.EventAddress{}) {
			t.Errorf("%q gave %+v, %v", s, a, err)
		}
	}
}

func TestParseReceiptAndControlSubjects(t *testing.T) {
	t.Parallel()
	if p, inst, err := events.ParseReceiptSubject("rcp.9.inst-a1.messages-update"); p != 9 || inst != "inst-a1" || err != nil {
		t.Errorf("%v %q %v", p, inst, err)
	}
	for _, s := range []string{"", "rcp.9.inst-a1", "rcp.9.inst-a1.", "rcp.9.inst-a1.a.b", "rcp.9.inst-a1.>", "rcp.300.inst-a1.x", "rcp.9.I.x", "evt.9.inst-a1.x"} {
		if _, _, err := events.ParseReceiptSubject(s); events.CodeOf(err) != events.CodeInvalidSubject {
			t.Errorf("%q: %v", s, err)
		}
	}
	if kind, id, err := events.ParseControlSubject("ctl.key.k-1"); kind != "key" || id != "k-1" || err != nil {
		t.Errorf("%q %q %v", kind, id, err)
	}
	for _, s := range []string{"", "ctl.key", "ctl.key.K", "ctl.Key.k", "ctl..k", "ctl.key.k.k", "x.key.k", "ctl.key.*"} {
		if _, _, err := events.ParseControlSubject(s); events.CodeOf(err) != events.CodeInvalidSubject {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzParseEventSubject(f *testing.F) {
	for _, s := range []string{
		"evt.3.inst-a1.queued.otp-urgent.tenant-b2.7", "evt.3.inst-a1.dispatch.started", "evt.255.a.message.retry_requested",
		"evt..a.queued.otp.t.1", "evt.3.a.queued", "evt.3.a.queued.otp.t.01", "....", "evt.3.a.*.>", "evt.3.a.queued.x.t.1.2",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := events.ParseEventSubject(s)
		if err != nil {
			return
		}
		again := events.EventSubject(a.Partition, a.Instance, a.Group, a.Name)
		if a.Group == events.GroupQueued {
			again = events.QueuedSubject(a.Partition, a.Lane)
			if a.Lane.Instance != a.Instance {
				t.Errorf("%q: lane of another instance", s)
			}
		}
		if again != s {
			t.Errorf("%q was read as %+v, which is %q", s, a, again)
		}
	})
}

func FuzzBuiltSubjectsParse(f *testing.F) {
	f.Add(byte(3), "inst-a1", "otp", "tenant-b2", byte(7), "messages.update")
	f.Add(byte(255), "0", "marketing-urgent", "-", byte(255), "a\x00 b>*")
	f.Fuzz(func(t *testing.T, p byte, instance, class, tenant string, slot byte, gatewayEvent string) {
		if !events.ValidToken(instance) || !events.ValidToken(class) || !events.ValidToken(tenant) {
			return
		}
		part, lane := events.Partition(p), events.Lane{Instance: instance, Class: events.Class(class), Tenant: tenant, Slot: slot}
		want := events.EventAddress{Partition: part, Instance: instance, Group: "queued", Name: "queued", Lane: lane}
		if a, err := events.ParseEventSubject(events.QueuedSubject(part, lane)); err != nil || a != want {
			t.Errorf("queued: %+v, %v", a, err)
		}
		want = events.EventAddress{Partition: part, Instance: instance, Group: "dispatch", Name: "started"}
		if a, err := events.ParseEventSubject(events.EventSubject(part, instance, "dispatch", "started")); err != nil || a != want {
			t.Errorf("started: %+v, %v", a, err)
		}
		if q, i, err := events.ParseReceiptSubject(events.ReceiptSubject(part, instance, gatewayEvent)); err != nil || q != part || i != instance {
			t.Errorf("receipt of %q: %v %q %v", gatewayEvent, q, i, err)
		}
		if kind, id, err := events.ParseControlSubject(events.ControlSubject("key", tenant)); err != nil || kind != "key" || id != tenant {
			t.Errorf("control: %q %q %v", kind, id, err)
		}
	})
}

func TestFencedInstance(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		"evt.3.inst-a1.dispatch.started": "inst-a1", "evt.3.inst-a1.dispatch.Started": "inst-a1", "evt.3.inst-a1.dispatch.a.b": "inst-a1",
		"evt.3.inst-a1.dispatch": "", "evt.3.inst-a1.instance.paused": "", "rcp.3.inst-a1.dispatch.started": "", "": "",
	} {
		if got, ok := events.FencedInstance(subject); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", subject, got, ok)
		}
	}
}
