package events

import (
	"math"
	"time"
)

// Pace is the token bucket of an instance, as it is set. A start takes the tokens that its category costs; one token comes back in
// the gap between two starts. What is absent has a default: see Instance.Pacing.
type Pace struct {
	RatePerMinute float64              `json:"ratePerMinute,omitempty"` // tokens a minute; 0: a person's pace on a shared number, unpaced on an own one
	Burst         int                  `json:"burst,omitempty"`         // tokens after a rest; 0 is 1
	Jitter        float64              `json:"jitter,omitempty"`        // each gap is drawn within this share of the mean, up or down; 0 to MaxJitter
	Costs         map[Category]float64 `json:"costs,omitempty"`         // tokens of a start; 0: it neither waits nor makes others wait
}

// Limits of a pace.
const (
	MaxBurst  = 100
	MaxJitter = 0.9
)

// The pace of a shared number without one of its own: what a person may be taken for.
const (
	HumanGapShortest = 30 * time.Second
	HumanGapLongest  = 46 * time.Second
	// SharedOTPCost is what a code costs on a shared number: it is asked for and short-lived, and would be over after a few gaps.
	SharedOTPCost = 0.1
)

// maxGap keeps the arithmetic of an absurdly slow rate in range.
const maxGap = 30 * 24 * time.Hour

// Pacing is a pace with its defaults filled in. The zero Pacing is unpaced. Two are equal when they mean the same.
type Pacing struct {
	GapMin, GapMax time.Duration // in which one token comes back: each gap is drawn between them
	Burst          float64       // tokens after a rest
	OTP            float64       // tokens of a start of each category
	Utility        float64
	Marketing      float64
}

// Free reports whether nothing is paced.
func (p Pacing) Free() bool { return p.GapMax <= 0 }

// Mean is the mean time in which one token comes back; 0 when unpaced.
func (p Pacing) Mean() time.Duration { return p.GapMin/2 + p.GapMax/2 }

// Cost gives the tokens that a start of a category takes: no more than the bucket holds, or it could never start.
func (p Pacing) Cost(c Category) float64 {
	cost := p.Marketing
	switch c {
	case OTP:
		cost = p.OTP
	case Utility:
		cost = p.Utility
	default:
	}
	return min(cost, p.Burst)
}

// Gap gives the time in which one token comes back for a draw in [0,1).
func (p Pacing) Gap(draw float64) time.Duration {
	return p.GapMin + time.Duration(draw*float64(p.GapMax-p.GapMin))
}

// Pacing gives the pace in force: its own where it has a rate, a person's on a shared number, none on an own one.
func (i Instance) Pacing() Pacing {
	p := Pacing{Burst: float64(max(i.Pace.Burst, 1)), OTP: 1, Utility: 1, Marketing: 1}
	switch r := i.Pace.RatePerMinute; {
	case r > 0:
		mean := math.Min(float64(time.Minute)/r, float64(maxGap))
		jitter := mean * min(max(i.Pace.Jitter, 0), MaxJitter)
		p.GapMin, p.GapMax = time.Duration(mean-jitter), time.Duration(mean+jitter)
	case i.Shared:
		p.GapMin, p.GapMax = HumanGapShortest, HumanGapLongest
	default:
		return Pacing{}
	}
	if i.Shared {
		p.OTP = SharedOTPCost
	}
	for c, of := range map[Category]*float64{OTP: &p.OTP, Utility: &p.Utility, Marketing: &p.Marketing} {
		if cost, set := i.Pace.Costs[c]; set {
			*of = max(cost, 0)
		}
	}
	return p
}

// CallsAtOnce gives how many calls may be under way at a time: what is set, within the slots of the instance; one on a shared number.
func (i Instance) CallsAtOnce() int {
	if i.Shared {
		return 1
	}
	return min(max(i.Concurrency, 1), max(i.MaxConcurrency, 1))
}

// Types reports whether the recipient is shown that somebody types before a message comes: on a shared number unless it is set otherwise.
func (i Instance) Types() bool {
	if i.Typing == nil {
		return i.Shared
	}
	return *i.Typing
}
