// Package evolutionsim is a gateway that answers, posts webhooks and misbehaves like Evolution API 2.3.6 as it was captured, without WhatsApp.
//
// It is a test tool: it keeps texts and numbers in memory and shows them under /sim. Every message it took is in its ledger, which is the
// ground truth about what left, how often, and whether two sends of one instance overlapped. Faults are set per message while it runs.
// What it imitates is written down in docs/reference/gateway.md.
package evolutionsim
