package postgres

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	all := []installation{{"/path", 15}, {"/new", 17}, {"/old", 14}}
	for major, want := range map[int]string{0: "/path", 15: "/path", 17: "/new", 14: "/old"} {
		if got, err := choose(all, major, "/c"); err != nil || got.dir != want {
			t.Errorf("choose(%d) = %v, %v; want %s", major, got, err, want)
		}
	}
	if _, err := choose(all, 16, "/c"); !errors.Is(err, ErrOtherMajor) || !strings.Contains(err.Error(), "install PostgreSQL 16") {
		t.Errorf("choose(16) = %v", err)
	}
	if _, err := choose(nil, 0, "/c"); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("nothing installed: %v", err)
	}
	for goos, want := range map[string]string{"linux": "apt-get install postgresql", "darwin": "brew install postgresql@17"} {
		if got := howToInstall(goos); !strings.Contains(got, want) {
			t.Errorf("%s: %q", goos, got)
		}
	}
}

func TestTraverses(t *testing.T) {
	t.Parallel()
	u := &user{uid: 101, gid: 104, groups: []uint32{104, 110}}
	for _, c := range []struct {
		mode     fs.FileMode
		uid, gid uint32
		want     bool
	}{
		{0o700, 0, 0, false},
		{0o711, 0, 0, true},
		{0o700, 101, 0, true},
		{0o077, 101, 104, false}, // the owner's class counts, though others may
		{0o710, 0, 110, true},
		{0o701, 0, 104, false},
		{0o755, 7, 7, true},
	} {
		if got := u.traverses(c.mode, c.uid, c.gid); got != c.want {
			t.Errorf("traverses(%o, %d, %d) = %v", c.mode, c.uid, c.gid, got)
		}
	}
}

func TestJournal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	j := &journal{log: zerolog.New(&out)}
	for _, chunk := range []string{"LOG:  one\nFATAL:", "  two\nPANIC:  three\n", strings.Repeat("x", longLine+1)} {
		if n, err := j.Write([]byte(chunk)); n != len(chunk) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	for _, want := range []string{
		`{"level":"debug","source":"postgres","message":"LOG:  one"}`,
		`{"level":"warn","source":"postgres","message":"FATAL:  two"}`,
		`{"level":"error","source":"postgres","message":"PANIC:  three"}`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log lacks %s", want)
		}
	}
	for range 2 * keptLines {
		_, _ = j.Write([]byte("again\n"))
	}
	if n := strings.Count(j.tail(), "; ") + 1; n != keptLines {
		t.Errorf("%d lines kept", n)
	}
}

func TestPassing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"could not bind IPv4 address: Address already in use": true,
		"pre-existing shared memory block (key 1) in use":     true,
		"unrecognized configuration parameter":                false,
	} {
		if got := passing(&exitError{lines: text}); got != want {
			t.Errorf("passing(%q) = %v", text, got)
		}
	}
	if passing(errors.New("Address already in use")) {
		t.Error("only an exit of the server passes")
	}
}
