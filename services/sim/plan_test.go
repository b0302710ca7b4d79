package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"pilotstatus.dev/events"
)

const (
	partitions = 2
	instances  = 8
	troubled   = 6 // the first ones are behind gateways that anything befalls
	gateways   = 3
	calm       = 2 // the gateway that little befalls
)

// home is the gateway of an instance.
func home(n int) int {
	if n < troubled {
		return n % calm
	}
	return calm
}

// plan is all that a seed decides. Times count from the begin of the run.
type plan struct {
	Seed     uint64
	Length   time.Duration // of load and faults; the run goes on until the last message is over
	Messages []planned     // in order of At
	Actions  []action      // in order of At
	NoSaving bool          // the second gateway keeps no messages
}

// planned is a message to accept.
type planned struct {
	At        time.Duration
	Instance  int
	Tenant    string
	Class     events.Class
	Number    string
	Text      string
	Buttons   bool
	DeliverAt time.Duration // after At; 0 is at once
	Clock     time.Duration // how far the API's clock is ahead
	Reposts   int           // 1: posted again when the log did not answer
	Window    time.Duration
	Cancel    time.Duration // after it was accepted it is canceled; 0: it is not
	Quiet     bool          // it belongs to the quiet end, and waits for it
}

// action is something that happens to the parts.
type action struct {
	At time.Duration
	Do func(*world)
}

// latest is how late a receipt may come.
func (p *plan) latest() time.Duration { return min(2*time.Hour, p.Length/4) }

// newPlan draws a plan: the same for the same numbers.
func newPlan(seed uint64, length time.Duration, messages int) plan {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	p := plan{Seed: seed, Length: length, NoSaving: r.IntN(3) == 0}
	p.drawLoad(r, messages)
	p.drawFaults(r)
	p.drawChaos(r)
	p.drawLog(r)
	p.drawReceivers(r)
	for i := range p.Messages {
		p.Messages[i].Reposts = r.IntN(2)
	}
	for range int(p.Length/(4*time.Hour)) + 1 { // the API's clock goes wrong, and right again
		from, length := within(r, 0, p.Length), within(r, time.Minute, 40*time.Minute)
		clock := within(r, time.Second, 18*time.Minute) - 9*time.Minute
		for i, m := range p.Messages {
			if m.At >= from && m.At < from+length {
				p.Messages[i].Clock = clock
			}
		}
	}
	more := rand.New(rand.NewPCG(seed, 0xca9ce1))
	p.drawCancels(more)
	p.drawLevers(more)
	p.drawSettings(more)
	p.drawStorms(more)
	p.drawRare(more)
	p.drawQuiet(more)
	slices.SortStableFunc(p.Messages, func(a, b planned) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(p.Actions, func(a, b action) int { return cmp.Compare(a.At, b.At) })
	return p
}

func (p *plan) do(at time.Duration, do func(*world)) {
	p.Actions = append(p.Actions, action{At: at, Do: do})
}

// within draws a duration in [low, high).
func within(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

func instanceID(n int) string { return fmt.Sprintf("inst-%d", n) }

// The shared numbers of the platform, one at a gateway in trouble and one at the calm one.
const (
	sharedNumber = 5
	sharedCalm   = 6
	ownedCalm    = 7
)

// tenantOf is the owner of an instance.
func tenantOf(n int) string {
	if n == sharedNumber || n == sharedCalm {
		return events.PlatformTenant
	}
	return tenants[n%len(tenants)]
}

// callsOf is how many calls an instance allows at once when it is made, and its slots.
func callsOf(n int) (now, most int) {
	switch n {
	case 1:
		return 3, 3
	case 4:
		return 2, 4
	case ownedCalm:
		return 3, 4
	default:
		return 1, 1
	}
}

// paceOf is the pace of an instance when it is made; the shared number in trouble has a person's, by default.
func paceOf(n int) events.Pace {
	switch {
	case n == sharedCalm:
		return events.Pace{RatePerMinute: 20, Burst: 2, Jitter: 0.3}
	case n == ownedCalm || n%3 != 0:
		return events.Pace{}
	default:
		return events.Pace{RatePerMinute: 20}
	}
}

var tenants = []string{"acme", "globex", "initech"}

// numberPool are recipients: mobile numbers of two areas, one where the gateway drops the ninth digit, and some that nobody has.
const (
	numberPool    = 60
	missingEvery  = 15
	sameTextEvery = 25 // one message in so many repeats a text to its recipient
	buttonsEvery  = 12
)

func numberOf(n int) string {
	if n%2 == 0 {
		return fmt.Sprintf("55119%08d", 80000000+n)
	}
	return fmt.Sprintf("55319%08d", 80000000+n)
}

// missingNumbers are those that an instance takes for nobody's; of the calm gateway none are.
func missingNumbers(instance int) (all []string) {
	if instance >= troubled {
		return nil
	}
	for n := missingEvery - 1; n < numberPool; n += missingEvery {
		d := numberOf(n)
		all = append(all, d, d[:4]+d[5:])
	}
	return all
}

// drawLoad spreads messages over the day, in bursts and alone.
func (p *plan) drawLoad(r *rand.Rand, count int) {
	classes := []events.Class{
		events.ClassOTPUrgent, events.ClassOTP, events.ClassOTP, events.ClassUtilityUrgent, events.ClassUtility, events.ClassUtility,
		events.ClassUtility, events.ClassMarketingUrgent, events.ClassMarketing, events.ClassMarketing, events.ClassMarketing,
	}
	for len(p.Messages) < count {
		at, burst := within(r, 10*time.Second, p.Length), 1
		if r.IntN(20) == 0 {
			burst = 5 + r.IntN(30)
		}
		instance := r.IntN(instances)
		together := r.IntN(3) == 0 // one deadline for the whole burst
		first := p.draw(r, at, instance, classes[r.IntN(len(classes))])
		for range burst {
			m := first
			if !together {
				m = p.draw(r, at, instance, classes[r.IntN(len(classes))])
			}
			m.Text = fmt.Sprintf("sim-%05d", len(p.Messages))
			if m.Buttons = r.IntN(buttonsEvery) == 0; !m.Buttons && r.IntN(sameTextEvery) == 0 {
				m.Text, m.Number = fmt.Sprintf("same-%d", r.IntN(4)), numberOf(r.IntN(2))
			}
			p.Messages = append(p.Messages, m)
		}
	}
}

func (p *plan) draw(r *rand.Rand, at time.Duration, instance int, class events.Class) planned {
	m := planned{At: at, Instance: instance, Tenant: tenantOf(instance), Class: class, Number: numberOf(r.IntN(numberPool))}
	if m.Tenant == events.PlatformTenant {
		m.Tenant = tenants[r.IntN(len(tenants))]
	}
	switch class.Category() {
	case events.OTP:
		m.Window = within(r, 30*time.Second, 10*time.Minute)
	case events.Utility:
		m.Window = within(r, 2*time.Minute, min(3*time.Hour, p.Length/2))
		if r.IntN(3) == 0 { // so that many deadlines pass while a call hangs or is being looked up
			m.Window = within(r, 2*time.Minute, 8*time.Minute)
		}
	default:
		m.Window = within(r, 10*time.Minute, min(6*time.Hour, p.Length/2))
	}
	if r.IntN(4) == 0 {
		m.DeliverAt = within(r, time.Second, p.Length/3)
	}
	return m
}
