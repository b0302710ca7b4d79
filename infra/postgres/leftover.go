package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"pilotstatus.dev/infra/await"
)

const leftoverStep = 5 * time.Second

// stopLeftover ends the server that a killed process of ours left running on the cluster. The caller holds the
// cluster's lock, so no living process of ours runs one. A pid file that names a foreign process is removed: process
// ids are used again, in a container's restart above all.
func stopLeftover(ctx context.Context, cluster string, log zerolog.Logger) error {
	pidFile := filepath.Join(cluster, "postmaster.pid")
	raw, err := os.ReadFile(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pid file: %w", err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 || !runs(ctx, pid, cluster) {
		if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove stale pid file: %w", err)
		}
		return nil
	}
	log.Warn().Int("pid", pid).Msg("a postgres server of a killed run is still there: stopping it")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the server of a killed run: %w", err)
		}
		step, cancel := context.WithTimeout(ctx, leftoverStep)
		for runs(step, pid, cluster) {
			if !await.Elapsed(step, readyPoll) {
				break
			}
		}
		cancel()
		if !runs(ctx, pid, cluster) {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errors.New("the server of a killed run does not end"), context.Cause(ctx))
}

// runs reports whether process pid is a postgres server on this cluster.
func runs(ctx context.Context, pid int, cluster string) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	command := ""
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil {
		command = strings.ReplaceAll(string(raw), "\x00", " ")
	} else if _, statErr := os.Stat("/proc/self"); statErr != nil { // no /proc: not Linux
		command, _ = run(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid))
	}
	return strings.Contains(command, "postgres") && strings.Contains(command+" ", "-D "+cluster+" ")
}
