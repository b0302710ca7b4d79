package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/presence"
)

// Words reads what was said of an instance as a whole.
type Words interface {
	// Now gives the state of an instance as its log says now: nothing that was recorded before the call is missing.
	Now(ctx context.Context, p events.Partition, instance string) (presence.State, error)
}

// InstanceState is what the log says of an instance as a whole.
type InstanceState struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Connection string        `json:"connection" enum:"OPEN,CLOSE,UNKNOWN" doc:"As its gateway last said, debounced."`
	Since      *string       `json:"since" format:"date-time" doc:"Since when; null while unknown."`
	Paused     bool          `json:"paused" doc:"An operator paused it: nothing starts."`
	Draining   bool          `json:"draining" doc:"An operator drains it: what was accepted before goes out, what comes after waits."`
	Parked     bool          `json:"parked" doc:"An answer said that it cannot be used: it is probed, messages wait."`
	Pause      *InstanceWord `json:"pause,omitempty" doc:"Who paused it; absent when nobody did."`
	Drain      *InstanceWord `json:"drain,omitempty" doc:"Who drains it; absent when nobody does."`
	Park       *InstanceWord `json:"park,omitempty" doc:"What parked it, since the first time; absent when it is not parked."`
	Gateway    string        `json:"gatewayParkedBy,omitempty" example:"ins_7" doc:"Another instance with the same gateway that is parked for the gateway's sake: nothing starts here either until that one's probe finds it usable."`
	Left       *int          `json:"left,omitempty" minimum:"0" doc:"Of a drain: messages accepted before it that are not over, scheduled and unconfirmed ones too, as of a few seconds ago. Absent while not known."`
	Drained    bool          `json:"drained,omitempty" doc:"Of a drain: nothing is left."`
}

// InstanceWord is why an instance is held.
type InstanceWord struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Since  string `json:"since" format:"date-time"`
	By     string `json:"by" example:"operator:ana" doc:"Operator, or the part of Pilot that said so."`
	Reason string `json:"reason" example:"number under review"`
	Scope  string `json:"scope,omitempty" enum:"instance,gateway" doc:"Of a park: what cannot be used."`
}

type leverOutput struct{ Body InstanceState }

// addState adds to an instance what is known of it now.
func (a *API) addState(ctx context.Context, v *InstanceView) {
	if a.ports.Presence != nil {
		v.State = a.stateOf(ctx, v.ID, a.ports.Presence.State(v.ID))
		v.State.Gateway = a.gatewayParkedBy(v.ID, v.GatewayURL)
	}
}

func (a *API) stateOf(ctx context.Context, id string, s presence.State) *InstanceState {
	out := &InstanceState{
		Connection: cmp.Or(string(s.Connection), "UNKNOWN"), Since: stampOrNull(s.Since), Paused: s.Paused, Draining: s.Draining, Parked: s.Parked,
		Pause: wordOf(s.Paused, s.Pause), Drain: wordOf(s.Draining, s.Drain), Park: wordOf(s.Parked, s.Park),
	}
	if !s.Draining || a.ports.Loads == nil {
		return out
	}
	if l, known := a.ports.Loads.Load(ctx, a.partitionOf(id), id); known && l.Drains {
		out.Left, out.Drained = &l.Left, l.Left == 0
	}
	return out
}

// gatewayParkedBy gives another instance that is parked for the sake of the gateway at the URL; "" when none is.
func (a *API) gatewayParkedBy(id, url string) (by string) {
	parked := a.ports.Presence.ParkedWide()
	a.ports.Catalog.Read(func(c *catalog.Catalog) {
		for _, other := range parked {
			if inst, ok := c.Instance(other); ok && by == "" && other != id && inst.GatewayURL == url {
				by = other
			}
		}
	})
	return by
}

func wordOf(held bool, w presence.Word) *InstanceWord {
	if !held {
		return nil
	}
	return &InstanceWord{Since: stamp(w.Since), By: w.By, Reason: w.Reason, Scope: w.Scope}
}

// partitionOf gives the partition of an instance.
func (a *API) partitionOf(instance string) events.Partition {
	return events.PartitionOf(instance, partitionsOf(a.ports.Catalog))
}

var leverTexts = map[presence.Lever]string{
	presence.LeverPause:  "Nothing starts. Messages are accepted and wait; those whose window ends are FAILED.",
	presence.LeverDrain:  "What was accepted before goes out, what comes after waits. 409 INSTANCE_PAUSED while it is paused: a drain would send.",
	presence.LeverResume: "Ends pause, drain, park, and what the gateway called closed; the queue goes on in its order.",
	presence.LeverUnpark: "Ends a park of this instance; pause and drain go on. What parked it parks it again when it still holds.",
}

func (a *API) registerLevers(path, name string) {
	for _, lever := range presence.Levers() {
		more := []events.Code{events.CodeNotFound}
		if lever == presence.LeverDrain {
			more = append(more, presence.CodePaused)
		}
		op := a.adminOperation(http.MethodPost, adminPrefix+path+"/{id}/"+string(lever), string(lever), name, path, events.OperatorSend, more...)
		op.Description += " " + leverTexts[lever] + " Holds for every call that begins after it; a call under way ends. Nothing is recorded when it is so already."
		huma.Register(a.huma, op, func(ctx context.Context, in *bareInput) (*leverOutput, error) {
			return a.pull(ctx, in.ID, in.Reason, lever)
		})
	}
}

// pull appends an operator's word to the log of an instance, unless it holds already, and tells the state from then on.
func (a *API) pull(ctx context.Context, id, reason string, lever presence.Lever) (*leverOutput, error) {
	by, err := authorOf(ctx, reason)
	if err != nil {
		return nil, err
	}
	if _, _, found := findEntity(a.ports.Catalog, a.instances().entity, id); !found {
		return nil, errNoEntity()
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	p := a.partitionOf(id)
	state, err := a.ports.Words.Now(ctx, p, id)
	if err != nil {
		return nil, outage(err, "It is not known what holds the instance; nothing was changed.")
	}
	needed, err := state.Pull(lever)
	if err != nil {
		return nil, err
	}
	if needed {
		wire, token, _ := lever.Word()
		e := events.Event{
			Envelope: events.Envelope{ID: a.ports.NewID().String(), Type: wire, Source: "pilot/api", Time: a.ports.Now().UTC()},
			Address:  events.EventSubject(p, id, events.GroupInstance, token),
			Body:     &events.InstanceChanged{By: by.by, Reason: by.reason},
		}
		seq, err := a.ports.Log.Append(ctx, e)
		if err != nil {
			return nil, outage(err, "It is not known whether the instance heard of it; try again.")
		}
		state = state.Apply(events.Recorded{Event: e, Position: events.Position{Partition: p, Sequence: seq}, Known: true})
	}
	return &leverOutput{Body: *a.stateOf(ctx, id, state)}, nil
}
