package eventlog_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// tap stands between a client and a server and judges each message that the server sends; all else passes, so that the client hears
// the server beat.
type tap struct {
	l      net.Listener
	target string
	wg     sync.WaitGroup

	mu    sync.Mutex
	last  int // the newest subscription that a delivery went to
	judge func(m *tapped) (passes bool)
}

// tapped is a message on its way to a client.
type tapped struct {
	subject, reply string
	sid            int
	head, data     []byte
	headed         bool
}

// delivers reports that it is an event that a consumer brings.
func (m *tapped) delivers() bool { return strings.HasPrefix(m.reply, "$JS.ACK.") }

func newTap(t testing.TB, n *node) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{l: l, target: n.srv.Addr().String()}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.wg.Wait()
	})
	return p
}

func (p *tap) url() string { return "nats://" + p.l.Addr().String() }

// let sets what judges from now on; nil lets all pass.
func (p *tap) let(judge func(m *tapped) (passes bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = judge
}

// silence loses all that consumers bring to the subscriptions that there are; newer ones get theirs. It gives how much was lost.
func (p *tap) silence() (lost func() int) {
	var mu sync.Mutex
	n := 0
	p.mu.Lock()
	defer p.mu.Unlock()
	upTo := p.last
	p.judge = func(m *tapped) bool {
		if !m.delivers() || m.sid > upTo {
			return true
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		return false
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func (p *tap) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		srv, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.wg.Go(func() { _, _ = io.Copy(srv, client); srv.Close() })
		p.wg.Go(func() {
			defer client.Close()
			defer srv.Close()
			_ = p.carry(client, bufio.NewReader(srv)) // until either side closes
		})
	}
}

// carry reads the protocol of the server's side: lines, and messages with what they announce.
func (p *tap) carry(to io.Writer, from *bufio.Reader) error {
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return err
		}
		out := []byte(line)
		if f := strings.Fields(line); len(f) > 3 && (f[0] == "MSG" || f[0] == "HMSG") {
			m, err := readTapped(f, from)
			if err != nil {
				return err
			}
			if !p.passes(m) {
				continue
			}
			out = m.bytes()
		}
		if _, err := to.Write(out); err != nil {
			return err
		}
	}
}

func (p *tap) passes(m *tapped) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.judge != nil && !p.judge(m) {
		return false
	}
	if m.delivers() {
		p.last = max(p.last, m.sid)
	}
	return true
}

func readTapped(f []string, from io.Reader) (*tapped, error) {
	m := &tapped{subject: f[1], headed: f[0] == "HMSG"}
	sizes := 1
	if m.headed {
		sizes = 2
	}
	if len(f) == 4+sizes {
		m.reply = f[3]
	}
	size, err := strconv.Atoi(f[len(f)-1])
	if err != nil {
		return nil, err
	}
	if m.sid, err = strconv.Atoi(f[2]); err != nil {
		return nil, err
	}
	head := 0
	if m.headed {
		if head, err = strconv.Atoi(f[len(f)-2]); err != nil {
			return nil, err
		}
	}
	body := make([]byte, size+2)
	if _, err := io.ReadFull(from, body); err != nil {
		return nil, err
	}
	m.head, m.data = body[:head], body[head:size]
	return m, nil
}

func (m *tapped) bytes() []byte {
	var b bytes.Buffer
	verb, sizes := "MSG", strconv.Itoa(len(m.data))
	if m.headed {
		verb, sizes = "HMSG", fmt.Sprintf("%d %d", len(m.head), len(m.head)+len(m.data))
	}
	fmt.Fprintf(&b, "%s %s %d", verb, m.subject, m.sid)
	if m.reply != "" {
		b.WriteString(" " + m.reply)
	}
	b.WriteString(" " + sizes + "\r\n")
	b.Write(m.head)
	b.Write(m.data)
	b.WriteString("\r\n")
	return b.Bytes()
}
