package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/natsserver"
	"pilotstatus.dev/services/app"
)

// What is recorded at a server that commits in groups is on disk before the command ends, or the command says that it may not be.
func TestBootstrapWaitsForTheDisk(t *testing.T) {
	cfg, err := app.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Local(t.TempDir())
	a, err := app.Start(t.Context(), cfg, nil, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		bounded, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.Stop(bounded); err != nil {
			t.Error(err)
		}
	})
	nc, err := natsserver.Connect(t.Context(), a.URLs().NATS, natsserver.Client{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	group := nc.ConnectedServerName() == natsserver.GroupName
	nc.Close()
	if !group {
		t.Skip("group commit does not hold on the file system of the test")
	}
	for dir, warns := range map[string]bool{cfg.DataDir: false, t.TempDir(): true} {
		var out, errs bytes.Buffer
		err := Run(t.Context(), []string{"admin", "bootstrap", "--force", "--name", "ana", "--nats-url", a.URLs().NATS, "--data-dir", dir}, "test", &out, &errs)
		if err != nil || !strings.HasPrefix(out.String(), "ps_oper_") || strings.Contains(errs.String(), "power cut") != warns {
			t.Errorf("warned: want %t; %v %s", warns, err, errs.String())
		}
	}
}
