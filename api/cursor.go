package api

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Purposes of keyed hashes.
const (
	purposeRecipient = "recipient" // of the canonical number: filters compare it, slots are made from it
	purposeCursor    = "cursor"
)

// macBytes of a cursor: enough that nobody guesses one.
const macBytes = 16

// A cursor is base64url of a mac of fixed length and the place: microseconds since 1970, ".", message id. The mac is a keyed hash
// of scope, filters and place under a key of the tenant's that lies in the keyring: it holds in every process and after a
// rebuild, and for nobody else and no other filters.
func (a *API) cursor(ctx context.Context, q listQuery, last ListPlace) (string, error) {
	place := strconv.FormatInt(last.CreatedAt.UnixMicro(), 10) + "." + last.ID
	mac, err := a.cursorMAC(ctx, q, place)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(mac, place...)), nil
}

// openCursor gives the place of a cursor that cursor made for the same caller and filters.
func (a *API) openCursor(ctx context.Context, q listQuery, cursor string) (ListPlace, error) {
	wrong := faultsError(faults{{Field: "cursor", Rule: ruleInvalid}})
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) <= macBytes {
		return ListPlace{}, wrong
	}
	given, place := raw[:macBytes], string(raw[macBytes:])
	mac, err := a.cursorMAC(ctx, q, place)
	if err != nil {
		return ListPlace{}, err
	}
	if subtle.ConstantTimeCompare(mac, given) != 1 {
		return ListPlace{}, wrong
	}
	return parsePlace(place)
}

func parsePlace(s string) (ListPlace, error) {
	text, id, found := strings.Cut(s, ".")
	micro, err := strconv.ParseInt(text, 10, 64)
	if !found || err != nil { // the mac is right: we made it
		return ListPlace{}, internal(errors.New("a cursor of ours does not read"))
	}
	return ListPlace{CreatedAt: time.UnixMicro(micro).UTC(), ID: id}, nil
}

func (a *API) cursorMAC(ctx context.Context, q listQuery, place string) ([]byte, error) {
	data, err := json.Marshal([]any{"messages", q.scope, q.filter, place})
	if err != nil {
		return nil, internal(err)
	}
	hash, err := a.ports.Hasher.Hash(ctx, q.scope.Tenant, purposeCursor, data)
	if err != nil {
		return nil, outage(err, "Messages cannot be read right now; sending goes on.")
	}
	mac, err := hex.DecodeString(hash)
	if err != nil || len(mac) < macBytes {
		return nil, internal(errors.New("a keyed hash is too short"))
	}
	return mac[:macBytes], nil
}
