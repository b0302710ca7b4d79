package evolutionsim

import "strings"

const userServer = "@s.whatsapp.net"

// unwritten takes out what the gateway takes out of a number first.
var unwritten = strings.NewReplacer(" ", "", "+", "", "(", "", ")", "")

// createJID is the gateway's own reading of a number (docs/reference/gateway.md, Numbers).
func createJID(number string) string {
	if before, after, ok := strings.Cut(number, ":"); ok {
		_, server, _ := strings.Cut(after, "@")
		number = before
		if server != "" {
			number += "@" + server
		}
	}
	for _, server := range []string{"@g.us", userServer, "@lid", "@broadcast"} {
		if strings.Contains(number, server) {
			return number
		}
	}
	number = unwritten.Replace(number)
	if strings.Contains(number, "-") && len(number) >= 24 {
		return strings.Map(func(r rune) rune {
			if r != '-' && (r < '0' || r > '9') {
				return -1
			}
			return r
		}, number) + "@g.us"
	}
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, number)
	switch {
	case len(digits) >= 18:
		return digits + "@g.us"
	case len(digits) == 13 && (strings.HasPrefix(digits, "52") || strings.HasPrefix(digits, "54")):
		digits = digits[:2] + digits[3:]
	case len(digits) == 13 && strings.HasPrefix(digits, "55") && digits[2:4] >= "31" && digits[5] >= '7':
		digits = digits[:4] + digits[5:]
	}
	return digits + userServer
}

func jidUser(jid string) string {
	user, _, _ := strings.Cut(jid, "@")
	return user
}

// spellings are a Brazilian mobile number with and without its ninth digit; of any other number itself.
func spellings(digits string) []string {
	switch {
	case !strings.HasPrefix(digits, "55"):
	case len(digits) == 13:
		return []string{digits, digits[:4] + digits[5:]}
	case len(digits) == 12:
		return []string{digits, digits[:4] + "9" + digits[4:]}
	}
	return []string{digits}
}

// resolved is what the gateway makes of a number.
type resolved struct {
	jid    string
	exists bool
	asks   bool // WhatsApp has to be asked: it works only while the instance is open
	group  bool
}

// resolve looks a number up as the gateway does. It remembers nothing: see numbers.put.
func (s *Server) resolve(i *instance, number string) resolved {
	jid := createJID(number)
	if !strings.HasSuffix(jid, userServer) {
		return resolved{jid: jid, exists: true, group: strings.HasSuffix(jid, "@g.us")}
	}
	asked := jidUser(jid)
	if known, ok := s.numbers.get(asked); ok {
		return resolved{jid: known, exists: true}
	}
	i.mu.Lock()
	account, other := i.account[asked]
	missing := asked == "" || i.missing[asked] || i.missing[number]
	i.mu.Unlock()
	// The gateway compares the two ninth-digit forms only when the number as given begins with 55.
	if missing || other && !strings.HasPrefix(number, "55") {
		return resolved{jid: jid, asks: true}
	}
	if other {
		jid = account + userServer
	}
	return resolved{jid: jid, exists: true, asks: true}
}
