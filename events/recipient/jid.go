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
// one of Variants(digits). A gateway that answers with any other address reached,
// or would reach, somebody else.
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
	return false
}
