package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/events/recipient"
)

// define records an entity in a catalog.
func define[T any](c *catalog.Catalog, kind, id string, value T) {
	c.Apply(events.Recorded{
		Event: events.Event{
			Envelope: events.Envelope{Type: events.DefinedType(kind)},
			Address:  events.ControlSubject(kind, id),
			Body:     &events.Defined[T]{By: "test", Value: value},
		},
		Position: events.Position{Sequence: c.Sequence + 1},
		Known:    true,
	})
}

func key(raw, tenant, project string, env events.Environment, change ...func(*events.Key)) events.Key {
	sum := sha256.Sum256([]byte(raw))
	k := events.Key{
		ID: "key-" + raw[8:12], TenantID: tenant, ProjectID: project, Environment: env, PublicID: raw[8:16],
		SHA256: hex.EncodeToString(sum[:]), CreatedAt: clock,
	}
	for _, f := range change {
		f(&k)
	}
	return k
}

func bound(instance string) func(*events.Key) { return func(k *events.Key) { k.InstanceID = instance } }

func version(n int, production bool, structure string) events.TemplateVersion {
	return events.TemplateVersion{
		Version: n, Structure: json.RawMessage(structure), State: events.TemplateApproved, ApprovedForProduction: production,
	}
}

// hashOf is the keyed hash of a recipient as the fake hasher makes it.
func hashOf(tenant, number string) string {
	to, err := recipient.Parse(number)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256([]byte(tenant + "|" + purposeRecipient + "|" + to.Canonical()))
	return hex.EncodeToString(sum[:])
}

// testCatalog has tenant acme (own and shared numbers, TEST and LIVE keys), tenant rival, and a suspended one.
func testCatalog() *catalog.Catalog {
	c := catalog.New()
	define(c, events.KindDeployment, "deployment", events.Deployment{Partitions: 4})
	define(c, events.KindTenant, "acme", events.Tenant{
		ID: "acme", ProfileNumbers: []events.PersonalNumber{{Hash: hashOf("acme", canaryNumber), Sealed: events.Sealed{KeyID: "n-1", Blob: []byte("sealed")}}},
	})
	define(c, events.KindTenant, "rival", events.Tenant{ID: "rival"})
	define(c, events.KindTenant, "late", events.Tenant{ID: "late", Suspended: true})
	for _, p := range []events.Project{
		{ID: "shop", TenantID: "acme", ProductionApproved: true, RetentionDays: 30},
		{ID: "draft", TenantID: "acme"},
		{ID: "rivals", TenantID: "rival", ProductionApproved: true},
		{ID: "lates", TenantID: "late", ProductionApproved: true},
	} {
		define(c, events.KindProject, p.ID, p)
	}
	old := key(importedKey, "acme", "shop", events.Live)
	old.PublicID = ImportedPublicID(importedKey)
	for _, k := range []events.Key{
		key(liveKey, "acme", "shop", events.Live),
		key(testKey, "acme", "shop", events.Test),
		key(ownKey, "acme", "shop", events.Live, bound("own"), func(k *events.Key) { k.RetentionDays = new(int) }),
		key(otherKey, "rival", "rivals", events.Live),
		key(rawProject, "acme", "draft", events.Live),
		key(revokedKey, "acme", "shop", events.Live, func(k *events.Key) { k.RevokedAt = clock }),
		key(expiredKey, "acme", "shop", events.Live, func(k *events.Key) { k.ExpiresAt = clock }),
		key(pausedKey, "late", "lates", events.Live),
		key(strayKey, "rival", "rivals", events.Live, bound("own")),
		old,
	} {
		define(c, events.KindKey, k.ID, k)
	}
	for _, t := range []events.Template{
		{
			ID: "t-note", ProjectID: "shop", Name: "generic_notification", Category: events.Utility,
			Versions: []events.TemplateVersion{
				version(1, true, `{"body":{"text":"Hi {{name}}: {{message}}!"},"footer":{"text":"Acme"}}`),
				version(2, false, `{"body":{"text":"TEST {{message}} only."}}`),
			},
		},
		{ID: "t-code", ProjectID: "shop", Name: "code", Category: events.OTP, Versions: []events.TemplateVersion{version(1, true, `"Your code is {{code}}."`)}},
		{ID: "t-sale", ProjectID: "shop", Name: "sale", Category: events.Marketing, Versions: []events.TemplateVersion{version(1, true, `"Sale: {{what}}."`)}},
		{ID: "t-new", ProjectID: "shop", Name: "new", Category: events.Utility, Versions: []events.TemplateVersion{version(1, false, `"New."`)}},
		{ID: "t-broken", ProjectID: "shop", Name: "broken", Category: events.Utility, Versions: []events.TemplateVersion{version(1, true, `{"body":7}`)}},
	} {
		t.TenantID = "acme"
		define(c, events.KindTemplate, t.ID, t)
	}
	define(c, events.KindInstance, "shared", events.Instance{
		ID: "shared", TenantID: events.PlatformTenant, Shared: true, Name: "default", DisplayName: "Pilot", Number: "5511900000000",
		Concurrency: 1, MaxConcurrency: 8,
	})
	define(c, events.KindInstance, "own", events.Instance{
		ID: "own", TenantID: "acme", Name: "acme-1", Number: "5511911111111", Concurrency: 1, MaxConcurrency: 1,
	})
	return c
}
