package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// deafLine is a line that no Redis answers.
func deafLine(t testing.TB) *Line {
	nobody := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = nobody.Close() })
	l, err := New(Options{Redis: nobody, Room: "checkout", Limits: Limits{Slots: 1}})
	require.NoError(t, err)
	return l
}

// replyOf makes of JSON what go-redis makes of a reply: texts, whole numbers, lists and
// nothing.
func replyOf(text string) ([]any, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var list []any
	if d.Decode(&list) != nil {
		return nil, false
	}
	var plain func(v any) any
	plain = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if n, err := v.Int64(); err == nil {
				return n
			}
			return v.String()
		case []any:
			for i := range v {
				v[i] = plain(v[i])
			}
		}
		return v
	}
	return plain(list).([]any), true
}

const fuzzedHeader = `["id",1000,1796000000123,7,3,"open",12,"2",200,3000,50,1500000,"20000",0]`

// FuzzReply: whatever Redis answers, a gate takes it for an error or for standings
// that make sense: a pass has an admission, a place and an end; nobody is told what
// was said to another call; numbers stay where Lua and JavaScript hold them exactly.
func FuzzReply(f *testing.F) {
	for _, rest := range []string{
		`"away",5,3,90000`, `"waiting",5,-1,90000`, `"ready",5,"adm",91000,1000,""`, `"active","5","adm","301000",1000,"order1"`,
		`"ended",5,"consumed","adm"`, `"","full"`, `"ready",5,"",91000,1000,""`, `"active",0,"adm",0,0,""`, `"ready",9007199254740993,"a",1,1,""`,
		`"active",5,"adm",9223372036854775807,1000,""`, `"waiting",1.5,"1e3",null`, `null`, `["ready"]`, `"admitted",1`, `["away",5,3,90000]`,
	} {
		f.Add("["+fuzzedHeader+","+rest+"]", "id", uint8(1))
	}
	f.Add("["+fuzzedHeader+`,"away",5,3,90000,"","full"]`, "id", uint8(2))
	f.Add("["+fuzzedHeader+`,"away",5,3,90000,"waiting",6,4]`, "id", uint8(2))
	f.Add("["+fuzzedHeader+`,"away",5,3,90000,""]`, "id", uint8(1))
	f.Add(`["id"]`, "id", uint8(0))
	f.Add(`[[]]`, "id", uint8(0))
	f.Add("["+strings.Replace(fuzzedHeader, "1000,", "9223372036854775807,", 1)+"]", "id", uint8(0))
	l := deafLine(f)
	f.Fuzz(func(t *testing.T, text, id string, n uint8) {
		raw, ok := replyOf(text)
		if !ok {
			return
		}
		r, err := parseReply(raw, id)
		if err != nil {
			require.ErrorIs(t, err, ErrReply)
			require.Empty(t, r.rest, "what is not understood is not handed on")
			return
		}
		require.Equal(t, id, fmt.Sprint(raw[0].([]any)[0]), "the answer to another call is told")
		requireExact(t, r.room.Now, r.room.Epoch, r.room.Generation, r.room.Waiting, r.room.Holding, r.room.Limits.Slots, r.room.Limits.PerMinute)
		standings, err := l.standings(r, int(n))
		if err != nil {
			require.ErrorIs(t, err, ErrReply)
			require.Empty(t, standings)
			return
		}
		require.Len(t, standings, int(n))
		for _, s := range standings {
			requireSense(t, s)
		}
	})
}

func requireExact(t *testing.T, numbers ...int64) {
	for _, n := range numbers {
		require.LessOrEqual(t, max(n, -n), int64(1)<<53)
	}
}

func requireSense(t *testing.T, s Standing) {
	require.Contains(t, []State{Unknown, Away, Waiting, Ready, Active, Ended}, s.State)
	require.Positive(t, s.Poll)
	requireExact(t, s.Place, s.Ahead, s.Due, s.Lease.End, s.Lease.Started)
	if s.State != Ready && s.State != Active {
		require.Zero(t, s.Lease, "%s with a lease", s.State)
		return
	}
	require.NotEmpty(t, s.Lease.Admission)
	require.Positive(t, s.Lease.End)
	require.Positive(t, s.Lease.Place)
	const century = 100 * 365 * 24 * 3600 * 1000 // a Duration holds three
	if left := s.Lease.End - s.Room.Now; max(left, -left) < century {
		require.Equal(t, left, s.Lease.Until.Sub(s.Room.Clock).Milliseconds(), "the end by one clock is the end by the other")
	}
}

const fuzzedControls = `{"version":3,"file":{"state":"open","total_active_users":"200","new_users_per_minute":"0","burst":"0","session_duration":"5m0s","session_max":"2h0m0s","disable_session_renewal":"false","message":""},"live":{"state":{"value":"paused","by":"ann","at":"2026-11-30T00:00:00Z"}}}`

// A gate of a later version may have set what this one does not know.
func TestLiveValuesThatCannotBeReadLeaveTheFilesInForce(t *testing.T) {
	for _, live := range []string{
		`"state":{"value":"of a later version"}`, `"session_duration":{"value":"soon"}`, `"session_duration":{"value":"0s"}`, `"total_active_users":{"value":"-1"}`,
		`"new_users_per_minute":{"value":"many"}`, `"disable_session_renewal":{"value":"perhaps"}`, `"message":{"value":"\u0000"}`, `"of_a_later_version":{"value":"1"}`,
	} {
		record := strings.Replace(fuzzedControls, `"state":{"value":"paused","by":"ann","at":"2026-11-30T00:00:00Z"}`, live, 1)
		require.NotEqual(t, fuzzedControls, record)
		c, err := parseControls(record)
		require.NoError(t, err)
		in, err := c.inForce()
		require.NoError(t, err)
		require.Equal(t, Settings{State: Open, Limits: Limits{Slots: 200}, Session: 5 * time.Minute, SessionMax: 2 * time.Hour}, in, live)
		_, err = c.with(Change{By: "ben", Set: map[Setting]string{SettingSlots: "-2"}}, time.Now())
		require.ErrorIs(t, err, ErrSetting, "who sets one is still told")
	}
	c, err := parseControls(`{"live":{"message":{"value":"x"}}}`)
	require.NoError(t, err)
	_, err = c.inForce()
	require.Error(t, err, "a record without a file's values is refused, and nothing falls over")
}

// FuzzRecords: the texts that the scripts keep in Redis are read whole or not at all,
// and what is read says the same when it is written again.
func FuzzRecords(f *testing.F) {
	f.Add("1000 5 10 0 20 3 15 2", "1 359 1796000000123 7 3 open 0 12 1 2 200 3000 1 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 3:4 67:1", "12 consumed adm",
		fuzzedControls)
	f.Add("1 2", "2 new form", "x", "{}")
	f.Add("1 2 3", "1", "9007199254740993 left -", `{"version":-1,"file":{"burst":"-1"},"live":{"burst":{"value":"9223372036854775807"}}}`)
	f.Add("1 2 3 9223372036854775807 4 -9223372036854775808", "1 0 0 0 0 - 0", "1 a b c", "null")
	l := deafLine(f)
	f.Add("0", "", "0", `{"live":{"":{}}}`)
	f.Add("0", "", "0", strings.Replace(fuzzedControls, "paused", "of a later version", 1))
	f.Add("0", "", "0", strings.Replace(fuzzedControls, `"state":{"value":"paused"`, `"session_duration":{"value":"0s"`, 1))
	f.Fuzz(func(t *testing.T, snap, point, over, controls string) {
		l.snapshot.Store(nil)
		if err := l.keepSnapshot(snap); err != nil {
			require.ErrorIs(t, err, ErrReply)
			require.Nil(t, l.snapshot.Load(), "half a snapshot is none")
		} else {
			requireMonotone(t, l.snapshot.Load())
		}
		if p, known, err := parsePoint(point); err != nil {
			require.ErrorIs(t, err, ErrReply)
			require.False(t, known)
		} else if known {
			require.Equal(t, time.UTC, p.At.Location())
			_, _ = p.Waits.Quantile(0.5)
		}
		if e, ok := parseEnd("v", over); ok {
			place, _ := strconv.ParseInt(strings.Fields(over)[0], 10, 64)
			require.Equal(t, end{visitor: "v", place: place, why: Why(strings.Fields(over)[1]), admission: strings.Fields(over)[2]}, e)
		}
		requireControls(t, controls)
	})
}

func requireMonotone(t *testing.T, s *snapshot) {
	require.True(t, slices.IsSortedFunc(s.index, func(a, b mark) int { return int(min(1, max(-1, a.place-b.place))) }))
	last := int64(-1 << 62)
	for i, m := range s.index {
		ahead, ok := s.ahead(m.place)
		require.True(t, ok)
		if i > 0 {
			require.GreaterOrEqual(t, ahead, last, "nobody farther back has fewer people ahead")
			between, ok := s.ahead((s.index[i-1].place + m.place) / 2)
			require.True(t, ok)
			require.GreaterOrEqual(t, between, min(last, ahead))
			require.LessOrEqual(t, between, max(last, ahead))
		}
		last = ahead
	}
}

func requireControls(t *testing.T, record string) {
	c, err := parseControls(record)
	if err != nil {
		require.ErrorIs(t, err, ErrReply)
		return
	}
	again, err := json.Marshal(c)
	require.NoError(t, err)
	same, err := parseControls(string(again))
	require.NoError(t, err)
	require.True(t, sameRecord(c, same), "%s", again)
	in, err := c.inForce()
	if err != nil {
		return // a record that no gate wrote: the values in force stay what they were
	}
	require.Contains(t, RoomStates(), in.State)
	require.True(t, in.Limits.Slots > 0 || in.Limits.PerMinute > 0, "a room without any limit")
	require.LessOrEqual(t, in.Limits.Burst, in.Limits.PerMinute)
	require.Positive(t, in.Session)
	require.True(t, in.SessionMax == 0 || in.Session <= in.SessionMax)
}
