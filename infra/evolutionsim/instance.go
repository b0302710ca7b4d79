package evolutionsim

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Instance describes an instance to simulate.
type Instance struct {
	Name     string   `json:"name"`
	Token    string   `json:"token"`              // its own key; made up when empty
	Number   string   `json:"number"`             // digits of the paired account; empty: never paired
	State    string   `json:"state"`              // open, connecting or close; open when paired, else close
	Unloaded bool     `json:"unloaded"`           // in the gateway's database, not in its memory
	Webhook  *Webhook `json:"webhook,omitempty"`  // as set by webhook/set
	Missing  []string `json:"missing,omitempty"`  // digits, each in one spelling, that are not on WhatsApp
	Accounts []string `json:"accounts,omitempty"` // digits of accounts whose spelling differs from the one the gateway looks up
	// LIDs are WhatsApp's other names of accounts, by digits as the gateway spells them: the number check tells them.
	LIDs map[string]string `json:"lids,omitempty"`
}

// Webhook is where an instance's events go.
type Webhook struct {
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Enabled  bool              `json:"enabled"`
	ByEvents bool              `json:"byEvents"`
	Events   []string          `json:"events"` // empty: all
}

// Change alters a running instance. Nil fields stay.
type Change struct {
	State    *string `json:"state,omitempty"` // a lost connection posts no webhook for close, as the real one
	Unloaded *bool   `json:"unloaded,omitempty"`
	// Reason makes State close a terminal one (401 logged out, 403 banned): with it the three webhooks of an end are posted.
	Reason  int      `json:"reason,omitempty"`
	Missing []string `json:"missing,omitempty"` // replaces, when not nil
}

// The states of an instance's connection.
const (
	stateOpen       = "open"
	stateConnecting = "connecting"
	stateClose      = "close"
)

type instance struct {
	id, name, token string
	created         time.Time
	store           *store
	lids            map[string]string
	sending         chan struct{} // the gateway sends one message of an account at a time
	inFlight        atomic.Int64  // sends under way, as a client sees them

	mu      sync.Mutex
	number  string // of the account; empty: never paired
	state   string
	loaded  bool
	socket  bool // a connection was tried since the instance was made
	codes   int  // QR codes given
	webhook *Webhook
	missing map[string]bool
	account map[string]string // the looked-up spelling → the account's
}

// AddInstance adds an instance, or replaces the one of that name with its messages.
func (s *Server) AddInstance(c Instance) error {
	if c.Name == "" || strings.Contains(c.Name, "/") {
		return errors.New("add instance: it needs a name without a slash")
	}
	if c.State == "" {
		c.State = stateClose
		if c.Number != "" {
			c.State = stateOpen
		}
	}
	if !validState(c.State) {
		return fmt.Errorf("add instance: unknown state %q", c.State)
	}
	i := s.newInstance(c.Name, c.Token)
	i.number, i.state, i.loaded, i.webhook = c.Number, c.State, !c.Unloaded, c.Webhook
	i.socket = c.Number != "" || c.State != stateClose
	i.missing, i.lids = setOf(c.Missing), maps.Clone(c.LIDs)
	for _, account := range c.Accounts {
		for _, spelling := range spellings(account) {
			for _, asked := range []string{spelling, jidUser(createJID(spelling))} { // a full jid is looked up as it is
				if asked != account {
					i.account[asked] = account
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances[c.Name] = i
	return nil
}

func (s *Server) newInstance(name, token string) *instance {
	if token == "" {
		token = strings.ToUpper(uuid.NewString())
	}
	return &instance{
		id: uuid.NewString(), name: name, token: token, created: time.Now(), state: stateClose, loaded: true,
		store: newStore(s.options.MessageCap), sending: make(chan struct{}, 1), account: map[string]string{}, missing: map[string]bool{},
	}
}

func (s *Server) instance(name string) *instance {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.instances[name]
}

// ChangeInstance alters an instance and posts the webhooks of the change.
func (s *Server) ChangeInstance(name string, c Change) error {
	i := s.instance(name)
	if i == nil {
		return fmt.Errorf("change instance: no instance %q", name)
	}
	if c.State != nil && !validState(*c.State) {
		return fmt.Errorf("change instance: unknown state %q", *c.State)
	}
	i.mu.Lock()
	if c.Unloaded != nil {
		i.loaded = !*c.Unloaded
	}
	if c.Missing != nil {
		i.missing = setOf(c.Missing)
	}
	if c.State != nil {
		i.state, i.socket = *c.State, true
	}
	i.mu.Unlock()
	if c.State != nil {
		s.emitState(i, *c.State, c.Reason)
	}
	return nil
}

// removeInstance forgets an instance.
func (s *Server) removeInstance(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.instances, name)
}

func validState(state string) bool {
	return state == stateOpen || state == stateConnecting || state == stateClose
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

// view is a consistent copy of what decides an answer.
type view struct {
	state          string
	loaded, socket bool
	paired         bool
}

func (i *instance) view() view {
	i.mu.Lock()
	defer i.mu.Unlock()
	return view{state: i.state, loaded: i.loaded, socket: i.socket, paired: i.number != ""}
}

// keyID makes an id as Baileys does: 3EB0 and 18 hex digits.
func keyID() string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	return "3EB0" + strings.ToUpper(hex.EncodeToString(b[:]))
}

var rowCounter atomic.Uint64

// rowID makes an id that looks like those of the gateway's database.
func rowID() string { return fmt.Sprintf("cmx1u%020x", rowCounter.Add(1)) }
