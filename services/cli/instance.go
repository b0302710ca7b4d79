package cli

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/services/dispatcher"
)

type instanceCmd struct {
	Show   instanceShowCmd `cmd:"" help:"Show its settings, and what holds it."`
	Pause  leverCmd        `cmd:"" help:"Start nothing: messages are accepted and wait."`
	Drain  leverCmd        `cmd:"" help:"Let out what was accepted before; what comes after waits."`
	Resume leverCmd        `cmd:"" help:"End a pause, a drain and a park."`
	Unpark leverCmd        `cmd:"" help:"End a park before a probe does; a pause and a drain go on."`
	Skip   instanceSkipCmd `cmd:"" help:"Pass over a fenced event that cannot be read, on record: the instance that it stopped goes on."`
}

// instanceSkipCmd is an operator's word for an event that means nothing.
type instanceSkipCmd struct {
	stores   `embed:""`
	Instance string        `arg:"" help:"Instance id."`
	Sequence uint64        `arg:"" help:"Sequence of the event in the log of the instance's partition."`
	Reason   string        `required:"" help:"Why: kept in the log for ever."`
	By       string        `help:"Who says so; empty is the user of this machine." env:"PILOT_OPERATOR"`
	Within   time.Duration `help:"Bound of the whole command." default:"5m"`
}

// Run appends the word, or says what could be skipped.
func (c *instanceSkipCmd) Run(s *session) (err error) {
	if !events.ValidToken(c.Instance) || strings.TrimSpace(c.Reason) == "" {
		return errors.New("an instance id is letters a-z, digits and -, and the reason must say something")
	}
	ctx, cancel := context.WithTimeout(s.ctx, c.Within)
	defer cancel()
	l, parts, open, err := c.openLog(ctx, logger(c.LogLevel, "console", s.stderr))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close(ctx)) }()
	p := events.PartitionOf(c.Instance, len(parts))
	by := c.By
	if u, err := user.Current(); by == "" && err == nil {
		by = "operator:" + u.Username
	}
	at, err := dispatcher.Skip(ctx, l, p, c.Instance, events.DispatchSkipped{Sequence: c.Sequence, By: by, Reason: c.Reason})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.stdout, "skipped %s:%d of %s, on record at %s:%d\n", p, c.Sequence, c.Instance, p, at)
	return err
}
