// Package topology holds the one table of Pilot's streams and buckets and makes a server match it.
//
// It promises that nothing existing is ever changed silently: what is missing is created, what differs is a
// DriftError with a readable diff. The table for readers is docs/reference/streams.md.
package topology
