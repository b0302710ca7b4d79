package webhook

import "pilotstatus.dev/events"

var errorMessages = map[events.ErrorCode]string{
	events.FailExpired:              "The delivery window ended before the message could be sent.",
	events.FailExpiredAfterAttempts: "The delivery window ended; every attempt made before had no effect.",
	events.FailAttemptsExhausted:    "Every attempt allowed for this message had no effect.",
	events.FailDeliveryTimeout:      "WhatsApp did not confirm in time whether the message was sent.",
	events.FailNotConfirmed:         "The message was sent, but its delivery was never confirmed.",
	events.FailOptedOut:             "The recipient opted out before it was sent.",
	events.FailNotOnWhatsApp:        "The destination number is not on WhatsApp.",
	events.FailGatewayRejected:      "WhatsApp rejected the message.",
	events.FailRequestInvalid:       "The message could not be handed to WhatsApp in this form.",
	events.FailInstanceNotFound:     "The WhatsApp number that should send the message is not connected to the gateway.",
	events.FailDuplicateSuppressed:  "The same message was the last one sent to this number; it was not sent again.",
	events.FailContentErased:        "The content was erased before the message was sent.",
}

// ErrorMessage is the fixed sentence that customers read beside an error code. It never holds a value of the message.
func ErrorMessage(code events.ErrorCode) string {
	if s, ok := errorMessages[code]; ok {
		return s
	}
	return "The message could not be delivered."
}
