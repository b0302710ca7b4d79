package sim

import (
	"math/rand/v2"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
)

// refusals are answers of a gateway that cannot be used, or not by us: to whatever it is asked, of every instance behind it.
func refusals() []evolutionsim.Fault {
	of := func(status int, body string) evolutionsim.Fault {
		return evolutionsim.Fault{Kind: "answer", When: "before", Status: status, Body: body, ContentType: jsonType}
	}
	return []evolutionsim.Fault{
		of(401, `{"status":401,"error":"Unauthorized","response":{"message":"Unauthorized"}}`),
		of(401, `{"status":401,"error":"Unauthorized","response":{"message":"Unauthorized"}}`), // three within a minute: the gateway
		of(403, `{"status":403,"error":"Forbidden","response":{"message":"Forbidden"}}`),
		of(404, wrapped(404, `The "x" instance does not exist`)),
		of(404, wrapped(404, "Cannot POST /message/sendText/x")),
		of(503, `{"code":"LICENSE_REQUIRED"}`),
	}
}

// drawStorms plans times in which a gateway refuses everything.
func (p *plan) drawStorms(r *rand.Rand) {
	pool := refusals()
	for range int(p.Length/(6*time.Hour)) + 2 {
		at, length, g, f := within(r, time.Minute, p.Length*3/4), within(r, 5*time.Minute, 25*time.Minute), r.IntN(calm), pool[r.IntN(len(pool))]
		p.do(at, func(w *world) {
			w.rec.hit("gateways that refuse")
			sim := w.gateways[g].sim
			for n := range troubled {
				for _, call := range []string{"", "connectionState", "whatsappNumbers", "findMessages", "sendPresence"} {
					if f.Instance, f.Call = instanceID(n), call; home(n) != g {
						continue
					}
					if id, err := sim.AddFault(f); err == nil {
						w.later(length, func() { sim.RemoveFault(id) })
					} else {
						w.rec.fail("make a gateway refuse", err)
					}
				}
			}
		})
	}
}
