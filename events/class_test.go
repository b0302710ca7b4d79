package events_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pilotstatus.dev/events"
)

func TestClassesGoInTheirOrder(t *testing.T) {
	t.Parallel()
	want := []events.Class{"otp-urgent", "otp", "utility-urgent", "utility", "marketing-urgent", "marketing"}
	if diff := cmp.Diff(want, events.Classes()); diff != "" {
		t.Fatal(diff)
	}
	for i, c := range want {
		if c.Rank() != i || !c.Valid() || !events.ValidToken(string(c)) {
			t.Errorf("%s: rank %d, valid %v", c, c.Rank(), c.Valid())
		}
		if back := events.ClassOf(c.Category(), i%2 == 0); back != c {
			t.Errorf("%s came back as %s", c, back)
		}
	}
	if c := events.Class("bulk"); c.Valid() || c.Rank() != 6 || c.Category() != events.Marketing {
		t.Error("an unknown class goes last")
	}
	if events.ClassOf("PROMO", true) != events.ClassMarketingUrgent || events.ClassOf("", false) != events.ClassMarketing {
		t.Error("an unknown category goes last")
	}
	for c, ok := range map[events.Category]bool{events.OTP: true, events.Utility: true, events.Marketing: true, "": false, "otp": false} {
		if c.Valid() != ok {
			t.Errorf("category %q", c)
		}
	}
}

func TestStatusOfStages(t *testing.T) {
	t.Parallel()
	for stage, want := range map[events.Stage]events.Status{
		events.StageQueued: events.StatusQueued, events.StageSending: events.StatusQueued, events.StageUnconfirmed: events.StatusQueued,
		events.StageDispatched: events.StatusQueued, events.StageSent: events.StatusSent, events.StageDelivered: events.StatusDelivered,
		events.StageRead: events.StatusRead, events.StageFailed: events.StatusFailed, events.StageCanceled: events.StatusCanceled,
	} {
		if stage.Status() != want {
			t.Errorf("%s reads as %s, want %s", stage, stage.Status(), want)
		}
	}
}

func TestWindowsAndDataKeys(t *testing.T) {
	t.Parallel()
	for c, want := range map[events.Category]time.Duration{
		events.OTP: 2 * time.Minute, events.Utility: time.Hour, events.Marketing: 4 * time.Hour, "": 4 * time.Hour,
	} {
		if got := events.Window(c); got != want || got > events.MaxWindow {
			t.Errorf("%s: %s", c, got)
		}
	}
	late := time.Date(2026, 11, 29, 23, 30, 0, 0, time.FixedZone("BRT", -3*3600))
	for days, want := range map[int]string{0: "m-msg_1", -1: "m-msg_1", 30: "d-project-c3-2026-11-30"} {
		if got := events.DataKeyID("msg_1", "project-c3", days, late); got != want {
			t.Errorf("%d days: %s, want %s", days, got, want)
		}
	}
}
