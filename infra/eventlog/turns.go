package eventlog

import "sync"

// turns lets deliveries about the same thing be handled one after the other. Its zero value is ready.
type turns struct {
	mu   sync.Mutex
	last map[string]chan struct{} // of each thing: closed when the delivery that came last has been handled
}

// next takes the turn behind the last one about the thing, "" for none: before is closed when that has been handled, nil where there is
// none; done ends this one.
func (t *turns) next(about string) (before <-chan struct{}, done func()) {
	if about == "" {
		return nil, func() {}
	}
	mine := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[string]chan struct{}{}
	}
	if last, ok := t.last[about]; ok {
		before = last
	}
	t.last[about] = mine
	return before, func() {
		close(mine)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.last[about] == mine {
			delete(t.last, about)
		}
	}
}
