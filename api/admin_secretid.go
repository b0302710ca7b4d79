package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
)

// SecretIDView is an API key with its secret id, which is shown this once.
type SecretIDView struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	KeyView
	SecretID string `json:"secretId" doc:"For the header x-api-key-id, 128 bits of chance. It is not kept and cannot be shown again."`
}

// registerSecretID lets operators switch x-api-key-id on and off for one key.
func (a *API) registerSecretID(n noun[events.Key, KeySettings, KeyView]) {
	on := a.adminOperation(http.MethodPost, adminPrefix+n.path+"/{id}/secret-id", "enable", "keySecretId", n.path, n.scope, events.CodeNotFound)
	on.DefaultStatus = http.StatusCreated
	on.Description += " Lets the header x-api-key-id alone authenticate as the key, with a new secret id; an earlier one ends."
	huma.Register(a.huma, on, func(ctx context.Context, in *bareInput) (*entityOutput[SecretIDView], error) {
		var b [minSecretID / 2]byte
		_, _ = rand.Read(b[:]) // never fails
		id := hex.EncodeToString(b[:])
		digest := sha256.Sum256([]byte(id))
		out, err := act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(k events.Key) (events.Key, error) {
			k.SecretIDHash = hex.EncodeToString(digest[:])
			return k, nil
		})
		if err != nil {
			return nil, err
		}
		return &entityOutput[SecretIDView]{ETag: out.ETag, Location: out.Location, Body: SecretIDView{KeyView: out.Body, SecretID: id}}, nil
	})
	off := a.adminOperation(http.MethodDelete, adminPrefix+n.path+"/{id}/secret-id", "disable", "keySecretId", n.path, n.scope, events.CodeNotFound)
	off.Description += " Then x-api-key-id does not authenticate as the key, everywhere within 5 s."
	huma.Register(a.huma, off, func(ctx context.Context, in *bareInput) (*entityOutput[KeyView], error) {
		return act(ctx, a, n, in.ID, in.IfMatch, in.Reason, func(k events.Key) (events.Key, error) {
			k.SecretIDHash = ""
			return k, nil
		})
	})
}
