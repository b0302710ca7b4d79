package receipts

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "rewrite testdata/*.golden.jsonl; review every changed row against docs/reference/gateway.md")

// The files of webhooks: what real gateways of 2.3.6 and 2.3.7 posted, and what the source of 1.8, 2.2, 2.3, 2.4 and of business
// instances says they post (marked `"source":"read"`).
var webhookFiles = map[string]int{"evolution-webhooks": 51, "read-webhooks": 50}

func judged(t testing.TB, name string) []byte {
	t.Helper()
	in, err := os.Open("testdata/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	var got bytes.Buffer
	if err := JudgeFile(in, &got); err != nil {
		t.Fatal(err)
	}
	return got.Bytes()
}

// Every webhook has its reviewed meaning: a receipt, a change of state, or ignored and why.
func TestJudgeFileGivesTheReviewedMeanings(t *testing.T) {
	t.Parallel()
	for name, rows := range webhookFiles {
		got, golden := judged(t, name), "testdata/"+name+".golden.jsonl"
		if *rewrite {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
			t.Errorf("%s: meanings differ (-want +got):\n%s", name, diff)
		}
		if n := bytes.Count(got, []byte("\n")); n != rows {
			t.Errorf("%s: judged %d rows, want all %d", name, n, rows)
		}
	}
}

// A webhook either does something or is ignored for a reason that is said; nothing does both.
func TestEveryJudgementSaysWhy(t *testing.T) {
	t.Parallel()
	seen := map[Reason]bool{}
	for name := range webhookFiles {
		for _, j := range judgements(t, judged(t, name)) {
			if ignored := j.Means == MeansNothing; ignored != (j.Why != "") || ignored == (j.State != "") {
				t.Errorf("%+v", j)
			}
			seen[j.Why] = true
		}
	}
	for _, why := range []Reason{ReasonNotKept, ReasonNoKeyID, ReasonNotOurs, ReasonEdit, ReasonNoStatus, ReasonNoDelivery, ReasonSameConnected} {
		if !seen[why] {
			t.Errorf("no webhook is ignored because of %s", why)
		}
	}
}

func judgements(t testing.TB, lines []byte) (out []judgement) {
	t.Helper()
	for _, l := range bytes.Split(bytes.TrimSpace(lines), []byte("\n")) {
		var j judgement
		if err := json.Unmarshal(l, &j); err != nil {
			t.Fatal(err)
		}
		out = append(out, j)
	}
	return out
}

func TestJudgeFileTakesListsAndWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	in := `{"gateway":"x","event":"messages.update","body":"{\"event\":\"MESSAGES_UPDATE\",\"data\":[{\"keyId\":\"A\",\"status\":4},{\"keyId\":\"B\"}]}"}

{"gateway":"x","event":"none","body":"nonsense"}
`
	if err := JudgeFile(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range judgements(t, out.Bytes()) {
		got = append(got, strings.Join([]string{j.Event, j.KeyID, string(j.Means), j.State, string(j.Why)}, " "))
	}
	want := []string{"messages.update A receipt READ ", "messages.update B ignored  no_status", "none  ignored  unreadable"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"{", `{"event":"x"}`, "[]"} {
		if err := JudgeFile(strings.NewReader("\n"+bad+"\n"), &out); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
