package snapshots

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"pilotstatus.dev/infra/failpoint"
)

// putTo is where a process of TestKillWhileAPutIsHalfWritten puts.
const putTo = "SNAPSHOTS_TEST_PUT_TO"

func TestMain(m *testing.M) {
	if url := os.Getenv(putTo); url != "" {
		fmt.Fprintln(os.Stderr, putOnce(url)) // who is killed says nothing
		os.Exit(3)
	}
	goleak.VerifyTestMain(m)
}

func putOnce(url string) error {
	nc, err := nats.Connect(url, nats.Timeout(30*time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), js)
	if err != nil {
		return err
	}
	return s.Put(context.Background(), "a", bytes.Repeat([]byte("new"), chunkSize))
}

// stored counts the chunks of each object, named or not.
func stored(t *testing.T, js jetstream.JetStream) map[string]uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), bucketStream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(chunks+">"))
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Subjects
}

// A process is killed when the first of the three chunks of a new snapshot is kept: the older one is what is given, and the
// chunk takes no room once a later put finds it old.
func TestKillWhileAPutIsHalfWritten(t *testing.T) {
	t.Parallel()
	s, js, url := newServedStore(t)
	ctx := t.Context()
	older := bytes.Repeat([]byte("older"), chunkSize)
	if err := s.Put(ctx, "a", older); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for kills := range 2 {
		cmd := exec.CommandContext(ctx, exe)
		cmd.Env = append(os.Environ(), putTo+"="+url, failpoint.Variable+"=dispatcher.snapshot_half_written:kill:1")
		var said strings.Builder
		cmd.Stderr = &said
		_ = cmd.Run()
		if st := cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != syscall.SIGKILL {
			t.Fatalf("ended with %v: %s", cmd.ProcessState, &said)
		}
		if got, err := s.Get(ctx, "a"); err != nil || !bytes.Equal(got, older) {
			t.Fatalf("the older one comes back as %d bytes: %v", len(got), err)
		}
		halves := 0
		for _, n := range stored(t, js) {
			if n == 1 {
				halves++
			}
		}
		if halves != kills+1 {
			t.Fatalf("%d objects of one chunk after %d kills: %v", halves, kills+1, stored(t, js))
		}
	}
	s.stale = 0
	newer := []byte("newer")
	if err := s.Put(ctx, "a", newer); err != nil {
		t.Fatal(err)
	}
	if all := stored(t, js); len(all) != 1 {
		t.Errorf("chunks stay: %v", all)
	}
	if got, err := s.Get(ctx, "a"); err != nil || !bytes.Equal(got, newer) {
		t.Errorf("%q, %v", got, err)
	}
}

// Who reads while others put gets one of what was put, whole, and takes nothing for damage.
func TestReadWhileAPutTakesThePlace(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx := t.Context()
	one := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, 3*chunkSize) }
	if err := s.Put(ctx, "a", one(0)); err != nil {
		t.Fatal(err)
	}
	put := make(chan error, 1)
	go func() {
		var err error
		for n := 1; n <= 100 && err == nil; n++ {
			err = s.Put(ctx, "a", one(n))
		}
		put <- err
	}()
	for {
		got, err := s.Get(ctx, "a")
		if err != nil || len(got) == 0 || !bytes.Equal(got, one(int(got[0]))) {
			t.Errorf("%d bytes: %v", len(got), err)
		}
		select {
		case err := <-put:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
