package control_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/eventlog"
	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/services/control"
)

// A change is served within a second by every process, each of which reads CONTROL over a connection of its own. Half of the changes are
// held to it, so that one pause of the machine is none of the feed.
func TestChangesAreServedWithinASecond(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var feeds []*control.Feed
	for n := range 2 {
		nc, err := natsserver.Connect(t.Context(), r.server.ClientURL(), natsserver.Client{Name: fmt.Sprint("process ", n)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		f := control.NewFeed(eventlog.New(js, eventlog.Options{}), control.Settings{})
		run(t, f)
		<-f.Ready()
		feeds = append(feeds, f)
	}
	ended := func(f *control.Feed) (at time.Time) {
		f.Read(func(c *catalog.Catalog) {
			k, _ := c.KeyByPublicID("Ab3dE6gH")
			at = k.RevokedAt
		})
		return at
	}
	var took []time.Duration
	var version uint64
	for n := range 20 {
		// A key that is revoked again and again: what refuses it is this field of the catalog.
		revoked := time.Date(2026, 11, 29, 0, 0, n+1, 0, time.UTC)
		var err error
		version, err = control.Define(t.Context(), r.log, events.KindKey, "k", events.Key{ID: "k", TenantID: "t", PublicID: "Ab3dE6gH", RevokedAt: revoked}, author, version)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for _, f := range feeds {
			if err := f.Await(t.Context(), version); err != nil {
				t.Fatal(err)
			}
			if got := ended(f); !got.Equal(revoked) {
				t.Fatalf("change %d: the key was revoked at %s, not %s", n, got, revoked)
			}
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("median %s, longest %s", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] >= time.Second {
		t.Errorf("half of the changes took longer than %s", took[len(took)/2])
	}
}
