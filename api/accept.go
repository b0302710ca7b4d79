package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/idempotency"
	"pilotstatus.dev/events/recipient"
	"pilotstatus.dev/events/template"
	"pilotstatus.dev/infra/failpoint"
)

// acceptor decides whether a message is accepted, and appends it.
type acceptor struct {
	catalog    Catalog
	log        Log
	keyring    Keyring
	hasher     Hasher
	aad        func(tenant, entity, field string) []byte
	now        func() time.Time
	newID      func() uuid.UUID
	maxBehind  time.Duration
	maxDepth   int
	timeout    time.Duration // of sealing and appending together
	repeats    repeats
	presence   Presence // may be nil
	quota      Quota    // nil keeps no limits of plans
	recipients recipients
	loads      Loads // may be nil
}

// submission is one request to send.
type submission struct {
	caller  Caller
	body    []byte
	bodyErr error // why the body could not be read, judged in its turn
	trace   string
	path    string // of the route
	key     string // idempotency key; empty for none
	keyRule string // what is wrong with it
	item    string // which of several in one request
}

// accepted is a message on disk in the log.
type accepted struct {
	id       string
	response QueuedMessage
	replayed bool // it was accepted before; the fields below are then not known
	event    events.Event
	queued   *events.MessageQueued
	lane     events.Lane
	position events.Position
}

// draft is what the rules have found so far.
type draft struct {
	now        time.Time
	order      sendOrder
	to         recipient.Recipient
	template   events.Template
	version    events.TemplateVersion
	category   events.Category
	content    template.Content
	instance   events.Instance
	own        bool // the instance is the tenant's own
	partitions int
	expected   time.Time // when it is expected to leave; zero: not known

	recipientHash string
	profile       bool   // the recipient is a profile number of the tenant
	zone          string // of the tenant; empty is the default

	fingerprint string
	slot        slotted
}

// accept runs the rules of a send in their documented order (docs/reference/api.md, Order of rules) and appends. The key,
// its scope and its burst limit were judged before. Nothing is appended when a rule refuses.
func (a *acceptor) accept(ctx context.Context, s submission) (accepted, error) {
	d, before, err := a.judge(ctx, s)
	switch {
	case err != nil:
		return accepted{}, err
	case before != nil:
		return *before, nil
	}
	return a.append(ctx, d, s)
}

// judge runs the rules. The answer is not nil when the request was made before: nothing is left to do.
func (a *acceptor) judge(ctx context.Context, s submission) (draft, *accepted, error) {
	d := draft{now: a.now().UTC().Truncate(time.Millisecond)}
	for _, rule := range []func(*draft, submission) error{a.fresh, a.running, a.approved, a.body} {
		if err := rule(&d, s); err != nil {
			return d, nil, err
		}
	}
	if before, err := a.repeated(ctx, &d, s); before != nil || err != nil {
		return d, before, err
	}
	for _, rule := range []func(*draft, submission) error{
		a.inTime,
		a.destination,
		func(d *draft, s submission) error { return a.recognized(ctx, d, s) },
		a.templates,
		a.instance,
		a.connected,
		a.ownNumber,
		a.consented,
		func(d *draft, s submission) error { return a.seldom(ctx, d, s) },
	} {
		if err := rule(&d, s); err != nil {
			return d, nil, err
		}
	}
	return d, nil, nil
}

// fresh refuses to decide on a catalog that may lack a revocation or an approval.
func (a *acceptor) fresh(_ *draft, _ submission) error {
	if a.catalog.Behind() > a.maxBehind {
		return unavailable(nil, "The configuration is being read; nothing was accepted.")
	}
	return nil
}

func (a *acceptor) approved(_ *draft, s submission) error {
	if s.caller.Key.Environment == events.Live && !s.caller.Project.ProductionApproved {
		return events.Errorf(CodeProjectNotApproved, "This project is not approved for production; use a TEST key.")
	}
	return nil
}

func (a *acceptor) body(d *draft, s submission) (err error) {
	if s.bodyErr != nil {
		return s.bodyErr
	}
	var f faults
	d.order, f = readSend(s.body, a.maxDepth, d.now)
	if s.keyRule != "" {
		f.add(idempotency.Header, s.keyRule)
	}
	if len(f) > 0 {
		return faultsError(f)
	}
	if err := d.order.unsupported(); err != nil {
		return err
	}
	// Without a key it is the same API key that makes it the same request, whatever the route.
	scope := []string{"key", s.caller.Key.ID}
	if s.key != "" {
		scope = []string{"project", s.caller.Key.ProjectID}
	}
	if d.fingerprint, err = idempotency.Fingerprint(scope, d.order.members); err != nil {
		return internal(err)
	}
	return nil
}

// inTime refuses a window that is over. It goes after the look-up: a repeat may come later than the window of the first
// request, and is answered as that was.
func (a *acceptor) inTime(d *draft, _ submission) error {
	if len(d.order.late) > 0 {
		return faultsError(d.order.late)
	}
	return nil
}

func (a *acceptor) destination(d *draft, _ submission) (err error) {
	switch recipient.KindOf(d.order.DestinationNumber) {
	case recipient.KindGroup:
		return errGroup()
	case recipient.KindNewsletter:
		return errNewsletter()
	default:
	}
	if d.to, err = recipient.Parse(d.order.DestinationNumber); err != nil {
		return faultsError(faults{{Field: "destinationNumber", Rule: string(recipient.RuleOf(err))}})
	}
	return nil
}

// templates finds the version to send and renders it; free text was rendered with the body.
func (a *acceptor) templates(d *draft, s submission) error {
	if d.order.freeText() {
		d.category, d.content = d.order.category, d.order.content
		return nil
	}
	found, elsewhere := false, false
	a.catalog.Read(func(c *catalog.Catalog) {
		d.template, found = c.Template(s.caller.Key.ProjectID, d.order.TemplateID)
		other, ok := c.TemplateByID(d.order.TemplateID)
		elsewhere = ok && other.TenantID == s.caller.Key.TenantID
	})
	switch {
	case found && d.template.TenantID == s.caller.Key.TenantID:
	case elsewhere: // of another tenant nothing is told
		return events.Errorf(events.CodeOtherProject, "The template belongs to another project of this account.")
	default:
		return events.Errorf(events.CodeTemplateNotFound, "There is no template of this id or name in this project.")
	}
	production := s.caller.Key.Environment == events.Live
	if d.version, found = catalog.LatestApproved(d.template, production); !found {
		if _, test := catalog.LatestApproved(d.template, false); test {
			return events.Errorf(events.CodeNotForProduction, "The template has no version approved for production; a TEST key sends it.")
		}
		return events.Errorf(events.CodeNotApproved, "The template has no approved version.")
	}
	structure, err := template.Parse(d.version.Structure)
	if err != nil {
		return internal(err)
	}
	d.category = d.template.Category
	d.content, err = template.Render(structure, d.order.Variables)
	return renderError(err)
}

// renderError shows why values do not fit a template. Keys are those of the template, not of the request.
func renderError(err error) error {
	var values *template.ValuesError
	var broken template.Faults
	switch {
	case err == nil:
		return nil
	case errors.As(err, &values) && len(values.Report.Missing) > 0:
		e := events.Errorf(events.CodeMissingVariables, "Every variable of the template needs a value.").
			WithDetails("missingKeys", values.Report.Missing)
		if len(values.Report.Invalid) > 0 {
			e = e.WithDetails("invalidKeys", values.Report.Invalid)
		}
		return e
	case errors.As(err, &values):
		return events.Errorf(events.CodeInvalidVariable, "Every value must be a string that shows something.").
			WithDetails("invalidKeys", values.Report.Invalid)
	case asFaults(err, &broken):
		var f faults
		for _, b := range broken {
			f.add("variables", string(b.Rule))
		}
		return faultsError(f)
	default:
		return err
	}
}

func asFaults(err error, target *template.Faults) bool { return errors.As(err, target) }

// instance is the key's own, else the shared default.
func (a *acceptor) instance(d *draft, s submission) error {
	key, found := s.caller.Key, false
	a.catalog.Read(func(c *catalog.Catalog) {
		d.partitions = c.Deployment.Partitions
		if key.InstanceID != "" {
			d.instance, found = c.Instance(key.InstanceID)
		} else {
			d.instance, found = c.SharedInstance()
		}
	})
	d.own = d.instance.TenantID == key.TenantID && !d.instance.Shared
	if !found || !d.own && !d.instance.Shared || d.partitions < 1 {
		return events.Errorf(events.CodeNoInstance, "There is no number to send from; nothing was accepted.")
	}
	return nil
}

func (a *acceptor) ownNumber(d *draft, _ submission) error {
	switch {
	case d.own:
		return nil
	case d.order.freeText():
		return events.Errorf(events.CodeFreeTextOwnNumber, "Free text is sent from a number of your own only; use a template.")
	case d.category == events.Marketing:
		return events.Errorf(events.CodeMarketingOwnNumber, "MARKETING is sent from a number of your own only.")
	}
	return nil
}

// append seals the personal part and puts the message on disk.
func (a *acceptor) append(ctx context.Context, d draft, s submission) (accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if err := a.expect(ctx, &d); err != nil {
		return accepted{}, err
	}
	key := s.caller.Key
	p := events.PartitionOf(d.instance.ID, d.partitions)
	id := events.MessageID(a.newID(), p)
	hash := d.recipientHash
	sealed, err := a.seal(ctx, d, s, id)
	if err != nil {
		return accepted{}, err
	}
	place, err := a.reserve(ctx, d, s)
	if err != nil {
		return accepted{}, err
	}
	m := accepted{
		lane: events.Lane{
			Instance: d.instance.ID, Class: events.ClassOf(d.category, d.order.Urgent), Tenant: key.TenantID,
			Slot: slot(hash, d.instance.MaxConcurrency),
		},
		queued: &events.MessageQueued{
			Project: key.ProjectID, Environment: key.Environment, KeyID: key.ID, Category: d.category, Urgent: d.order.Urgent,
			TemplateID: d.template.ID, TemplateVersion: d.version.Version, Origin: origin(d.instance),
			SourceNumber: d.instance.Number, CorrelationID: correlationID(a.newID(), p), RecipientHash: hash,
			RetentionDays: s.caller.retentionDays(), Labels: d.order.Labels, Sealed: sealed, QuotaWindows: place.Names(),
		},
	}
	m.event = events.Event{
		Envelope: events.Envelope{
			ID: id, Type: events.TypeMessageQueued, Source: "pilot/api", Time: d.now, Subject: id, TenantID: key.TenantID,
			DeliverAt: d.order.deliverAt, DeliverUntil: d.order.until(d.category, d.now), TraceParent: s.trace,
		},
		Address: events.QueuedSubject(p, m.lane),
		Body:    m.queued,
	}
	m.id, m.response = id, queuedMessage(m.event, m.queued)
	if !d.expected.IsZero() {
		m.response.ExpectedDispatchAt = stamp(d.expected)
	}
	return a.put(ctx, d, m, place)
}

// put claims the request's key, appends, and marks the claim. What is certain not to be in the log gives its place back.
func (a *acceptor) put(ctx context.Context, d draft, m accepted, place Reservation) (accepted, error) {
	claim, faster, err := a.claim(ctx, &d, m)
	switch {
	case err != nil:
		if events.CodeOf(err) != events.CodeUnavailable { // else the claim may stand, and a repeat append what it holds
			place.GiveBack(ctx)
		}
		return accepted{}, err
	case faster != nil:
		place.GiveBack(ctx)
		return *faster, nil
	}
	sequence, err := a.log.Append(ctx, m.event)
	if err == nil {
		failpoint.Hit("api.before_answer")
		m.position = events.Position{Partition: events.PartitionOf(m.lane.Instance, d.partitions), Sequence: sequence}
		a.done(ctx, d.slot, claim)
		return m, nil
	}
	err = appendError(err)
	switch {
	case events.CodeOf(err) != events.CodeUnavailable:
		place.GiveBack(ctx)
		a.released(ctx, d.slot)
	case d.slot.name == "":
		a.keep(ctx, claim)
	}
	return accepted{}, err
}

func (a *acceptor) seal(ctx context.Context, d draft, s submission, id string) (events.Sealed, error) {
	text := d.content.Text()
	plain, err := json.Marshal(events.Payload{
		Destination: d.to.Given(), Digits: d.to.Digits(), Content: d.content,
		// A preview makes the gateway fetch the link before it sends: a code does not wait for that.
		LinkPreview: d.category != events.OTP && (strings.Contains(text, "https://") || strings.Contains(text, "http://")),
	})
	if err != nil {
		return events.Sealed{}, internal(err)
	}
	key := s.caller.Key
	keyID := events.DataKeyID(id, key.ProjectID, s.caller.retentionDays(), d.now)
	sealed, err := a.keyring.Seal(ctx, key.TenantID, keyID, a.aad(key.TenantID, id, events.FieldPayload), plain)
	if err != nil {
		return events.Sealed{}, outage(err, "Nothing was accepted; try again.")
	}
	return sealed, nil
}
