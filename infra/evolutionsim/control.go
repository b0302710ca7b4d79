package evolutionsim

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

func isControl(path string) bool { return path == "/sim" || strings.HasPrefix(path, "/sim/") }

// control serves what a test sets and reads:
//
//	POST   /sim/instances            Instance: add or replace
//	POST   /sim/instances/{name}     Change
//	POST   /sim/gateway              GatewayChange
//	POST   /sim/faults               Fault: gives {"id"}
//	GET    /sim/faults               [Fault]
//	DELETE /sim/faults[/{id}]        one, or all
//	GET    /sim/ledger               Report; ?instance= &text= &number= &keyId= &after=
//	GET    /sim/stats                Stats
//	POST   /sim/emit                 {"instance","event","data"}: posts any webhook
//	POST   /sim/reset
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	resource, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/sim/"), "/")
	switch r.Method + " " + resource {
	case "POST instances":
		s.controlInstance(w, r, name)
	case "POST gateway":
		var c GatewayChange
		if decode(w, r, &c) {
			give(w, struct{}{}, s.ChangeGateway(c))
		}
	case "POST faults":
		var f Fault
		if decode(w, r, &f) {
			id, err := s.AddFault(f)
			give(w, map[string]int64{"id": id}, err)
		}
	case "GET faults":
		give(w, s.Faults(), nil)
	case "DELETE faults":
		s.controlRemove(w, name)
	case "GET ledger":
		f, err := filterOf(r.URL.Query())
		give(w, s.Ledger(f), err)
	case "GET stats":
		give(w, s.Stats(), nil)
	case "POST emit":
		var e struct {
			Instance string          `json:"instance"`
			Event    string          `json:"event"`
			Data     json.RawMessage `json:"data"`
		}
		if decode(w, r, &e) {
			give(w, struct{}{}, s.Emit(e.Instance, e.Event, e.Data))
		}
	case "POST reset":
		s.Reset()
		give(w, struct{}{}, nil)
	default:
		http.NotFound(w, r)
	}
}

func filterOf(q url.Values) (Filter, error) {
	f := Filter{Instance: q.Get("instance"), Text: q.Get("text"), Number: q.Get("number"), KeyID: q.Get("keyId")}
	if after := q.Get("after"); after != "" {
		n, err := strconv.ParseInt(after, 10, 64)
		if err != nil || n < 0 {
			return Filter{}, errors.New("after: a number from 0")
		}
		f.After = n
	}
	return f, nil
}

func (s *Server) controlInstance(w http.ResponseWriter, r *http.Request, name string) {
	if name != "" {
		var c Change
		if decode(w, r, &c) {
			give(w, struct{}{}, s.ChangeInstance(name, c))
		}
		return
	}
	var i Instance
	if decode(w, r, &i) {
		give(w, struct{}{}, s.AddInstance(i))
	}
}

func (s *Server) controlRemove(w http.ResponseWriter, name string) {
	if name == "" {
		s.faults.clear()
		give(w, struct{}{}, nil)
		return
	}
	id, err := strconv.ParseInt(name, 10, 64)
	if err != nil || !s.RemoveFault(id) {
		give(w, nil, errors.New("no such fault"))
		return
	}
	give(w, struct{}{}, nil)
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	d.DisallowUnknownFields() // a misspelt fault that does nothing would make a test pass
	if err := d.Decode(into); err != nil {
		give(w, nil, err)
		return false
	}
	return true
}

func give(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is no error of ours
}
