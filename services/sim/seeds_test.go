package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"pilotstatus.dev/infra/postgres/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// What `make sim` sets.
var (
	seedCount   = flag.Int("sim.seeds", 0, "how many seeds to run")
	firstSeed   = flag.Uint64("sim.seed", 1, "the first seed")
	simHours    = flag.Int("sim.hours", 24, "virtual hours of load and faults")
	simMessages = flag.Int("sim.messages", 3000, "messages in that time")
	simParallel = flag.Int("sim.parallel", 2, "seeds at one time")
	simSummary  = flag.String("sim.summary", "", "file for the last line")
	simKeep     = flag.String("sim.keep", "", "folder in which recordings and logs of failing seeds stay")
	simJudge    = flag.String("sim.judge", "", "folder with such recordings, to judge again")
)

// TestSeeds runs the seeds that `make sim` asks for, each in a process of its own, and holds what they recorded to the invariants.
func TestSeeds(t *testing.T) {
	n, hours, messages := *seedCount, *simHours, *simMessages
	if n == 0 {
		t.Skip("run by make sim; TestShortDay runs one short seed")
	}
	var mu sync.Mutex
	violations := 0
	slots := make(chan struct{}, max(1, *simParallel))
	var running sync.WaitGroup
	for i := range n {
		seed := *firstSeed + uint64(i)
		slots <- struct{}{}
		running.Go(func() {
			line, bad := fmt.Sprintf("seed %d was not judged", seed), 1 // should the judging end with this goroutine
			defer func() {
				mu.Lock()
				violations += bad
				fmt.Println(line)
				mu.Unlock()
				<-slots
			}()
			line, bad = runSeed(t, seed, hours, messages)
		})
	}
	running.Wait()
	if violations > 0 {
		t.Errorf("%d violations", violations)
	}
	if *simSummary == "" {
		return
	}
	raw, err := json.Marshal(struct {
		Seeds      int `json:"seeds"`
		Violations int `json:"violations"`
	}{n, violations})
	if err == nil {
		err = os.WriteFile(*simSummary, append(raw, '\n'), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// maxStories is how many violations of a seed are told with the story of their message.
const maxStories = 3

// runSeed runs one seed and gives what to print of it and the number of violations. What a failing one says stays with its recording:
// a terminal forgets it, and the next run of the seed need not fail.
func runSeed(t *testing.T, seed uint64, hours, messages int) (string, int) {
	dir := t.TempDir()
	says, bad := judge(t, dir, seed, hours, messages)
	if bad > 0 {
		if err := os.WriteFile(filepath.Join(dir, "why"), []byte(says+"\n"), 0o600); err != nil {
			t.Error(err)
		}
		keep(t, seed, dir)
	}
	return says, bad
}

// judge lives one seed in a folder, and holds what it recorded to the invariants.
func judge(t *testing.T, dir string, seed uint64, hours, messages int) (string, int) {
	began := time.Now()
	replay := fmt.Sprintf("; replay: make sim SEEDS=1 SEED=%d HOURS=%d MESSAGES=%d", seed, hours, messages)
	rec, err := bubble(t.Context(), dir, seed, hours, messages)
	if err != nil {
		return fmt.Sprintf("seed %d did not run to its end: %v%s", seed, err, replay), 1
	}
	says, bad := verdict(t, rec, time.Since(began))
	if bad > 0 {
		says += replay
	}
	return says, bad
}

// verdict holds a recording, of a run that took so long, to the invariants.
func verdict(t *testing.T, rec recording, ran time.Duration) (string, int) {
	began := time.Now()
	h, err := readHistory(rec)
	if err != nil {
		return fmt.Sprintf("the recording of seed %d is not read: %v", rec.Seed, err), 1
	}
	found := check(h)
	lived := ran + time.Since(began)
	found = append(found, project(t, h)...)
	line := fmt.Sprintf("seed %d: %s", rec.Seed, h.summary(lived, ran+time.Since(began)-lived))
	if len(found) == 0 {
		return line, 0
	}
	for i, v := range found {
		line += "\n  " + v.String()
		if i < maxStories {
			line += "\n" + h.story(v.MessageID)
		}
	}
	return line + fmt.Sprintf("\n  %d violations", len(found)), len(found)
}

// TestKept judges again what failing seeds left in a folder: after a change of the checks a recording may be clean, or not any more.
func TestKept(t *testing.T) {
	if *simJudge == "" {
		t.Skip("run by make judge")
	}
	kept, err := filepath.Glob(filepath.Join(*simJudge, "seed-*", "recording.json"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("no recording in %s: %v", *simJudge, err)
	}
	for _, path := range kept {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			rec, err := readRecording(path)
			if err != nil {
				t.Fatal(err)
			}
			says, bad := verdict(t, rec, 0)
			t.Log(says)
			if bad > 0 {
				t.Fail()
			}
		})
	}
}

// bubble runs TestDay of a seed in a process of its own, on one processor: so scheduling varies little between runs of a seed.
func bubble(ctx context.Context, dir string, seed uint64, hours, messages int) (recording, error) {
	self, err := os.Executable()
	if err != nil {
		return recording{}, err
	}
	limit := 10*time.Minute + time.Duration(hours)*time.Minute // a day takes four minutes; where virtual time stands still, all waits for ever
	cmd := exec.CommandContext(ctx, self, "-test.run=^TestDay$", "-test.timeout="+limit.String())
	cmd.Env = append(os.Environ(), envSeed+"="+strconv.FormatUint(seed, 10), envHours+"="+strconv.Itoa(hours),
		envMessages+"="+strconv.Itoa(messages), envDir+"="+dir, "GOMAXPROCS=1")
	if *simKeep != "" {
		cmd.Env = append(cmd.Env, envLog+"="+filepath.Join(dir, "log"))
	}
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() { // the log's files need not outlive the run
		cmd.Env = append(cmd.Env, "TMPDIR=/dev/shm")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return recording{}, errors.Join(fmt.Errorf("%w\n%s", err, tail(out)), os.WriteFile(filepath.Join(dir, "output"), out, 0o600))
	}
	return readRecording(filepath.Join(dir, "recording.json"))
}

// tail gives the end of an output that may hold thousands of goroutines.
func tail(out []byte) []byte {
	if i := bytes.Index(out, []byte("\n\ngoroutine ")); i > 0 {
		out = out[:i]
	}
	return out[max(0, len(out)-4000):]
}

// keep copies what a failing seed left to where it stays.
func keep(t *testing.T, seed uint64, dir string) {
	if *simKeep == "" {
		return
	}
	to := filepath.Join(*simKeep, "seed-"+strconv.FormatUint(seed, 10))
	if err := os.RemoveAll(to); err != nil {
		t.Error(err)
		return
	}
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Error(err)
	}
}

// summary is what happened, in one line.
func (h *history) summary(lived, projected time.Duration) string {
	stages, recorded, left := map[string]int{}, 0, 0
	for _, m := range h.order {
		stage := string(m.view.Stage)
		if m.view.Presumed {
			stage += "(presumed)"
		}
		stages[stage]++
	}
	for _, l := range h.logs {
		recorded += len(l)
	}
	for _, l := range h.rec.Ledgers {
		left += int(l.Total)
	}
	return fmt.Sprintf("%d messages, %d events, %d calls, %d left, %d absent, %d silent, %d turns and %d parked minutes judged, %d dispatchers, %.1f virtual hours in %.1f s, projected in %.1f s, %v, faults %v",
		len(h.order), recorded, len(h.rec.Calls), left, h.absences, h.silences, h.turns, h.parked, h.rec.Lives, h.rec.Ended.Sub(h.rec.Began).Hours(), lived.Seconds(),
		projected.Seconds(), stages, h.rec.Faults)
}
