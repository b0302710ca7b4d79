package cli

import (
	"errors"
	"fmt"
	"os"

	"pilotstatus.dev/services/crash"
)

type crashCmd struct {
	Seeds    int      `help:"How many seeds; each runs every point." default:"1"`
	First    uint64   `help:"The first seed." default:"1"`
	Points   []string `help:"Failpoints to run; empty is all."`
	Messages int      `help:"Messages accepted around each fault, at least." default:"24"`
	Dir      string   `help:"Directory for data and logs; empty is a temporary one." type:"path"`
}

// Run kills and stops processes of this very binary, and fails when a promise did not hold.
func (c *crashCmd) Run(s *session) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	dir := c.Dir
	if dir == "" {
		if dir, err = scratch("pilot-crash-"); err != nil {
			return err
		}
	}
	err = crash.Run(s.ctx, crash.Settings{
		Binary: binary, Dir: dir, Seeds: c.Seeds, First: c.First, Points: c.Points, Messages: c.Messages,
	}, s.stdout)
	if err == nil && c.Dir == "" {
		err = os.RemoveAll(dir)
	}
	if err != nil && c.Dir == "" {
		err = errors.Join(err, fmt.Errorf("what was kept is in %s", dir))
	}
	return err
}
