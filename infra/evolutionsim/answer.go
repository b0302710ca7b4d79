package evolutionsim

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// reply is one answer of the gateway.
type reply struct {
	status      int
	contentType string // application/json when empty
	headers     map[string]string
	body        []byte
}

func jsonReply(status int, v any) reply {
	body, err := json.Marshal(v)
	if err != nil {
		return plainError(http.StatusInternalServerError, err.Error())
	}
	return reply{status: status, body: body}
}

type envelope struct {
	Status   int    `json:"status"`
	Error    string `json:"error"`
	Response struct {
		Message any `json:"message"`
	} `json:"response"`
}

func errorReply(status int, message any) reply {
	e := envelope{Status: status, Error: http.StatusText(status)}
	e.Response.Message = message
	return jsonReply(status, e)
}

// plainError has the message as a string: errors that nobody in the gateway caught.
func plainError(status int, message string) reply { return errorReply(status, message) }

// listError has the message in a list: errors that the gateway made itself.
func listError(status int, message string) reply { return errorReply(status, []string{message}) }

// invalid is the answer of the gateway's JSON schemas.
func invalid(violations ...string) reply {
	return errorReply(http.StatusBadRequest, [][]string{violations})
}

// rawInvalid is the same as the number check gives it: without the wrapper.
func rawInvalid(violation string) reply {
	return jsonReply(http.StatusBadRequest, struct {
		Status  int        `json:"status"`
		Error   string     `json:"error"`
		Message [][]string `json:"message"`
	}{http.StatusBadRequest, "Bad Request", [][]string{{violation}}})
}

func undefined(property string) string {
	return "Cannot read properties of undefined (reading '" + property + "')"
}

const boom = `{"data":null,"isBoom":true,"isServer":false,"output":{"statusCode":428,"payload":{"statusCode":428,` +
	`"error":"Precondition Required","message":"Connection Closed"},"headers":{}}}`

func (r reply) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("X-Powered-By", "Express")
	h.Set("Keep-Alive", "timeout=5")
	h.Set("Content-Type", "application/json; charset=utf-8")
	if r.contentType != "" {
		h.Set("Content-Type", r.contentType)
	}
	for name, value := range r.headers {
		h.Set(name, value)
	}
	h.Set("Content-Length", strconv.Itoa(len(r.body)))
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // a client that has gone is no error of ours
}

// relabel changes the reason, which in the gateway does not always fit the status.
func (r reply) relabel(reason string) reply {
	var e envelope
	if err := json.Unmarshal(r.body, &e); err != nil {
		return r
	}
	e.Error = reason
	return jsonReply(r.status, e)
}
