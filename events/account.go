package events

import "time"

// Kinds of entities that say what a customer may do, and who may say so.
const (
	KindPlan     = "plan"
	KindPackage  = "package"
	KindOptIn    = "optin"
	KindOptOut   = "optout"
	KindOperator = "operator"
	KindPlatform = "platform"
)

// PlatformID is the id of the one entity of KindPlatform.
const PlatformID = "platform"

// Plan is what a tenant may send. A limit of 0 is none.
type Plan struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Month   int     `json:"month,omitempty"`   // LIVE messages in a month of the tenant's time zone, packages added
	Day     int     `json:"day,omitempty"`     // LIVE messages in a day
	TestDay int     `json:"testDay,omitempty"` // TEST messages in a day; those to a profile number do not count
	Rate    float64 `json:"rate,omitempty"`    // requests in a second of one API key; 0 takes the default of the process
	Burst   int     `json:"burst,omitempty"`   // requests at once
	Weight  int     `json:"weight,omitempty"`  // share of a shared instance beside other tenants; 0 is 1
}

// Package adds LIVE messages to the month of a tenant.
type Package struct {
	ID       string `json:"id"`
	TenantID string `json:"tenantId"`
	Messages int    `json:"messages"`
	From     string `json:"from"`            // first month it adds to, as "2026-11"
	Until    string `json:"until,omitempty"` // last month; empty is for ever
}

// PersonalNumber is somebody's number in CONTROL: comparable inside its tenant, readable only while its data key lives.
type PersonalNumber struct {
	Hash   string `json:"hash"` // keyed hash of the canonical number, as MessageQueued.RecipientHash
	Sealed Sealed `json:"sealed"`
}

// Sources of an opt-in or opt-out.
const (
	SourceInbound  = "inbound"  // the contact wrote it to the shared number
	SourceOperator = "operator" // an operator recorded it
	SourceImport   = "import"   // it came from another system
	SourceCustomer = "customer" // the tenant recorded it
)

// OptIn is the consent of a contact to get messages of a project from the shared number. Its id is that of OptInID.
type OptIn struct {
	ID            string    `json:"id"`
	TenantID      string    `json:"tenantId"`
	ProjectID     string    `json:"projectId"`
	RecipientHash string    `json:"recipientHash"` // keyed hash of the canonical number
	Source        string    `json:"source"`
	FirstAt       time.Time `json:"firstAt"`
	LastAt        time.Time `json:"lastAt"` // not moved more often than once a day
}

// OptOut is the wish of a contact to get nothing more of a tenant; it stands above every opt-in. Its id is that of OptOutID.
type OptOut struct {
	ID            string    `json:"id"`
	TenantID      string    `json:"tenantId"`
	RecipientHash string    `json:"recipientHash"`
	Source        string    `json:"source"`
	At            time.Time `json:"at"`
}

// OptInID is the id of the opt-in of a contact to a project.
func OptInID(project, recipientHash string) string { return hashedID("optin", project, recipientHash) }

// OptOutID is the id of the opt-out of a contact from a tenant.
func OptOutID(tenant, recipientHash string) string { return hashedID("optout", tenant, recipientHash) }

// Scopes of operators.
const (
	OperatorRead  = "read"  // look at everything of the control plane, personal data excepted
	OperatorWrite = "write" // define and remove
	OperatorKeys  = "keys"  // make and revoke keys of customers and operators
	OperatorSend  = "send"  // pause, resume, cancel, stop, retry
)

// OperatorScopes lists the scopes.
func OperatorScopes() []string {
	return []string{OperatorRead, OperatorWrite, OperatorKeys, OperatorSend}
}

// Operator is a key of a person of the platform for /v1/admin; only the SHA-256 of the whole key is kept.
type Operator struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"` // of the person; stands as the author of what is changed with it
	PublicID  string    `json:"publicId"`
	SHA256    string    `json:"sha256"`
	Scopes    []string  `json:"scopes"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	CreatedAt time.Time `json:"createdAt"`
}

// Platform holds what is set for all tenants.
type Platform struct {
	// Stopped refuses sends of all tenants and holds what is queued, until an operator says otherwise.
	Stopped bool `json:"stopped,omitempty"`
	// OptInRequired asks for an opt-in of each destination of a UTILITY message from the shared number in LIVE.
	OptInRequired bool `json:"optInRequired,omitempty"`
	// RecipientLimit is how many messages of one tenant a recipient may be sent in an hour, against OTP bombing; 0 is no limit.
	RecipientLimit int `json:"recipientLimit,omitempty"`
	// PlanID is the plan of tenants that name none; empty is without limits.
	PlanID string `json:"planId,omitempty"`
}
