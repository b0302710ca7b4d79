package e2e

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/evolutionsim"
)

// smallDisk mounts a file system of its own that can be filled up.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a full disk needs a tmpfs of its own, which only root may mount")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a full disk needs a tmpfs of its own, and this machine lets nobody mount one: %v %s", err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill writes until nothing fits any more; the file it gives holds the space.
func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err = f.Write(block); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			block = block[:len(block)/2]
		}
	}
	return path
}

// Fault catalogue N5: the disk of the log is full. What is accepted is stored, what cannot be stored is not accepted, and nothing
// is sent whose intent is not in the log. With space again and the server started anew everything goes on; Pilot is not restarted.
func TestN5DiskFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "24m")
	b := newBroker(t, filepath.Join(disk, "nats"))
	b.max = 1 << 30 // the disk is the limit, not the server's account of it
	b.start()
	r := newRig(t, withBroker(b.url()), quickRefusal)
	r.awaitStatus(r.send("room enough"), "READ")
	ballast := fill(t, disk)
	l := r.startLoad("full", 2, 20*time.Millisecond)
	eventually(t, "a send that is not accepted", func() bool { _, refused := l.counts(); return refused > 0 }, nil)
	l.end()
	if status, out := r.do(http.MethodGet, "/livez", "", nil); status != http.StatusOK {
		t.Errorf("alive: %d %v", status, out)
	}
	r.awaitReady("not ready with a full disk", func(got readiness) bool {
		return got.status == http.StatusServiceUnavailable && slices.Contains(got.failing, "log")
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b.start()
	again := r.startLoad("room again", 1, time.Second)
	again.awaitAccepted(t, 1)
	again.check()
	l.check()
	r.awaitReady("ready again", wholly)
	intents := map[string]bool{}
	for _, rec := range r.history() {
		if rec.Type == events.TypeDispatchAccepted {
			intents[rec.GatewayID] = true
		}
	}
	for _, e := range r.sim.Ledger(evolutionsim.Filter{}).Entries {
		if !intents[e.KeyID] {
			t.Errorf("%q left and the log knows nothing of it", e.Text)
		}
	}
}
