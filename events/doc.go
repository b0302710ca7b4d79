// Package events is the language of Pilot: the envelope, the wire names and bodies of every event, the subjects they
// live under, ids, positions, and the one typed error.
//
// Everything here is pure: no I/O, no clock, no goroutine, no randomness. Two folds give the words their meaning:
// package message (the state of one message) and package queue (what one instance has to do next). Package catalog
// folds the control plane. The wire reference is docs/events.md.
package events
