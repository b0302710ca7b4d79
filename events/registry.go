package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Spec describes one event: its wire name, where it lives and what a reader of headers must know.
type Spec struct {
	Name    string // "<group>.<type>" as in ce-type, without the version
	Version int    // newest version; older ones are lifted by upcasters
	Fenced  bool   // part of the fenced group: carries prev, no Nats-Msg-Id
	Called  bool   // carries ce-called
	// NeedsBody reports whether a fold that read headers only must fetch the body of this envelope.
	NeedsBody func(Envelope) bool
	New       func() any // a pointer to a zero body of the newest version
}

// WireType is the ce-type of the newest version.
func (s Spec) WireType() string { return s.Name + ".v" + strconv.Itoa(s.Version) }

// Upcast lifts a body by one version. It must not fail on any body that was ever valid.
type Upcast func(json.RawMessage) (json.RawMessage, error)

// Registry knows every event by wire name and version. A body once released decodes for ever: its golden file stays
// (testdata/golden), and a new version comes with an upcaster from the one before.
type Registry struct {
	specs   map[string]Spec
	upcasts map[string]map[int]Upcast
}

// NewRegistry makes a registry of the given specs. It panics on a name given twice: that is a programming error.
func NewRegistry(specs ...Spec) *Registry {
	r := &Registry{specs: map[string]Spec{}, upcasts: map[string]map[int]Upcast{}}
	for _, s := range specs {
		if _, dup := r.specs[s.Name]; dup || s.Version < 1 {
			panic("events: event registered twice or without a version: " + s.Name)
		}
		r.specs[s.Name] = s
	}
	return r
}

// WithUpcast adds the lift of name from version `from` to from+1 and returns r.
func (r *Registry) WithUpcast(name string, from int, up Upcast) *Registry {
	if r.upcasts[name] == nil {
		r.upcasts[name] = map[int]Upcast{}
	}
	r.upcasts[name][from] = up
	return r
}

// Specs lists all specs by name.
func (r *Registry) Specs() []Spec {
	names := slices.Sorted(maps.Keys(r.specs))
	out := make([]Spec, len(names))
	for i, n := range names {
		out[i] = r.specs[n]
	}
	return out
}

// NameOf gives the name in a ce-type: what it means in every version.
func NameOf(wireType string) string {
	if i := strings.LastIndex(wireType, ".v"); i >= 0 {
		return wireType[:i]
	}
	return wireType
}

// Lookup gives the spec of a ce-type and the version it names. ok is false for an unknown name or a version newer than ours.
func (r *Registry) Lookup(wireType string) (s Spec, version int, ok bool) {
	i := strings.LastIndex(wireType, ".v")
	if i < 0 {
		return Spec{}, 0, false
	}
	version, err := strconv.Atoi(wireType[i+2:])
	if err != nil || version < 1 || strconv.Itoa(version) != wireType[i+2:] {
		return Spec{}, 0, false
	}
	s, ok = r.specs[wireType[:i]]
	return s, version, ok && version <= s.Version
}

// Encode turns an event into what goes on the wire. The type must be registered in its newest version and the body of the registered type.
func (r *Registry) Encode(e Event) (Wire, error) {
	s, v, ok := r.Lookup(e.Type)
	if !ok || v != s.Version {
		return Wire{}, Errorf(CodeMalformed, "event type %s is not registered in this version", e.Type)
	}
	if want, got := fmt.Sprintf("%T", s.New()), fmt.Sprintf("%T", e.Body); want != got {
		return Wire{}, Errorf(CodeMalformed, "event %s wants a body of type %s, not %s", e.Type, want, got)
	}
	if e.ID == "" {
		return Wire{}, Errorf(CodeMalformed, "event %s has no id", e.Type)
	}
	data, err := json.Marshal(e.Body)
	if err != nil {
		return Wire{}, Errorf(CodeMalformed, "body of %s does not encode", e.Type).WithCause(err)
	}
	return Wire{Subject: e.Address, Header: e.headers(s, e.DedupID), Data: data}, nil
}

// Decode reads a stored event. An unknown type or version is not an error: Known is false and Body nil.
// Headers or a body that do not fit a known type are CodeMalformed.
func (r *Registry) Decode(m Stored) (Recorded, error) {
	env, err := readEnvelope(m.Header)
	if err != nil {
		return Recorded{}, err
	}
	rec := Recorded{Event: Event{Envelope: env, Address: m.Subject}, Position: m.Position, Stored: m.Time.UTC(), Partial: m.HeadersOnly}
	s, version, ok := r.Lookup(env.Type)
	if !ok {
		return rec, nil
	}
	rec.Known = true
	if m.HeadersOnly {
		return rec, nil
	}
	raw := json.RawMessage(m.Data)
	for v := version; v < s.Version; v++ {
		up, ok := r.upcasts[s.Name][v]
		if !ok {
			return Recorded{}, Errorf(CodeMalformed, "no upcaster of %s from version %d", s.Name, v)
		}
		if raw, err = up(raw); err != nil {
			return Recorded{}, Errorf(CodeMalformed, "body of %s version %d does not lift", s.Name, v).WithCause(err)
		}
	}
	rec.Body = s.New()
	if err := json.Unmarshal(raw, rec.Body); err != nil {
		return Recorded{}, Errorf(CodeMalformed, "body of %s does not decode", env.Type).WithCause(err)
	}
	return rec, nil
}

// NeedsBody reports whether a reader of headers has to fetch the body of rec before folding it.
func (r *Registry) NeedsBody(rec Recorded) bool {
	s, _, ok := r.Lookup(rec.Type)
	return ok && rec.Partial && s.NeedsBody != nil && s.NeedsBody(rec.Envelope)
}
