package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"pilotstatus.dev/infra/apicall"
)

// operatorAPI reaches the operators' API of a running Pilot: who pulls a lever is known by the key.
type operatorAPI struct {
	AdminURL string        `name:"admin-url" help:"Where the operators' API is served." default:"http://127.0.0.1:8080" env:"PILOT_ADMIN_URL"`
	Key      string        `name:"operator-key" help:"An operator's key; best in the environment." required:"" env:"PILOT_OPERATOR_KEY"`
	Within   time.Duration `help:"Bound of the request." default:"30s"`
}

// do makes a request below /v1/admin and prints the answer. A refusal is an error that names its code.
func (o operatorAPI) do(s *session, method, path string, body any, header ...string) error {
	ctx, cancel := context.WithTimeout(s.ctx, o.Within)
	defer cancel()
	status, answer, err := apicall.Do(ctx, http.DefaultClient, method, strings.TrimRight(o.AdminURL, "/")+"/v1/admin/"+path, o.Key, body, header...)
	http.DefaultClient.CloseIdleConnections() // one request a command
	if err != nil {
		return fmt.Errorf("ask the operators' API (--admin-url): %w", err)
	}
	if status >= http.StatusMultipleChoices {
		return refusal(status, answer)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, answer, "", "  "); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	_, err = fmt.Fprintln(s.stdout, strings.TrimSpace(out.String()))
	return err
}

// refusal reads a problem document.
func refusal(status int, answer []byte) error {
	var p struct {
		Code      string         `json:"code"`
		Detail    string         `json:"detail"`
		Details   map[string]any `json:"details"`
		RequestID string         `json:"requestId"`
	}
	if err := json.Unmarshal(answer, &p); err != nil || p.Code == "" {
		return fmt.Errorf("the operators' API answered %d, and no problem document", status)
	}
	text := fmt.Sprintf("%s: %s", p.Code, p.Detail)
	if len(p.Details) > 0 {
		details, err := json.Marshal(p.Details)
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		text += " " + string(details)
	}
	return errors.New(text + " (request " + p.RequestID + ")")
}

// leverCmd is an operator's word for an instance: the lever is the name of the command.
type leverCmd struct {
	operatorAPI `embed:""`
	Instance    string `arg:"" help:"Instance id."`
	Reason      string `required:"" help:"Why: kept in the log for ever."`
}

// Run pulls the lever and prints what the instance is from then on.
func (c *leverCmd) Run(s *session, k *kong.Context) error {
	return c.do(s, http.MethodPost, "instances/"+url.PathEscape(c.Instance)+"/"+k.Selected().Name, nil, "X-Reason", c.Reason)
}

// instanceShowCmd shows an instance.
type instanceShowCmd struct {
	operatorAPI `embed:""`
	Instance    string `arg:"" help:"Instance id."`
}

// Run prints its settings and its state.
func (c *instanceShowCmd) Run(s *session) error {
	return c.do(s, http.MethodGet, "instances/"+url.PathEscape(c.Instance), nil)
}

// messageCmd is an operator's word for one message.
type messageCmd struct {
	Show   messageShowCmd   `cmd:"" help:"Show a message of any tenant: state, attempts, events. Without Postgres: pilot audit message."`
	Retry  messageRetryCmd  `cmd:"" help:"Try a message again: its next attempt now, or a new message for one that ended. Refused unless the last outcome had no effect."`
	Cancel messageCancelCmd `cmd:"" help:"Cancel a message that has not begun to leave."`
}

type messageShowCmd struct {
	operatorAPI `embed:""`
	ID          string `arg:"" help:"Message id."`
}

// Run prints a message.
func (c *messageShowCmd) Run(s *session) error {
	return c.do(s, http.MethodGet, "messages/"+url.PathEscape(c.ID), nil)
}

type messageRetryCmd struct {
	operatorAPI    `embed:""`
	ID             string `arg:"" help:"Message id."`
	Reason         string `required:"" help:"Why: kept in the log for ever."`
	Force          bool   `help:"Take the risk that it arrives twice, where the refusal says forceable. On record."`
	IdempotencyKey string `help:"Names this retry for its repeats; drawn when empty, and printed with an error."`
}

// Run retries, and prints what came of it.
func (c *messageRetryCmd) Run(s *session) error {
	key := c.IdempotencyKey
	if key == "" {
		key = uuid.NewString()
	}
	err := c.do(s, http.MethodPost, "messages/"+url.PathEscape(c.ID)+"/retry", map[string]bool{"force": c.Force}, "X-Reason", c.Reason, "Idempotency-Key", key)
	if err != nil {
		return fmt.Errorf("%w; to repeat this very retry: --idempotency-key %s", err, key)
	}
	return nil
}

type messageCancelCmd struct {
	operatorAPI `embed:""`
	ID          string `arg:"" help:"Message id."`
	Reason      string `required:"" help:"Why: kept in the log for ever."`
}

// Run cancels.
func (c *messageCancelCmd) Run(s *session) error {
	return c.do(s, http.MethodPost, "messages/"+url.PathEscape(c.ID)+"/cancel", nil, "X-Reason", c.Reason)
}
