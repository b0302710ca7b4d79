package evolution

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/verdicts.golden.jsonl; review every changed row against docs/reference/gateway.md")

// TestJudgeFileGivesTheReviewedVerdicts runs every captured answer of a real gateway through the table. The golden file was read row by row
// against it.
func TestJudgeFileGivesTheReviewedVerdicts(t *testing.T) {
	t.Parallel()
	in, err := os.Open("testdata/answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	var got bytes.Buffer
	if err := JudgeFile(in, &got); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/verdicts.golden.jsonl"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("verdicts differ (-want +got):\n%s", diff)
	}
	if n := strings.Count(got.String(), "\n"); n != 148 {
		t.Errorf("judged %d rows, want all 148", n)
	}
}

func TestJudgeFileNamesTheLineItCannotRead(t *testing.T) {
	t.Parallel()
	good := `{"case":"a","method":"POST","path":"/message/sendText/x","status":201,"answer":""}`
	tests := map[string]struct{ in, want string }{
		"not JSON":   {good + "\n\n{nonsense", "line 3: read row"},
		"no path":    {good + "\n" + `{"method":"POST","status":200}`, "line 2: read row: method and path are required"},
		"no status":  {`{"method":"POST","path":"/x"}`, "line 1: read row: status is required"},
		"bad status": {`{"method":"POST","path":"/x","status":7}`, "line 1: read row: 7 is no HTTP status"},
		"text":       {`{"method":"POST","path":"/x","status":"201"}`, "line 1: read row: status is no whole number"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := JudgeFile(strings.NewReader(tt.in), &out)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if strings.HasPrefix(tt.in, good) && strings.Count(out.String(), "\n") != 1 {
				t.Errorf("the rows before the bad one are missing: %q", out.String())
			}
		})
	}
}

func TestJudgeFileTakesBodiesAsTextAndAsJSON(t *testing.T) {
	t.Parallel()
	in := `{"case":"text","gateway":"2.3.6","method":"POST","path":"/evo/message/sendText/x?y=1","status":201,"answer":"{\"key\":{\"id\":\"K\"}}"}
{"case":"json","gateway":"2.3.6","method":"POST","path":"/message/sendText/x","status":201,"answer":{"key":{"id":"K"}}}
{"case":"none","gateway":"2.3.6","method":"POST","path":"/message/sendText/x","status":null,"answer":null}
{"case":"empty","gateway":"2.3.6","method":"POST","path":"/message/sendText/x","status":201,"answer":null}
`
	want := `{"case":"text","call":"sendText","verdict":"accepted","scope":"message","code":""}
{"case":"json","call":"sendText","verdict":"accepted","scope":"message","code":""}
{"case":"none","call":"sendText","verdict":"unknown","scope":"instance","code":"no_answer"}
{"case":"empty","call":"sendText","verdict":"accepted","scope":"message","code":"gateway_id_unknown"}
`
	var out bytes.Buffer
	if err := JudgeFile(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
