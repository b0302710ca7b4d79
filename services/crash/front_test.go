package crash

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// What was asked before is answered while new connections are refused, and afterwards they are let through again.
func TestTheFrontRefusesConnections(t *testing.T) {
	t.Parallel()
	reached, answer := make(chan struct{}, 1), make(chan struct{})
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached <- struct{}{}
		<-answer
		_, _ = io.WriteString(w, "word")
	}))
	defer gateway.Close()
	f, err := startFront(t.Context(), gateway.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL(), nil)
		if err != nil {
			return "", err
		}
		res, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		return string(raw), err
	}
	first := make(chan string, 1)
	go func() {
		got, err := ask()
		if err != nil {
			got = err.Error()
		}
		first <- got
	}()
	<-reached
	if err := f.refuse(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(); err == nil {
		t.Errorf("a refused connection was answered %q", got)
	}
	close(answer)
	if got := <-first; got != "word" {
		t.Errorf("what was asked before was answered %q", got)
	}
	if err := f.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(); got != "word" || err != nil {
		t.Errorf("afterwards it answers %q, %v", got, err)
	}
	if n := len(f.refused()); n != 1 {
		t.Errorf("refused %d times", n)
	}
	if err := f.refuse(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
}
