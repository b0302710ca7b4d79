package recipient

import "strings"

// Kind is what sort of destination a string is by its form.
type Kind string

// The kinds a destination can have. Only numbers are sent to; the others are
// recognised so that they can be refused by name.
const (
	KindNumber     Kind = "number"     // no address suffix; Parse decides whether it is valid
	KindGroup      Kind = "group"      // …@g.us
	KindNewsletter Kind = "newsletter" // …@newsletter
	KindOther      Kind = "other"      // any other address: …@lid, …@broadcast, a full JID
)

const userServer = "s.whatsapp.net"

// KindOf tells the kind of a destination by the part after its last '@'.
func KindOf(s string) Kind {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return KindNumber
	}
	switch s[at+1:] {
	case "g.us":
		return KindGroup
	case "newsletter":
		return KindNewsletter
	}
	return KindOther
}

// JIDDigits is the number inside a WhatsApp user address,
// "<digits>[:device]@s.whatsapp.net". It is false for every other address:
// @lid, @g.us and @broadcast name no telephone number.
func JIDDigits(jid string) (digits string, ok bool) {
	user, server, found := strings.Cut(jid, "@")
	if !found || server != userServer {
		return "", false
	}
	digits, device, hasDevice := strings.Cut(user, ":")
	if !onlyDigits(digits) || hasDevice && !onlyDigits(device) {
		return "", false
	}
	return digits, true
}

// JIDMatches reports whether the address belongs to the number: its digits are
// one of Variants(digits), or the other spelling of a Mexican or Argentine mobile
// (with or without the 1 or 9 after the country code), which gateways take out or
// put in by themselves. A gateway that answers with any other address reached, or
// would reach, somebody else.
func JIDMatches(jid, digits string) bool {
	user, ok := JIDDigits(jid)
	if !ok {
		return false
	}
	for _, variant := range Variants(digits) {
		if user == variant {
			return true
		}
	}
	return withoutPrefix(user) == withoutPrefix(digits)
}

// JIDForeign reports whether the address is the number of somebody else. One that
// names no number, like a LID, is not.
func JIDForeign(jid, digits string) bool {
	_, ok := JIDDigits(jid)
	return ok && !JIDMatches(jid, digits)
}

// withoutPrefix takes the digit out that Mexican and Argentine mobiles have, or
// had, after their country code in international form only.
func withoutPrefix(digits string) string {
	const country, with = 2, 13
	if len(digits) == with && (digits[:country+1] == "521" || digits[:country+1] == "549") {
		return digits[:country] + digits[country+1:]
	}
	return digits
}

// HoldsAnother reports whether a spelling of the number ends in the whole number
// of somebody else: 5551988887777 in 551988887777, which is 5519988887777 without
// its ninth digit. Gateways that search numbers by a part of them can take one for
// the other (docs/reference/gateway.md, Numbers).
func HoldsAnother(digits string) bool {
	for _, variant := range Variants(digits) {
		for _, country := range []string{"52", "54", brazil} { // only these have spellings to search by
			if len(variant) == withNinth && variant[1:1+len(country)] == country {
				if _, err := Parse("+" + variant[1:]); err == nil {
					return true
				}
			}
		}
	}
	return false
}
