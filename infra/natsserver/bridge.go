package natsserver

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"
)

// bridge is the server's logger: warnings and errors go to zerolog, and the first fatal one to whoever waits for
// the start, because the server itself only logs it and returns.
type bridge struct {
	log  zerolog.Logger
	died chan struct{}

	once sync.Once
	err  error
}

func newBridge(log zerolog.Logger) *bridge {
	return &bridge{log: log, died: make(chan struct{})}
}

// fatal is the error that ended the start, nil when none did.
func (b *bridge) fatal() error {
	select {
	case <-b.died:
		return b.err
	default:
		return nil
	}
}

func (b *bridge) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	b.log.Error().Str("source", "nats-server").Msg(text)
	b.once.Do(func() {
		b.err = errors.New(text)
		close(b.died)
	})
}

func (b *bridge) Errorf(format string, v ...any) {
	b.log.Error().Str("source", "nats-server").Msgf(format, v...)
}

func (b *bridge) Warnf(format string, v ...any) {
	b.log.Warn().Str("source", "nats-server").Msgf(format, v...)
}

func (b *bridge) Noticef(format string, v ...any) {
	b.log.Debug().Str("source", "nats-server").Msgf(format, v...)
}

// Debug and trace lines name subjects and payloads: they go nowhere.
func (b *bridge) Debugf(string, ...any) {}
func (b *bridge) Tracef(string, ...any) {}
