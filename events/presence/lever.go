package presence

import "pilotstatus.dev/events"

// Lever is what an operator does with an instance.
type Lever string

// The levers. Each is the end of its route and of its command.
const (
	LeverPause  Lever = "pause"  // nothing starts
	LeverDrain  Lever = "drain"  // what was accepted before goes out, what comes after waits
	LeverResume Lever = "resume" // ends pause, drain and park
	LeverUnpark Lever = "unpark" // ends a park, and leaves pause and drain as they are
)

// Levers lists them.
func Levers() []Lever { return []Lever{LeverPause, LeverDrain, LeverResume, LeverUnpark} }

// CodePaused refuses a drain of what is paused: it would send, and somebody said that nothing is sent.
const CodePaused events.Code = "INSTANCE_PAUSED"

// words are the wire name and the last token of the subject of what a lever appends.
var words = map[Lever][2]string{
	LeverPause: {events.TypeInstancePaused, "paused"}, LeverDrain: {events.TypeInstanceDraining, "draining"},
	LeverResume: {events.TypeInstanceResumed, "resumed"}, LeverUnpark: {events.TypeInstanceUnparked, "unparked"},
}

// Words lists the names of the events that State folds, as they stand in subjects. The newest of each comes to the same flags as all.
func Words() []string {
	return []string{"opened", "closed", "parked", "unparked", "paused", "draining", "resumed"}
}

// Word gives the wire name and the last token of the subject of the event to append; false for no lever.
func (l Lever) Word() (wire, token string, ok bool) {
	w, ok := words[l]
	return w[0], w[1], ok
}

// Pull decides what a lever does in a state: needed says that its event is to be appended, or the instance is as asked for already.
// The error has the code CodePaused, or NOT_FOUND for no lever.
func (s State) Pull(l Lever) (needed bool, err error) {
	switch l {
	case LeverPause:
		return !s.Paused, nil
	case LeverDrain:
		if s.Paused {
			return false, events.Errorf(CodePaused, "The instance is paused: a drain would send. Resume it first.")
		}
		return !s.Draining, nil
	case LeverResume:
		return s.Paused || s.Draining || s.Parked || s.Connection == Closed, nil
	case LeverUnpark:
		return s.Parked, nil
	}
	return false, events.Errorf(events.CodeNotFound, "There is no such lever.")
}
