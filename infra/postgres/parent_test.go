package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pilotstatus.dev/infra/postgres"
)

const (
	roleEnv = "PILOT_TEST_ROLE"
	dirEnv  = "PILOT_TEST_DIR"
)

// TestMain also plays the other processes of these tests.
func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		goleak.VerifyTestMain(m)
	}
	if err := play(role, os.Getenv(dirEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(role, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := postgres.Start(ctx, quick(dir))
	if err != nil {
		return err
	}
	pid, err := postmaster(dir)
	if err != nil {
		return err
	}
	fmt.Println(pid)
	if role == "parent" {
		_, err = io.Copy(io.Discard, os.Stdin) // until it is killed
		return err
	}
	pool, err := postgres.Open(ctx, m.URL(), postgres.Settings{})
	if err != nil {
		return err
	}
	defer pool.Close()
	return errors.Join(pool.Ping(ctx), m.Remove(ctx))
}

func postmaster(dir string) (int, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "cluster", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	return strconv.Atoi(first)
}

func other(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestServerDiesWithItsKilledParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child")
	}
	dir := dataDir(t)
	cmd := other(t, "parent", dir)
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for running(pid) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("server %d outlived its parent", pid)
		}
	}
	start(t, quick(dir)) // recovers
}

// running is false for a zombie that nobody reaps.
func running(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(raw) > 0
}

func TestLeftoverServerIsStopped(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	first := start(t, quick(dir))
	pid, err := postmaster(dir)
	if err != nil {
		t.Fatal(err)
	}
	// A killed parent holds no lock; elsewhere than on Linux its server goes on.
	if err := os.Remove(filepath.Join(dir, "cluster.lock")); err != nil {
		t.Fatal(err)
	}
	second := start(t, quick(dir))
	select {
	case <-first.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the server left behind still runs")
	}
	now, err := postmaster(dir)
	if err != nil || now == pid {
		t.Errorf("postmaster = %d, %v; the old one was %d", now, err, pid)
	}
	if got := scalar(t, second.URL(), "select 'up'"); got != "up" {
		t.Errorf("got %q", got)
	}
}

func TestPidFileOfAForeignProcessIsNoObstacle(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	m := start(t, quick(dir))
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "cluster", "postmaster.pid")
	for _, text := range []string{strconv.Itoa(os.Getpid()) + "\n", "2147483646\n", "garbage", ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatalf("pid file %q: %v", text, err)
		}
		if err := m.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the other tests run as one")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("no user nobody")
	}
	uid, err := strconv.Atoi(nobody.Uid)
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Dir(dataDir(t))
	binary := filepath.Join(home, "test")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, body, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	cmd := other(t, "user", dir)
	cmd.Path, cmd.Dir = binary, home
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
