package api

import (
	"embed"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/swaggest/swgui/v5emb"
)

//go:embed static
var static embed.FS

// pagePolicy lets the documentation load from this server only. Swagger UI sets styles inline and has icons as data.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serveDocs serves the finished document and a page that shows it. It is called after the last operation.
func (a *API) serveDocs(mux *http.ServeMux) {
	doc := a.huma.OpenAPI()
	mux.Handle("GET /openapi.json", rendered("application/openapi+json", func() ([]byte, error) { return json.MarshalIndent(doc, "", "  ") }))
	mux.Handle("GET /openapi.yaml", rendered("application/openapi+yaml", doc.YAML))
	mux.Handle("GET /docs", page("static/index.html", "text/html; charset=utf-8"))
	mux.Handle("GET /docs/init.js", page("static/init.js", "text/javascript; charset=utf-8"))
	assets := v5emb.New("", "", "/docs")
	for _, name := range []string{"swagger-ui.css", "swagger-ui-bundle.js", "swagger-ui-standalone-preset.js", "favicon-32x32.png"} {
		mux.Handle("GET /docs/"+name, policed(assets))
	}
}

// rendered serves what render gives, which is asked once, by the first who wants it: most processes are never asked.
func rendered(contentType string, render func() ([]byte, error)) http.Handler {
	once := sync.OnceValues(render)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := once()
		if err != nil {
			writeProblem(w, r, internal(err))
			return
		}
		content(contentType, b).ServeHTTP(w, r)
	})
}

func page(name, contentType string) http.Handler {
	b, err := static.ReadFile(name)
	if err != nil {
		panic("api: embedded page is missing: " + name)
	}
	return policed(content(contentType, b))
}

func policed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", pagePolicy)
		next.ServeHTTP(w, r)
	})
}

func content(contentType string, b []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(b) // the caller went away
	})
}
