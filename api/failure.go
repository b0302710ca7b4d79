package api

import "pilotstatus.dev/events"

// failureTexts are the fixed words for people of every errorCode (docs/reference/errors.md).
var failureTexts = map[events.ErrorCode]string{
	events.FailExpired:              "The delivery window ended before the message could be sent.",
	events.FailExpiredAfterAttempts: "The delivery window ended; no try to send the message had any effect.",
	events.FailAttemptsExhausted:    "Every try to send the message was without effect.",
	events.FailDeliveryTimeout:      "It could not be confirmed that the message left; it may have.",
	events.FailNotConfirmed:         "The message was sent, but no delivery was confirmed.",
	events.FailOptedOut:             "The recipient opted out before it was sent.",
	events.FailNotOnWhatsApp:        "The destination number is not on WhatsApp.",
	events.FailGatewayRejected:      "WhatsApp refused the message.",
	events.FailRequestInvalid:       "The message could not be put into a form that can be sent.",
	events.FailInstanceNotFound:     "The sending number does not exist any more.",
	events.FailDuplicateSuppressed:  "The same message had just been sent to this number.",
	events.FailContentErased:        "The content was erased before the message was sent.",
}

func failureText(code events.ErrorCode) string {
	if text, ok := failureTexts[code]; ok || code == "" {
		return text
	}
	return "The message could not be delivered."
}
