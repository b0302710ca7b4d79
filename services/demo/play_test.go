package demo

import (
	"reflect"
	"testing"
)

// Played twice in a row it says something else on the shared number: the same text again is suppressed, and never read.
func TestPlayedAgainItSaysSomethingElse(t *testing.T) {
	p := Player{Stage: &Stage{Keys: &Keys{}}}
	first, second := p.acts(), p.acts()
	for i, a := range first {
		if a.body["templateId"] == TemplateUtility && reflect.DeepEqual(a.body, second[i].body) {
			t.Errorf("%s says %v both times", a.title, a.body)
		}
	}
}
