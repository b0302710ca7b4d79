package evolutionsim

import (
	"fmt"
	"net/http"
	"sort"
)

func (s *Server) create(r *http.Request, in fields) reply {
	name := "undefined"
	if n, ok := in["instanceName"].(string); ok {
		name = n
	}
	if name == "undefined" || s.instance(name) != nil {
		return listError(http.StatusForbidden, fmt.Sprintf("This name %q is already in use.", name))
	}
	if r.Header.Get("apikey") != s.options.APIKey {
		return unauthorized()
	}
	if in.string("integration") != "WHATSAPP-BAILEYS" {
		return listError(http.StatusBadRequest, "Invalid integration")
	}
	i := s.newInstance(name, in.string("token"))
	s.mu.Lock()
	s.instances[name] = i
	s.mu.Unlock()
	empty := struct{}{}
	return jsonReply(http.StatusCreated, map[string]any{
		"instance": map[string]any{
			"instanceName": name, "instanceId": i.id, "integration": "WHATSAPP-BAILEYS", "webhookWaBusiness": nil,
			"accessTokenWaBusiness": "", "status": stateClose,
		},
		"hash": i.token, "webhook": empty, "websocket": empty, "rabbitmq": empty, "nats": empty, "sqs": empty, "settings": settings(),
	})
}

func settings() map[string]any {
	return map[string]any{
		"rejectCall": false, "msgCall": "", "groupsIgnore": false, "alwaysOnline": false, "readMessages": false, "readStatus": false,
		"syncFullHistory": false, "wavoipToken": "",
	}
}

// connect begins a connection, which never gets further than a QR code until Change pairs it. The gateway has the code a moment
// after the connection began: the call that begins it gets none, later ones do.
func (s *Server) connect(x *exchange) reply {
	i := x.instance
	i.mu.Lock()
	open, begun := i.state == stateOpen, i.state == stateConnecting && i.socket
	if !open {
		i.socket, i.state = true, stateConnecting
	}
	if begun {
		i.codes++
	}
	codes := i.codes
	i.mu.Unlock()
	switch {
	case open:
		return s.connectionState(x)
	case begun:
		return jsonReply(http.StatusOK, map[string]any{
			"pairingCode": nil, "code": fmt.Sprintf("2@simulated-%s-%d", i.id, codes), "base64": "data:image/png;base64," + onePixel, "count": codes,
		})
	}
	s.emitState(i, stateConnecting, 0)
	return jsonReply(http.StatusOK, map[string]int{"count": 0})
}

// onePixel is a picture.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg=="

// restart fails whatever the state, as it was captured.
func (s *Server) restart(*exchange) reply {
	return jsonReply(http.StatusOK, map[string]any{"error": true, "message": "[object Object]"})
}

func done(message string) reply {
	return jsonReply(http.StatusOK, map[string]any{"status": "SUCCESS", "error": false, "response": map[string]string{"message": message}})
}

func (s *Server) logout(x *exchange) reply {
	i := x.instance
	i.mu.Lock()
	closed := i.state == stateClose
	i.state = stateClose
	i.mu.Unlock()
	if closed {
		return listError(http.StatusBadRequest, fmt.Sprintf("The %q instance is not connected", i.name))
	}
	s.emitEnd(i, http.StatusUnauthorized)
	return done("Instance logged out")
}

func (s *Server) deleteInstance(x *exchange) reply {
	i := x.instance
	s.emit(i, "remove.instance", nil)
	s.emit(i, "instance.delete", map[string]string{"instanceName": i.name, "instanceId": i.id})
	s.removeInstance(i.name)
	return done("Instance deleted")
}

// fetchInstances gives the rows of the database: their state is the last one stored, and every token is shown.
func (s *Server) fetchInstances(r *http.Request) reply {
	k, name := r.Header.Get("apikey"), r.URL.Query().Get("instanceName")
	s.mu.RLock()
	var found []*instance
	for _, i := range s.instances {
		if (k == s.options.APIKey || k == i.token) && (name == "" || name == i.name) {
			found = append(found, i)
		}
	}
	known := k == s.options.APIKey || len(found) > 0
	s.mu.RUnlock()
	switch {
	case !known:
		return unauthorized()
	case name != "" && len(found) == 0:
		return listError(http.StatusNotFound, fmt.Sprintf("Instance %q not found", name))
	}
	sort.Slice(found, func(a, b int) bool { return found[a].name < found[b].name })
	rows := make([]map[string]any, 0, len(found))
	for _, i := range found {
		rows = append(rows, i.row())
	}
	return jsonReply(http.StatusOK, rows)
}

func (i *instance) row() map[string]any {
	messages := i.store.len()
	i.mu.Lock()
	defer i.mu.Unlock()
	set := settings()
	set["id"], set["createdAt"], set["updatedAt"], set["instanceId"] = "cmx1s"+i.id[:8], stamp(i.created), stamp(i.created), i.id
	row := map[string]any{
		"id": i.id, "name": i.name, "connectionStatus": i.state, "ownerJid": nil, "profileName": nil, "profilePicUrl": nil,
		"integration": "WHATSAPP-BAILEYS", "number": nil, "businessId": nil, "token": i.token, "clientName": "evolution_exchange",
		"disconnectionReasonCode": nil, "disconnectionObject": nil, "disconnectionAt": nil, "createdAt": stamp(i.created),
		"updatedAt": stamp(i.created), "Chatwoot": nil, "Proxy": nil, "Rabbitmq": nil, "Nats": nil, "Sqs": nil, "Websocket": nil,
		"Setting": set, "_count": map[string]int{"Message": messages, "Contact": 0, "Chat": 0},
	}
	if i.number != "" {
		row["ownerJid"], row["profileName"] = i.number+userServer, "Simulated"
	}
	return row
}
