package app

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/groupcommit"
	"pilotstatus.dev/infra/natsserver"
)

func TestGroupCommitIsRefusedWhereItCannotHold(t *testing.T) {
	t.Parallel()
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	c.NATSSync, c.NATSURL = "group", "nats://elsewhere:4222"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--nats-sync group") {
		t.Errorf("with an external server: %v", err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "pilot-test-")
	if err != nil {
		t.Skip("no tmpfs here: ", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c.Local(dir)
	_, err = Start(t.Context(), c, Roles(), zerolog.Nop())
	if !errors.Is(err, groupcommit.ErrUnsupported) || !strings.Contains(err.Error(), "tmpfs") || !strings.Contains(err.Error(), "--nats-sync always") {
		t.Errorf("on tmpfs: %v", err)
	}
}

// Where group commit cannot hold, auto is a sync for each message, and says so.
func TestAutoSyncsEachMessageWhereGroupCommitCannotHold(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "pilot-test-")
	if err != nil {
		t.Skip("no tmpfs here: ", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	var out bytes.Buffer
	for at, want := range map[string]natsserver.Sync{dir: natsserver.SyncAlways, t.TempDir(): natsserver.SyncGroup} {
		p := &platform{cfg: Config{NATSSync: syncAuto}, log: zerolog.New(&out)}
		got, err := p.openCommit(at)
		if err != nil {
			t.Fatal(err)
		}
		if disk, err := groupcommit.Open(at); err == nil {
			if err := disk.Close(); err != nil {
				t.Error(err)
			}
		} else {
			want = natsserver.SyncAlways // nor can it in the temporary directory of this machine
		}
		if got != want || (p.commit != nil) != (want == natsserver.SyncGroup) {
			t.Errorf("auto at %s is %q, want %q", at, got, want)
		}
		if p.commit != nil {
			if err := p.commit.close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if !strings.Contains(out.String(), "tmpfs") {
		t.Errorf("the log does not say why: %s", &out)
	}
}

// groupPlatform is a platform whose server commits in groups, without roles.
func groupPlatform(t *testing.T) *platform {
	t.Helper()
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	c.Local(t.TempDir())
	c.NATSSync, c.Partitions = "group", 1
	p := &platform{cfg: c, log: zerolog.Nop()}
	t.Cleanup(func() {
		bounded, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.close(bounded); err != nil {
			t.Error(err)
		}
	})
	switch err := p.openLog(t.Context()); {
	case errors.Is(err, groupcommit.ErrUnsupported):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return p
}

// An append of any log of the process causes a sync; without it the test of package eventlog would prove nothing here.
func TestGroupCommitCoversEveryLog(t *testing.T) {
	t.Parallel()
	p := groupPlatform(t)
	other, err := p.logFor(t.Context(), "other", urgent)
	if err != nil {
		t.Fatal(err)
	}
	behind, err := p.logFor(t.Context(), "behind", patient)
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]interface{ Durable(context.Context) error }{"main": p.events, "other": other, "behind": behind} {
		before := p.commit.Mark()
		if err := l.Durable(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.commit.Mark() == before {
			t.Errorf("the log %q waits for no sync", name)
		}
	}
	if _, err := p.events.LastSequence(t.Context(), events.StreamControl); err != nil {
		t.Error(err)
	}
}

func TestAnotherProcessMayNotAppendUnderGroupCommit(t *testing.T) {
	t.Parallel()
	p := groupPlatform(t)
	c := p.cfg
	c.NATSSync, c.NATSURL, c.DataDir = "always", p.server.ClientURL(), t.TempDir()
	foreign := &platform{cfg: c, log: zerolog.Nop()}
	if err := foreign.openLog(t.Context()); !errors.Is(err, errForeignCommit) {
		t.Errorf("error = %v, want errForeignCommit", err)
	}
	if err := foreign.close(t.Context()); err != nil {
		t.Error(err)
	}
}
