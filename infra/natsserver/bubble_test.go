package natsserver_test

import (
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"pilotstatus.dev/infra/natsserver"
)

const bubbleEnv = "PILOT_TEST_BUBBLE"

// The bubble gets a process of its own: see Config.DontListen.
func TestInSynctestBubble(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestBubble$", "-test.v")
	cmd.Env = append(os.Environ(), bubbleEnv+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestBubble(t *testing.T) {
	if os.Getenv(bubbleEnv) == "" {
		t.Skip("run by TestInSynctestBubble")
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := natsserver.Start(t.Context(), natsserver.Config{StoreDir: dir, DontListen: true, Sync: natsserver.SyncDefault})
		if err != nil {
			t.Fatal(err)
		}
		if url := s.ClientURL(); url != "" {
			t.Errorf("ClientURL = %q without a listener", url)
		}
		nc, err := s.Connect(natsserver.Client{})
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "s", []byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // the bubble's clock
		st, err := js.Stream(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		if n := st.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%d messages outlived MaxAge on the bubble's clock", n)
		}
		drain(t, nc)
		stop(t, s)
	})
}
