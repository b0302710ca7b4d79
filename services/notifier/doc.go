// Package notifier tells customers' endpoints what becomes of their messages (docs/reference/webhooks.md).
//
// It promises each subscribed customer event to each endpoint at least once, signed, under one id for life; one event for each
// state whatever receipts repeat; and that a slow or hostile endpoint harms no other (promise P10).
package notifier
