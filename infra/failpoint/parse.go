package failpoint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

type action string

const (
	actionKill  action = "kill"
	actionStop  action = "stop"
	actionSleep action = "sleep"
	actionError action = "error"
)

// arm is what one place is armed with.
type arm struct {
	action action
	pause  time.Duration // of sleep
	nth    int64         // 0: every pass
	passes atomic.Int64
}

// arms are the armed places by name.
type arms map[string]*arm

// parse reads the value of Variable.
func parse(text string) (arms, error) {
	out := arms{}
	for spec := range strings.SplitSeq(text, ",") {
		name, rest, _ := strings.Cut(strings.TrimSpace(spec), ":")
		at := slices.IndexFunc(Points(), func(p Point) bool { return p.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no place %q", name)
		}
		if out[name] != nil {
			return nil, fmt.Errorf("%s is armed twice", name)
		}
		a, err := parseArm(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if a.action == actionError && !Points()[at].Fails {
			return nil, fmt.Errorf("%s cannot fail", name)
		}
		out[name] = a
	}
	return out, nil
}

// parseArm reads `action[:nth]`.
func parseArm(text string) (*arm, error) {
	word, rest, more := strings.Cut(text, ":")
	a := &arm{action: action(word)}
	switch a.action {
	case actionKill, actionStop, actionError:
	case actionSleep:
		var err error
		word, rest, more = strings.Cut(rest, ":")
		if a.pause, err = time.ParseDuration(word); err != nil || a.pause <= 0 {
			return nil, errors.New("sleep wants a duration: sleep:200ms")
		}
	default:
		return nil, fmt.Errorf("unknown action %q: kill, stop, sleep:<duration> or error", word)
	}
	if !more {
		return a, nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || n < 1 {
		return nil, errors.New("the pass is a number from 1")
	}
	a.nth = n
	return a, nil
}
