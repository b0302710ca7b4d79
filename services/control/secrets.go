package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/keyring"
)

// Sealer seals under data keys.
type Sealer interface {
	Seal(ctx context.Context, tenant, keyID string, aad, plaintext []byte) (events.Sealed, error)
	Open(ctx context.Context, tenant string, s events.Sealed, aad []byte) ([]byte, error)
}

// Secrets seals the secrets in CONTROL: gateway keys, ingress secrets and endpoint secrets. All of them belong to the platform
// and are bound to the id of their entity, so none can be moved to another.
type Secrets struct{ sealer Sealer }

// NewSecrets makes Secrets over a keyring.
func NewSecrets(s Sealer) Secrets { return Secrets{s} }

// Seal seals the secret of an entity.
func (s Secrets) Seal(ctx context.Context, entity string, secret []byte) (events.Sealed, error) {
	sealed, err := s.sealer.Seal(ctx, events.PlatformTenant, events.SecretsKeyID, place(entity), secret)
	if err != nil {
		return events.Sealed{}, fmt.Errorf("seal secret: %w", err)
	}
	return sealed, nil
}

// Open reads what Seal sealed for the same entity.
func (s Secrets) Open(ctx context.Context, entity string, sealed events.Sealed) ([]byte, error) {
	secret, err := s.sealer.Open(ctx, events.PlatformTenant, sealed, place(entity))
	if err != nil {
		return nil, fmt.Errorf("open secret: %w", err)
	}
	return secret, nil
}

func place(entity string) []byte {
	return keyring.AAD(events.PlatformTenant, entity, events.FieldSecret)
}

// Ingress is what a gateway must present to hand in what it has to say about one instance.
type Ingress struct{ events.IngressSecret }

// Admits compares a presented secret with the valid ones, in constant time. An empty secret admits nobody.
func (i Ingress) Admits(secret string) bool {
	admitted := false
	for _, valid := range []string{i.Secret, i.Previous} {
		admitted = (equal(valid, secret) && valid != "") || admitted
	}
	return admitted
}

func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// Rotated gives the ingress with a new secret, the old one still admitted.
func (i Ingress) Rotated(secret string) Ingress {
	i.Previous, i.Secret = i.Secret, secret
	return i
}

// SealIngress gives the instance with its ingress sealed and its path token's hash set.
func (s Secrets) SealIngress(ctx context.Context, in events.Instance, ingress Ingress) (events.Instance, error) {
	text, err := json.Marshal(ingress)
	if err != nil {
		return events.Instance{}, fmt.Errorf("encode ingress: %w", err)
	}
	if in.Ingress, err = s.Seal(ctx, in.ID, text); err != nil {
		return events.Instance{}, err
	}
	in.IngressHash = HashToken(ingress.Token)
	return in, nil
}

// Ingress opens the ingress of an instance.
func (s Secrets) Ingress(ctx context.Context, in events.Instance) (Ingress, error) {
	text, err := s.Open(ctx, in.ID, in.Ingress)
	if err != nil {
		return Ingress{}, err
	}
	var out Ingress
	if err := json.Unmarshal(text, &out); err != nil {
		return Ingress{}, fmt.Errorf("read ingress of %s: %w", in.ID, err)
	}
	return out, nil
}

// HashToken gives the form in which a path token is kept and looked up: hex SHA-256.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
