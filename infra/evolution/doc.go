// Package evolution calls one Evolution API gateway and says what each of its answers proves about the message that was to be sent.
//
// A send goes out in one write, which asks the caller once more before it happens, and the result says whether a byte left.
// Nothing is ever sent a second time by this package. Endpoints, envelopes and the verdict table: docs/reference/gateway.md.
package evolution
