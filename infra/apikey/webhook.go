package apikey

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Length of a webhook secret in bytes, as the Standard Webhooks specification bounds it, and ours.
const (
	MinWebhookSecret     = 24
	MaxWebhookSecret     = 64
	DefaultWebhookSecret = 32

	webhookPrefix = "whsec_"
)

// ErrMalformedSecret says that a text is no webhook secret. It never repeats it.
var ErrMalformedSecret = errors.New("malformed webhook secret: want whsec_ and the base64 of 24 to 64 bytes")

// WebhookSecret makes a secret of the Standard Webhooks specification (symmetric signatures): `whsec_` and the base64
// of size random bytes, 24 to 64. random is crypto/rand.Reader outside tests.
func WebhookSecret(random io.Reader, size int) (string, error) {
	if size < MinWebhookSecret || size > MaxWebhookSecret {
		return "", fmt.Errorf("generate webhook secret: %d bytes, want %d to %d", size, MinWebhookSecret, MaxWebhookSecret)
	}
	secret := make([]byte, size)
	if _, err := io.ReadFull(random, secret); err != nil {
		return "", fmt.Errorf("generate webhook secret: %w", err)
	}
	return webhookPrefix + base64.StdEncoding.EncodeToString(secret), nil
}

// ParseWebhookSecret gives the bytes that sign.
func ParseWebhookSecret(secret string) ([]byte, error) {
	text, found := strings.CutPrefix(secret, webhookPrefix)
	if !found {
		return nil, ErrMalformedSecret
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < MinWebhookSecret || len(raw) > MaxWebhookSecret {
		return nil, ErrMalformedSecret
	}
	return raw, nil
}
