package app

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestConfigGivesEveryComplaintAtOnce(t *testing.T) {
	t.Parallel()
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatalf("the defaults do not hold: %v", err)
	}
	c.Partitions, c.SuccessorWait, c.LookUps, c.Replicas = 300, time.Second, []time.Duration{2, 1}, 3
	c.IngestURL, c.LaneCap = "::", -1
	err = c.Validate()
	for _, flag := range []string{"--partitions", "--successor-wait", "--look-ups", "--replicas", "--ingest-url", "--lane-cap"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("no word of %s in %v", flag, err)
		}
	}
}

func TestConfigIsLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	c.NATSURL, c.PostgresURL = "nats://user:hunter2@host", "postgres://user:hunter2@host/db"
	var out bytes.Buffer
	c.Log(zerolog.New(&out), Roles())
	if s := out.String(); strings.Contains(s, "hunter2") || !strings.Contains(s, `"postgres_url":"set"`) {
		t.Errorf("logged %s", s)
	}
}
