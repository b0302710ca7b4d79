package control_test

import (
	"errors"
	"testing"

	"pilotstatus.dev/events"
	"pilotstatus.dev/events/catalog"
	"pilotstatus.dev/infra/apikey"
	"pilotstatus.dev/services/control"
)

func TestBootstrap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	f := control.NewFeed(r.log, control.Settings{})
	run(t, f)
	first, err := control.Bootstrap(t.Context(), r.log, "ana", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Bootstrap(t.Context(), r.log, "eve", false); !errors.Is(err, control.ErrHasOperators) {
		t.Errorf("second without force: %v", err)
	}
	second, err := control.Bootstrap(t.Context(), r.log, "ana", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Bootstrap(t.Context(), r.log, "Ana Maria", true); events.CodeOf(err) != events.CodeValidation {
		t.Errorf("a name that is no token: %v", err)
	}
	eventually(t, "both are known", func() (known bool) {
		f.Read(func(c *catalog.Catalog) { known = len(c.Operators()) == 2 })
		return known
	})
	f.Read(func(c *catalog.Catalog) {
		for _, k := range []apikey.Key{first, second} {
			o, ok := c.OperatorByPublicID(k.PublicID())
			if !ok || o.Name != "ana" || len(o.Scopes) != len(events.OperatorScopes()) || !k.Operator() {
				t.Errorf("%s: %+v", k, o)
			}
		}
	})
}
