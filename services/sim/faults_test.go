package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"pilotstatus.dev/infra/evolutionsim"
)

const jsonType = "application/json"

// wrapped is the gateway's usual envelope around a message.
func wrapped(status int, message string) string {
	return fmt.Sprintf(`{"status":%d,"error":"Error","response":{"message":[%q]}}`, status, message)
}

// truthful are answers given before anything left, that say so or say nothing: the table of docs/reference/gateway.md, row by row.
func truthful() []evolutionsim.Fault {
	of := func(status int, body string) evolutionsim.Fault {
		return evolutionsim.Fault{Kind: "answer", When: "before", Status: status, Body: body, ContentType: jsonType}
	}
	limited := of(429, `{}`)
	limited.Headers = map[string]string{"Retry-After": "7"}
	page := of(404, "<html><body>Not Found</body></html>")
	page.ContentType = "text/html"
	return []evolutionsim.Fault{
		of(400, `{"status":400,"error":"Bad Request","response":{"message":[["instance requires property \"text\""]]}}`),
		of(400, wrapped(400, "Text is required")),
		of(400, wrapped(400, "TypeError: Cannot read properties of undefined (reading 'sendMessage')")),
		of(400, wrapped(400, "Error: Connection Closed")),
		of(400, wrapped(400, "[object Object]")),
		of(401, `{"status":401,"error":"Unauthorized","response":{"message":"Unauthorized"}}`),
		of(403, `{"status":403,"error":"Forbidden","response":{"message":"Forbidden"}}`),
		of(404, wrapped(404, `The "x" instance does not exist`)),
		of(404, wrapped(404, "Cannot POST /message/sendText/x")),
		page, of(413, `{}`), of(414, ""), of(408, ""), limited, limited,
		of(500, `{"status":500,"error":"Internal Server Error","response":{"message":"Connection Closed"}}`),
		of(500, `{"status":500,"error":"Internal Server Error","response":{"message":"Cannot read properties of undefined (reading 'textMessage')"}}`),
		of(500, `{"status":500,"error":"Internal Server Error","response":{"message":"something else"}}`),
		of(503, `{"code":"LICENSE_REQUIRED"}`), of(302, ""), of(502, "<html>Bad Gateway</html>"), of(504, ""),
	}
}

// ambiguous are answers given after the message left that do not say so.
func ambiguous() []evolutionsim.Fault {
	of := func(status int, body string) evolutionsim.Fault {
		return evolutionsim.Fault{Kind: "answer", When: "after", Status: status, Body: body, ContentType: jsonType}
	}
	return []evolutionsim.Fault{
		of(201, ""), of(201, "not json"), of(200, `{}`), of(400, wrapped(400, "Error: Connection Closed")), of(408, ""),
		of(500, `{"status":500,"error":"Internal Server Error","response":{"message":"something else"}}`), of(502, "<html>Bad Gateway</html>"),
		of(504, ""), of(307, ""), of(400, wrapped(400, "PrismaClientKnownRequestError")),
	}
}

// broken are the faults that are no answers, in all their kinds and modes.
func (p *plan) broken(r *rand.Rand) []evolutionsim.Fault {
	receipts := []string{"SERVER_ACK", "DELIVERY_ACK", "READ"}
	some := receipts[r.IntN(3):]
	out := []evolutionsim.Fault{
		{Kind: "delay", When: "before", DelayMS: 1 + r.IntN(40_000)},      // beyond the limit it leaves after we gave up
		{Kind: "delay", When: "before", DelayMS: 40_000 + r.IntN(80_000)}, // the latest that a real gateway was seen to send
		{Kind: "delay", When: "after", DelayMS: 1 + r.IntN(40_000)},
		{Kind: "hang", When: "before"},
		{Kind: "hang", When: "after"},
		{Kind: "reset", When: "before"},
		{Kind: "reset", When: "after"},
		{Kind: "unsaved"},
		{Kind: "renamed"},
		{Kind: "misroute", JID: "5519988887777@s.whatsapp.net"},
		{Kind: "receipts", Mode: "late", DelayMS: r.IntN(int(p.latest().Milliseconds())), JID: "123456789012345@lid"},
	}
	for _, mode := range []string{"lost", "duplicated", "reversed", "early", "error", "rowless"} {
		out = append(out, evolutionsim.Fault{Kind: "receipts", Mode: mode, Statuses: some, Copies: 2 + r.IntN(2)})
	}
	return out
}

// sideways are faults of calls that are no sends.
func sideways() []evolutionsim.Fault {
	var out []evolutionsim.Fault
	for _, call := range []string{"whatsappNumbers", "findMessages", "connectionState"} {
		out = append(out,
			evolutionsim.Fault{Call: call, Kind: "hang", When: "before"},
			evolutionsim.Fault{Call: call, Kind: "delay", When: "before", DelayMS: 2_500},
			evolutionsim.Fault{Call: call, Kind: "reset", When: "before"},
			evolutionsim.Fault{Call: call, Kind: "answer", When: "before", Status: 500, ContentType: jsonType, Body: `{"status":500}`},
		)
	}
	return out
}

// drawFaults plans single faults all day long, and storms that take an hour of everything.
func (p *plan) drawFaults(r *rand.Rand) {
	draw := func() evolutionsim.Fault {
		var pool []evolutionsim.Fault
		switch n := r.IntN(10); {
		case n < 3:
			pool = truthful()
		case n < 5:
			pool = ambiguous()
		case n < 9:
			pool = p.broken(r)
		default:
			pool = sideways()
		}
		return pool[r.IntN(len(pool))]
	}
	singles := len(p.Messages) / 4
	for range singles {
		n, f := r.IntN(troubled), draw()
		f.Times = 1 + r.IntN(2)
		p.fault(within(r, 0, p.Length), n, f)
	}
	for range int(p.Length/(6*time.Hour)) + 1 {
		at, end := within(r, 0, p.Length), within(r, 2*time.Minute, 30*time.Minute)
		n, f := r.IntN(troubled), draw()
		p.do(at, func(w *world) {
			f.Instance = instanceID(n)
			if id, err := w.gatewayOf(n).sim.AddFault(f); err == nil {
				w.later(end, func() { w.gatewayOf(n).sim.RemoveFault(id) })
			}
		})
	}
}

func (p *plan) fault(at time.Duration, n int, f evolutionsim.Fault) {
	f.Instance = instanceID(n)
	p.do(at, func(w *world) {
		if _, err := w.gatewayOf(n).sim.AddFault(f); err != nil {
			w.t.Errorf("add fault: %v", err)
		}
	})
}
