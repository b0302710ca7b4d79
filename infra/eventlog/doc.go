// Package eventlog is the only code that publishes events to JetStream or reads them from it.
//
// It promises that an append is reported done only when the event is stored, refused only when the log moved without
// it, and otherwise as unknown; and that a reader gets every event of what it asked for, in order, or an error.
// Rules R1 to R3 of the dispatch protocol rest on it. The streams are described in docs/reference/streams.md.
package eventlog
