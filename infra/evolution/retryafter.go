package evolution

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of Verdict.RetryAfter. The upper one keeps a broken proxy from silencing a number for a day.
const (
	MinRetryAfter = time.Second
	MaxRetryAfter = 5 * time.Minute
)

// retryAfter reads a Retry-After header (RFC 9110 §10.2.3), as seconds or as a date after now, within the bounds. 0 means none was given.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter
		}
		return clamp(time.Duration(seconds) * time.Second)
	}
	date, err := http.ParseTime(value)
	if err != nil || now.IsZero() {
		return 0
	}
	return clamp(date.Sub(now))
}

func clamp(d time.Duration) time.Duration { return min(max(d, MinRetryAfter), MaxRetryAfter) }
