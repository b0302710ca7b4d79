package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"pilotstatus.dev/infra/evolution"
	"pilotstatus.dev/services/receipts"
)

func joined(errs ...error) error { return errors.Join(errs...) }

type gatewayCmd struct {
	Judge judgeGatewayCmd `cmd:"" help:"Print the verdict on each recorded answer of a file of JSON lines {case, gateway, method, path, request, status, answer}."`
}

type judgeGatewayCmd struct {
	File string `arg:"" help:"File to read; - is standard input."`
}

// Run prints a verdict per row.
func (c *judgeGatewayCmd) Run(s *session) error {
	return judgeFile(c.File, s.stdout, evolution.JudgeFile)
}

type receiptsCmd struct {
	Judge judgeReceiptsCmd `cmd:"" help:"Print what each recorded webhook of a file of JSON lines {gateway, event, body} means."`
}

type judgeReceiptsCmd struct {
	File string `arg:"" help:"File to read; - is standard input."`
}

// Run prints a meaning per row.
func (c *judgeReceiptsCmd) Run(s *session) error {
	return judgeFile(c.File, s.stdout, receipts.JudgeFile)
}

func judgeFile(name string, out io.Writer, judge func(io.Reader, io.Writer) error) error {
	if name == "-" {
		return judge(os.Stdin, out)
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("open file of rows: %w", err)
	}
	err = judge(f, out)
	return errors.Join(err, f.Close())
}
