// Package receipts takes in what gateways say by webhook and binds it to the messages it is about.
//
// It promises that an answer of 2xx to a gateway means the observation is on disk or deliberately not kept, that a receipt is
// bound by instance and key id only, that each state of a message is recorded once, and that nothing personal is stored
// (docs/reference/gateway.md).
package receipts
