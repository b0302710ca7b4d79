package api

import (
	"context"
	"time"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/presence"
)

// Codes of who may be written to, and from where.
const (
	CodeNotInTestList  events.Code = "DESTINATION_NOT_ALLOWED_IN_TEST" // a TEST key sends to profile numbers only
	CodeOptInRequired  events.Code = "OPT_IN_REQUIRED"                 // the shared number writes to who opted in only
	CodeOptedOut       events.Code = "RECIPIENT_OPTED_OUT"             // the recipient wants nothing more of the tenant
	CodeInstanceClosed events.Code = "WHATSAPP_INSTANCE_NOT_CONNECTED" // the bound instance has not been connected for a while
	CodeSendingStopped events.Code = "SENDING_STOPPED"                 // an operator stopped sending for all
)

// Presence tells what the log says of instances as a whole.
type Presence interface {
	// State gives what is known of an instance; the zero State while nothing is.
	State(instance string) presence.State
	// ParkedWide lists the instances that are parked for their gateway's sake: nothing behind the same gateway starts.
	ParkedWide() []string
}

// closedFor is how long a bound instance must have been closed before sends from it are refused: a connection that comes back by itself
// is not noticed.
const closedFor = time.Minute

// running refuses while an operator has stopped sending for all.
func (a *acceptor) running(_ *draft, _ submission) error {
	stopped := false
	a.catalog.Read(func(c *catalog.Catalog) { stopped = c.Platform().Stopped })
	if stopped {
		return events.Errorf(CodeSendingStopped, "Sending is stopped by the platform; nothing was accepted.")
	}
	return nil
}

// recognized makes the recipient comparable with the tenant's lists, and holds TEST to the profile numbers.
func (a *acceptor) recognized(ctx context.Context, d *draft, s submission) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	var err error
	if d.recipientHash, err = a.hasher.Hash(ctx, s.caller.Key.TenantID, purposeRecipient, []byte(d.to.Canonical())); err != nil {
		return outage(err, "Nothing was accepted; try again.")
	}
	a.catalog.Read(func(c *catalog.Catalog) {
		t, _ := c.Tenant(s.caller.Key.TenantID)
		d.zone = t.TimeZone
		for _, n := range t.ProfileNumbers {
			d.profile = d.profile || n.Hash == d.recipientHash
		}
	})
	if s.caller.Key.Environment == events.Test && !d.profile {
		return events.Errorf(CodeNotInTestList, "A TEST key sends to the profile numbers of the account only.")
	}
	return nil
}

// connected refuses a bound instance that is known not to be connected. The shared one, and one that is paused or parked, take
// messages that then wait for their deadline.
func (a *acceptor) connected(d *draft, _ submission) error {
	if d.own && a.presence != nil && a.presence.State(d.instance.ID).ClosedFor(closedFor, d.now) {
		return events.Errorf(CodeInstanceClosed, "The number of this key is not connected; nothing was accepted.")
	}
	return nil
}

// consented honours opt-outs, and asks for an opt-in where the platform requires it: UTILITY in LIVE from the shared number.
func (a *acceptor) consented(d *draft, s submission) error {
	key := s.caller.Key
	var out, required, in bool
	a.catalog.Read(func(c *catalog.Catalog) {
		out = c.OptedOut(key.TenantID, d.recipientHash)
		required = c.Platform().OptInRequired
		_, in = c.OptIn(key.ProjectID, d.recipientHash)
	})
	switch {
	case out:
		return events.Errorf(CodeOptedOut, "The recipient wants no messages of this account.")
	case required && !in && !d.own && key.Environment == events.Live && d.category != events.OTP:
		return events.Errorf(CodeOptInRequired, "The recipient has not opted in to messages of this project.")
	}
	return nil
}
