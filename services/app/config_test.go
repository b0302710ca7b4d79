package app

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/queue"
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
	c.IngestURL, c.LaneCap, c.LeaseTTL = "::", -1, 1500*time.Millisecond
	c.AbsentAfter, c.AfterAbsence = time.Second, []string{"NEWS"}
	err = c.Validate()
	for _, flag := range []string{"--partitions", "--successor-wait", "--look-ups", "--replicas", "--ingest-url", "--lane-cap", "--lease-ttl", "--absent-after", "--after-absence"} {
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

// Whatever can be set is shown at the start, under the name of its variable.
func TestEverySettingIsLogged(t *testing.T) {
	t.Parallel()
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.Log(zerolog.New(&out), Roles())
	var logged map[string]any
	if err := json.Unmarshal(out.Bytes(), &logged); err != nil {
		t.Fatal(err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		variable, ok := strings.CutPrefix(field.Tag.Get("env"), "PILOT_")
		if !ok {
			t.Errorf("%s has no variable", field.Name)
		}
		if _, ok := logged[strings.ToLower(variable)]; !ok {
			t.Errorf("%s is not shown at the start", field.Name)
		}
	}
}

func TestPoliciesOfUnknownAttempts(t *testing.T) {
	t.Parallel()
	c, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	got, err := policies(c.AfterAbsence)
	if err != nil || !maps.Equal(got, queue.DefaultRules().Policies) {
		t.Errorf("by default %v, %v", got, err)
	}
	for _, none := range [][]string{nil, {""}, {"none"}} {
		if got, err := policies(none); err != nil || len(got) != 0 {
			t.Errorf("%q: %v, %v", none, got, err)
		}
	}
	if got, err := policies([]string{"OTP"}); err != nil || got[events.OTP] != queue.AfterAbsence || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
