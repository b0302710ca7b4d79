package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/recipient"
)

// numberPurpose is the purpose of the keyed hash of a canonical number, the same for opt-ins, limits and messages.
const numberPurpose = "recipient"

// fieldNumber names a sealed number in the associated data: tenant, hash and field.
const fieldNumber = "number"

// NumberInput is a telephone number of a person.
type NumberInput struct {
	Number string `json:"number" example:"+5511987654321" doc:"International number, E.164 with '+', or the same digits without it."`
}

// ProfileNumber is a number that a tenant may send to in TEST.
type ProfileNumber struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	ID     string `json:"id" doc:"Keyed hash of the number."`
	Number string `json:"number" example:"+55******21" doc:"Masked; empty when it can no longer be read."`
}

type profileNumbers struct {
	Data []ProfileNumber `json:"data"`
}

type (
	profileNumbersOutput struct {
		ETag string `header:"ETag" doc:"The tenant's version."`
		Body profileNumbers
	}
	profileNumberOutput struct {
		ETag string `header:"ETag" doc:"The tenant's version."`
		Body ProfileNumber
	}
	dropNumberInput struct {
		Reasoned
		ID     string `path:"id" maxLength:"64"`
		Number string `path:"number" maxLength:"64" doc:"Its id."`
	}
)

func (a *API) registerAdminNumbers() {
	base, tag := adminPrefix+"tenants/{id}/profile-numbers", "tenants"
	huma.Register(a.huma, a.adminOperation(http.MethodGet, base, "list", "profileNumbers", tag, events.OperatorRead, events.CodeNotFound), a.listNumbers)
	add := a.adminOperation(http.MethodPost, base, "add", "profileNumber", tag, events.OperatorWrite, events.CodeNotFound)
	add.DefaultStatus = http.StatusCreated
	add.Description += " Kept as a keyed hash, and sealed under a key of its own."
	huma.Register(a.huma, add, a.addNumber)
	drop := a.adminOperation(http.MethodDelete, base+"/{number}", "remove", "profileNumber", tag, events.OperatorWrite, events.CodeNotFound)
	drop.DefaultStatus = statusNoContent
	drop.Description += " Its key is erased, so that no history shows it any more. After a 503 repeat it."
	huma.Register(a.huma, drop, a.dropNumber)
}

// numberKeyID names the data key that seals one number of a tenant.
func numberKeyID(hash string) string { return "n-" + hash }

func (a *API) listNumbers(ctx context.Context, in *entityInput) (*profileNumbersOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	t, version, found := findEntity(a.ports.Catalog, tenantEntity(), in.ID)
	if !found {
		return nil, errNoEntity()
	}
	out := &profileNumbersOutput{ETag: etag(version), Body: profileNumbers{Data: []ProfileNumber{}}}
	for _, n := range t.ProfileNumbers {
		masked, err := a.masked(ctx, t.ID, n)
		if err != nil {
			return nil, err
		}
		out.Body.Data = append(out.Body.Data, ProfileNumber{ID: n.Hash, Number: masked})
	}
	return out, nil
}

// masked opens a number and shows what cannot be called; empty when its key died.
func (a *API) masked(ctx context.Context, tenant string, n events.PersonalNumber) (string, error) {
	plain, err := a.ports.Keyring.Open(ctx, tenant, n.Sealed, a.ports.AAD(tenant, n.Hash, fieldNumber))
	if errors.Is(err, ErrKeyMissing) {
		return "", nil
	}
	if err != nil {
		return "", outage(err, "Numbers cannot be read right now.")
	}
	r, err := recipient.Parse(string(plain))
	if err != nil {
		return "", internal(err)
	}
	return r.Masked(), nil
}

// hashNumber parses a number of a request and gives its keyed hash in a tenant.
func (a *API) hashNumber(ctx context.Context, tenant, field, number string) (recipient.Recipient, string, error) {
	r, err := recipient.Parse(number)
	if err != nil {
		return r, "", faultsError(faults{{Field: field, Rule: string(recipient.RuleOf(err))}})
	}
	hash, err := a.ports.Hasher.Hash(ctx, tenant, numberPurpose, []byte(r.Canonical()))
	if err != nil {
		return r, "", outage(err, "Nothing was changed; try again.")
	}
	return r, hash, nil
}

func (a *API) addNumber(ctx context.Context, in *actInput[NumberInput]) (*profileNumberOutput, error) {
	if _, _, found := findEntity(a.ports.Catalog, tenantEntity(), in.ID); !found {
		return nil, errNoEntity()
	}
	sealing, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	r, hash, err := a.hashNumber(sealing, in.ID, "number", in.Body.Number)
	if err != nil {
		return nil, err
	}
	sealed, err := a.ports.Keyring.Seal(sealing, in.ID, numberKeyID(hash), a.ports.AAD(in.ID, hash, fieldNumber), []byte(r.E164()))
	if err != nil {
		return nil, outage(err, "Nothing was changed; try again.")
	}
	out, err := act(ctx, a, a.tenants(), in.ID, in.IfMatch, in.Reason, func(t events.Tenant) (events.Tenant, error) {
		t.ProfileNumbers = append(slices.Clone(t.ProfileNumbers), events.PersonalNumber{Hash: hash, Sealed: sealed})
		if slices.ContainsFunc(t.ProfileNumbers[:len(t.ProfileNumbers)-1], func(n events.PersonalNumber) bool { return n.Hash == hash }) {
			return t, events.Errorf(CodeAlreadyExists, "The tenant has this number.")
		}
		return t, nil
	})
	if err != nil {
		return nil, err
	}
	return &profileNumberOutput{ETag: out.ETag, Body: ProfileNumber{ID: hash, Number: r.Masked()}}, nil
}

func (a *API) dropNumber(ctx context.Context, in *dropNumberInput) (*struct{}, error) {
	has := func(n events.PersonalNumber) bool { return n.Hash == in.Number }
	_, err := act(ctx, a, a.tenants(), in.ID, "", in.Reason, func(t events.Tenant) (events.Tenant, error) {
		if !slices.ContainsFunc(t.ProfileNumbers, has) {
			return t, errNoEntity()
		}
		t.ProfileNumbers = slices.DeleteFunc(slices.Clone(t.ProfileNumbers), has)
		return t, nil
	})
	if code := events.CodeOf(err); code != "" && code != events.CodeNotFound {
		return nil, err
	}
	if _, _, found := findEntity(a.ports.Catalog, tenantEntity(), in.ID); !found || !hexadecimal(in.Number) {
		return nil, errNoEntity()
	}
	// Also when it was removed before: that time the key may not have been reached.
	erasing, cancel := context.WithTimeout(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	if gone := a.ports.Eraser.Erase(erasing, in.ID, numberKeyID(in.Number)); gone != nil {
		return nil, outage(gone, "The number was removed, its key was not erased yet: repeat the request.")
	}
	return nil, err
}

func hexadecimal(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == 64
}
