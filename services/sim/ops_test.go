package sim

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

// op is one operation of the protocol between a client and the log's server.
type op struct {
	verb    string
	subject string
	reply   string
	raw     []byte // with its payload and line ends
}

// cutOp takes the first operation off buf. ok is false while it is not there whole.
func cutOp(buf []byte) (o op, rest []byte, ok bool) {
	end := bytes.Index(buf, []byte("\r\n"))
	if end < 0 {
		return op{}, buf, false
	}
	size := end + 2
	fields := strings.Fields(string(buf[:end]))
	if len(fields) == 0 {
		return op{raw: buf[:size]}, buf[size:], true
	}
	o.verb = strings.ToUpper(fields[0])
	// What stands between the subject and the lengths: the subscription of a delivery, and a reply where there is one.
	var before, lengths int
	switch o.verb {
	case "PUB":
		before, lengths = 2, 1
	case "HPUB":
		before, lengths = 2, 2
	case "MSG":
		before, lengths = 3, 1
	case "HMSG":
		before, lengths = 3, 2
	default:
		o.raw = buf[:size]
		return o, buf[size:], true
	}
	o.subject = fields[1]
	if len(fields) > before+lengths {
		o.reply = fields[before]
	}
	payload, err := strconv.Atoi(fields[len(fields)-1])
	if size += payload + 2; err != nil || len(buf) < size {
		return op{}, buf, false
	}
	o.raw = buf[:size]
	return o, buf[size:], true
}

// appended are the subjects whose publication stores something: streams and buckets of the topology.
var appended = []string{"evt.", "rcp.", "hook.", "hooksch.", "hlg.", "dead.", "$KV."}

// appends reports that an operation asks for something to be stored and wants to hear of it.
func (o op) appends() bool {
	if o.reply == "" || o.verb != "PUB" && o.verb != "HPUB" {
		return false
	}
	for _, prefix := range appended {
		if strings.HasPrefix(o.subject, prefix) {
			return true
		}
	}
	return false
}

// settles reports that an operation tells a consumer what became of a delivery.
func (o op) settles() bool {
	return strings.HasPrefix(o.subject, "$JS.ACK.") && strings.HasSuffix(o.verb, "PUB")
}

func TestOperationsAreCutWhole(t *testing.T) {
	t.Parallel()
	stream := "PING\r\nPUB $JS.ACK.x 4\r\n+ACK\r\nHPUB evt.0.i _INBOX.a 12 14\r\nNATS/1.0\r\n\r\nhi\r\nMSG _INBOX.a 7 2\r\n{}\r\nHMSG s 7 r 12 12\r\nNATS/1.0\r\n\r\n\r\n"
	var buf []byte
	var got []op
	for i := range len(stream) { // byte by byte: an operation may come in any pieces
		buf = append(buf, stream[i])
		if o, rest, ok := cutOp(buf); ok {
			if len(rest) > 0 {
				t.Fatalf("%q is left over", rest)
			}
			got, buf = append(got, o), nil
		}
	}
	if len(buf) > 0 || len(got) != 5 {
		t.Fatalf("%d operations, and %q left", len(got), buf)
	}
	if !got[1].settles() || got[1].appends() || !got[2].appends() || got[2].reply != "_INBOX.a" || got[3].subject != "_INBOX.a" || got[4].reply != "r" {
		t.Errorf("operations are %+v", got)
	}
}
