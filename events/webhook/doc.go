// Package webhook says what customers hear of a message: which transitions are customer events, the id that an event keeps for
// life, and the exact bytes of its body (docs/reference/webhooks.md). It is pure: the same delivery gives the same bytes.
package webhook
