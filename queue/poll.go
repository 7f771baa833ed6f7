package queue

import "time"

// The two intervals of a waiting visitor. lua/people.lua knows the same: a test
// compares them.
const (
	nearPoll = 1500 * time.Millisecond // among the first nearRank
	farPoll  = 20 * time.Second
	nearRank = 1000
	// nearSeconds: who is admitted within so many seconds of flow is near, too.
	nearSeconds = 20
	longestSign = 100 * time.Second
)

// pollFor is how long the one with so many people ahead may wait before the next
// poll, without jitter.
func (l *Line) pollFor(ahead int64) time.Duration {
	poll := min(farPoll, nearPoll+time.Duration(max(0, ahead-nearRank))*time.Millisecond)
	poll = min(poll, l.opts().ClaimWindow/3, l.opts().WaitingTimeout/3)
	return max(200*time.Millisecond, poll).Truncate(time.Millisecond)
}

// signFor is how long they may go without a poll that Redis hears of; 0 means
// that every poll is heard.
func (l *Line) signFor(ahead int64, flow float64) time.Duration {
	if float64(ahead) < max(nearRank, nearSeconds*flow) {
		return 0
	}
	longest := min(longestSign, l.opts().WaitingTimeout/3)
	if flow > 0 {
		longest = min(longest, time.Duration(float64(ahead)/flow*250)*time.Millisecond)
	}
	return longest.Truncate(time.Millisecond)
}
