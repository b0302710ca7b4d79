package floors_test

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// impure are the packages with which a fold could see more than its events:
// files, the network, chance, a log.
var impure = []string{
	"crypto/rand", "database/sql", "log", "math/rand", "math/rand/v2",
	"net", "net/http", "os", "os/exec", "os/signal", "os/user", "syscall", "unsafe",
}

// unrepeatable are the names, by import path, whose value or effect differs from
// one replay to the next. A type may say how it is logged (slog.LogValuer), but
// nothing in the language logs.
var unrepeatable = map[string][]string{
	"log/slog": {
		"Debug", "DebugContext", "Default", "Error", "ErrorContext", "Info", "InfoContext",
		"Log", "LogAttrs", "New", "SetDefault", "Warn", "WarnContext", "With",
	},
	"time": {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	"github.com/google/uuid": {
		"New", "NewString", "NewRandom", "NewUUID", "NewV6", "NewV7", "NewV7FromReader",
	},
}

// TestLanguageIsPure holds the promise of the module events: no input, no
// output, no clock, no chance, no goroutine. Without it a replay of the log
// could end in another state than the first reading.
func TestLanguageIsPure(t *testing.T) {
	t.Parallel()
	for _, file := range sources(t, "events") {
		if file.test() {
			continue
		}
		for _, complaint := range impurities(t, file) {
			t.Error(complaint)
		}
	}
}

func impurities(t *testing.T, file source) []string {
	t.Helper()
	var complaints []string
	for _, imported := range file.imports(t) {
		if slices.Contains(impure, imported) {
			complaints = append(complaints, file.path+" imports "+imported)
		}
	}
	names := importNames(file)
	ast.Inspect(file.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			complaints = append(complaints, file.at(n)+" starts a goroutine")
		case *ast.SelectorExpr:
			ident, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			imported := names[ident.Name]
			if slices.Contains(unrepeatable[imported], n.Sel.Name) {
				complaints = append(complaints, file.at(n)+" uses "+imported+"."+n.Sel.Name)
			}
		}
		return true
	})
	if _, dot := names["."]; dot {
		complaints = append(complaints, file.path+" has a dot import, which hides where a name comes from")
	}
	return complaints
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// importNames maps the name by which the file knows a package to its path.
func importNames(file source) map[string]string {
	names := make(map[string]string)
	for _, spec := range file.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(imported)
		if majorVersion.MatchString(name) {
			name = path.Base(strings.TrimSuffix(imported, "/"+name))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}

// TestImpuritiesAreSeen proves that the scan above can fail.
func TestImpuritiesAreSeen(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"clock":           `import "time"; var x = time.Now()`,
		"renamed clock":   `import clock "time"; var x = clock.Since`,
		"goroutine":       `func f() { go f() }`,
		"network":         `import _ "net"`,
		"chance":          `import "math/rand/v2"; var x = rand.Int()`,
		"identity":        `import "github.com/google/uuid"; var x = uuid.New()`,
		"dot import":      `import . "time"`,
		"log line":        `import "log/slog"; func f() { slog.Info("x") }`,
		"file descriptor": `import "os"; var x = os.Stdout`,
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := impurities(t, parse(t, "package x; "+body)); len(got) == 0 {
				t.Errorf("impurities(%q) is empty", body)
			}
		})
	}
	harmless := `package x; import ("log/slog"; "time"; "github.com/google/uuid")
		var x, y = time.Second, uuid.Parse
		func f() slog.Value { return slog.StringValue("x") }`
	if got := impurities(t, parse(t, harmless)); len(got) != 0 {
		t.Errorf("impurities of harmless code = %v", got)
	}
}
