package dispatcher

import (
	"slices"
	"sync"
	"testing"

	"pilotstatus.dev/events"
)

// manners keep what a dispatcher says of messages on their way.
type manners struct {
	mu  sync.Mutex
	all []string
}

func (h *manners) Comes(id string) { h.add("comes " + id) }
func (h *manners) Left(id string)  { h.add("left " + id) }

func (h *manners) add(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, what)
}

func (h *manners) said() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// Who will call for a code says that it comes, and that it has left; other messages do not come, and what is read from the past does not
// come any more.
func TestACodeIsSaidToBeOnItsWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.accept(order{text: "old code", class: events.ClassOTP})
	owner, other := &manners{}, &manners{}
	r.polite = owner
	set := quick()
	set.ID = "owner"
	d, _ := r.run(set)
	r.awaitStage(before, events.StageDispatched)
	r.polite = other
	second, _ := r.run(named(set, "owner", false))
	awaitOwner(t, d)
	eventually(t, "the other follows", second.Leading, nil)

	offer := r.accept(order{text: "offer", class: events.ClassMarketing})
	r.awaitStage(offer, events.StageDispatched)
	code := r.accept(order{text: "new code", class: events.ClassOTP})
	r.awaitStage(code, events.StageDispatched)
	want := []string{"left " + before, "left " + offer, "comes " + code, "left " + code}
	if got := owner.said(); !slices.Equal(got, want) {
		t.Errorf("said %q, not %q", got, want)
	}
	if got := other.said(); len(got) > 0 {
		t.Errorf("who does not own the instance said %q", got)
	}
}
