package timezone_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"pilotstatus.dev/events/quota"
	"pilotstatus.dev/infra/timezone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLoad(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"America/Sao_Paulo": true, "UTC": true, "": true, "Local": false, "Nowhere/None": false, "../etc/passwd": false,
	} {
		for range 2 { // the second time from memory
			zone, ok := timezone.Load(name)
			if ok != want || timezone.Known(name) != want || (zone != nil) != want {
				t.Errorf("%q: %v, %v", name, zone, ok)
			}
		}
	}
}

func TestOfTenant(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": quota.DefaultZone, "Asia/Tokyo": "Asia/Tokyo", "Nowhere/None": time.UTC.String()} {
		if got := timezone.OfTenant(name).String(); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
