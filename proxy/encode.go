package proxy

import (
	"encoding/json"
	"strconv"
	"time"
)

// appendJSON appends d as encoding/json writes it. A crowd that waits with streams
// open is told thousands of these at a time, and most of what one costs beside its
// system call would be reflection.
func (d *statusDoc) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendMember(dst, "type", d.Type)
	dst = appendMember(dst, "title", d.Title)
	dst = append(appendText(append(dst, `"room":`...), d.Room), ',')
	dst = append(appendText(append(dst, `"status":`...), d.Status), ',')
	dst = append(appendText(append(dst, `"room_state":`...), d.RoomState), ',')
	for _, m := range [...]struct {
		name  string
		value *int64
	}{
		{"position", d.Position}, {"ahead", d.Ahead}, {"behind", d.Behind}, {"waiting", d.Waiting},
		{"estimated_wait_seconds", d.EstimatedWaitSeconds}, {"poll_after_ms", d.PollAfterMS},
	} {
		dst = appendNumber(dst, m.name, m.value)
	}
	dst = append(dst, `"joined_at":`...)
	if d.JoinedAt == nil {
		dst = append(dst, `null,`...)
	} else {
		dst = append(appendTime(dst, *d.JoinedAt), ',')
	}
	dst = appendMember(dst, "ticket", d.Ticket)
	dst = appendNumber(dst, "remaining_stock", d.RemainingStock)
	dst = append(appendText(append(dst, `"message":`...), d.Message), ',')
	dst = appendMember(dst, "entry_token", d.EntryToken)
	if d.EntryExpiresAt != nil {
		dst = append(appendTime(append(dst, `"entry_expires_at":`...), *d.EntryExpiresAt), ',')
	}
	if d.ClaimBefore != nil {
		dst = append(appendTime(append(dst, `"claim_before":`...), *d.ClaimBefore), ',')
	}
	dst = appendMember(dst, "return_to", d.ReturnTo)
	dst[len(dst)-1] = '}'
	return dst
}

// appendMember appends a member unless it is empty, with a comma.
func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(appendText(append(dst, `":`...), value), ',')
}

// appendNumber appends a member that may be null, with a comma.
func appendNumber(dst []byte, name string, n *int64) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	if n == nil {
		return append(dst, `null,`...)
	}
	return append(strconv.AppendInt(dst, *n, 10), ',')
}

func appendTime(dst []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
}

// appendText appends a text; encoding/json writes those that are not plain.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil { // no text fails
				quoted = []byte(`""`)
			}
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
