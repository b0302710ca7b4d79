package recipient_test

import (
	"fmt"

	"pilotstatus.dev/events/recipient"
)

func ExampleParse() {
	r, err := recipient.Parse("+551188887777")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Given(), r.Digits(), r.Canonical())
	fmt.Println(r)
	// Output:
	// +551188887777 551188887777 5511988887777
	// +55******7777
}

func ExampleParse_withoutCountryCode() {
	_, err := recipient.Parse("81999998888")
	fmt.Println(recipient.RuleOf(err))
	fmt.Println(err)
	// Output:
	// ambiguous
	// the destination number may lack its country code: write it as E.164, with '+' and the country code
}

func ExampleJIDMatches() {
	fmt.Println(recipient.JIDMatches("551188887777:3@s.whatsapp.net", "5511988887777"))
	fmt.Println(recipient.JIDMatches("5519988887777@s.whatsapp.net", "5551988887777"))
	// Output:
	// true
	// false
}

func ExampleKindOf() {
	fmt.Println(recipient.KindOf("120363012345678901@g.us"))
	// Output: group
}
