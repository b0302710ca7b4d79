package api

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
)

// plainBody refuses a body that is compressed: it would be read as bad JSON, and a small one can unpack to any size.
func (a *API) plainBody(ctx huma.Context, next func(huma.Context)) {
	encoding := strings.TrimSpace(ctx.Header("Content-Encoding"))
	if ctx.Method() == http.MethodGet || encoding == "" || strings.EqualFold(encoding, "identity") {
		next(ctx)
		return
	}
	ctx.SetHeader("Accept-Encoding", "identity") // RFC 9110 §15.5.16
	err := events.Errorf(CodeEncodingNotSupported, "The body must be sent as it is: without the header Content-Encoding, uncompressed.")
	_ = huma.WriteErr(a.huma, ctx, 0, "", err) // the caller went away
}
