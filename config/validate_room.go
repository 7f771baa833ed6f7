package config

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// embeddedMaxWaiting is the longest line of the embedded Redis.
const embeddedMaxWaiting = 1000

// minWindow is the least duration of a session or window: below it a visitor
// could not answer in time even on a good network.
const minWindow = 100 * time.Millisecond

// hiddenTabPoll is how often browsers let a hidden tab poll.
const hiddenTabPoll = time.Minute

var (
	roomName      = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
	statusPattern = regexp.MustCompile(`^[1-5]([0-9][0-9]|xx)$`)
)

// reservedRooms are names that would hide an endpoint of the gate.
var reservedRooms = []string{"auth"}

func (k *checker) rooms() {
	if len(k.c.Rooms) == 0 {
		k.fail("rooms", "at least one room is required; without one nothing is protected")
	}
	names := map[string]int{}
	for i, r := range k.c.Rooms {
		key := index("rooms", i)
		k.name(key, r.Name)
		if first, twice := names[r.Name]; twice && r.Name != "" {
			k.fail(key+".name", "is also the name of rooms[%d]; names must be unique%s", first, got(r.Name))
		} else {
			names[r.Name] = i
		}
		k.rules(key, r)
		k.limits(key, r)
		k.durations(key, r)
		k.contradictions(key, r)
		k.choices(key, r)
		k.identity(key+".identity", r.Identity)
		k.cookie(key+".cookie", r)
		k.page(key+".page", r)
		k.embedded(key, r)
		k.rehearse(key, r)
	}
	k.sharedPaths()
}

func (k *checker) name(key, name string) {
	switch {
	case name == "":
		k.fail(key+".name", "is required, 1 to 40 of a-z, 0-9 and \"-\"")
	case !roomName.MatchString(name):
		k.fail(key+".name", "must be 1 to 40 of a-z, 0-9 and \"-\"%s", got(name))
	case slices.Contains(reservedRooms, name):
		k.fail(key+".name", "is reserved for an endpoint of the gate; take another name%s", got(name))
	}
}

func (k *checker) limits(key string, r Room) {
	k.notNegative(key+".total_active_users", r.TotalActiveUsers)
	k.notNegative(key+".new_users_per_minute", r.NewUsersPerMinute)
	k.notNegative(key+".burst", r.Burst)
	k.notNegative(key+".max_waiting", r.MaxWaiting)
	k.notNegative(key+".max_in_flight", r.MaxInFlight)
	if !k.judge(key+".total_active_users", key+".new_users_per_minute", key+".burst") {
		return
	}
	if r.TotalActiveUsers == 0 && r.NewUsersPerMinute == 0 {
		k.problems = append(k.problems, Problem{Key: key,
			Message: "needs a limit: total_active_users, new_users_per_minute or both"})
	}
	switch {
	case r.Burst > 0 && r.NewUsersPerMinute == 0:
		k.fail(key+".burst", "needs new_users_per_minute; without a rate there is no burst%s", got(strconv.Itoa(r.Burst)))
	case r.Burst > r.NewUsersPerMinute && r.NewUsersPerMinute > 0:
		k.fail(key+".burst", "must not be above new_users_per_minute (%d > %d)", r.Burst, r.NewUsersPerMinute)
	}
}

func (k *checker) durations(key string, r Room) {
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{".session_duration", r.SessionDuration},
		{".claim_window", r.ClaimWindow},
		{".presence_window", r.PresenceWindow},
		{".waiting_timeout", r.WaitingTimeout},
	} {
		if d.value < minWindow {
			k.fail(key+d.key, "must be at least %s%s", short(minWindow), got(short(d.value)))
		}
	}
	if r.SessionMax < 0 {
		k.fail(key+".session_max", "must not be negative; 0s means no end%s", got(short(r.SessionMax)))
	}
	if r.Consume.RejoinAfter < 0 {
		k.fail(key+".consume.rejoin_after", "must not be negative%s", got(short(r.Consume.RejoinAfter)))
	}
	const hidden = "is below 60s, and hidden tabs poll only once a minute: people who switch tabs lose %s (it is %s)"
	if r.ClaimWindow >= minWindow && r.ClaimWindow < hiddenTabPoll {
		k.warn(key+".claim_window", hidden, "their turn", short(r.ClaimWindow))
	}
	if r.WaitingTimeout >= minWindow && r.WaitingTimeout < hiddenTabPoll {
		k.warn(key+".waiting_timeout", hidden, "their place", short(r.WaitingTimeout))
	}
}

// contradictions are pairs of values that cannot both be meant.
func (k *checker) contradictions(key string, r Room) {
	if r.SessionMax > 0 && k.judge(key+".session_max") {
		if r.ClaimWindow > r.SessionMax {
			k.fail(key+".claim_window", "must not be above session_max (%s > %s)", short(r.ClaimWindow), short(r.SessionMax))
		}
		if r.SessionDuration > r.SessionMax {
			k.fail(key+".session_duration", "must not be above session_max (%s > %s)", short(r.SessionDuration), short(r.SessionMax))
		}
	}
	if len(r.Consume.Routes) > 0 && len(r.Consume.Success) == 0 {
		k.fail(key+".consume.success", "at least one status is required, such as 2xx; without one no order would use the pass up")
	}
	if len(r.Consume.Routes) == 0 && r.Consume.RejoinAfter > 0 {
		k.fail(key+".consume.rejoin_after", "needs consume.routes: without them nobody is known to have ordered%s", got(short(r.Consume.RejoinAfter)))
	}
	if r.OnRedisError == RedisErrorOpen && r.MaxInFlight == 0 && k.judge(key+".max_in_flight") {
		k.fail(key+".on_redis_error", "\"open\" needs max_in_flight, the only bound left while Redis is away")
	}
	k.shadow(key, r)
	if r.QueueingMethod == QueuePassthrough && r.QueueAll && k.judge(key+".queueing_method") {
		k.fail(key+".queue_all", "must not be set with queueing_method: passthrough, which lets everybody pass; remove one of them")
	}
}

// shadow refuses what leaves nothing to decide in shadow, and says what shadow means.
func (k *checker) shadow(key string, r Room) {
	at := key + ".shadow"
	switch {
	case !r.Shadow:
	case r.Suspended && k.judge(key+".suspended"):
		k.fail(at, "must not be set with suspended: a room that is off decides nothing; remove one of them")
	case r.QueueingMethod == QueuePassthrough && k.judge(key+".queueing_method"):
		k.fail(at, "must not be set with queueing_method: passthrough, which has no line; remove one of them")
	default:
		k.warn(at, "diverts nobody: the room only counts whom it would; remove it before the sale")
	}
}

func (k *checker) choices(key string, r Room) {
	k.oneOf(key+".queueing_method", r.QueueingMethod, QueueFIFO, QueueRandom, QueuePassthrough, QueueReject)
	k.oneOf(key+".on_redis_error", r.OnRedisError, RedisErrorClosed, RedisErrorOpen, RedisErrorStrict)
	switch r.QueueingStatusCode {
	case http.StatusTooManyRequests, http.StatusOK, http.StatusAccepted, http.StatusServiceUnavailable:
	default:
		k.fail(key+".queueing_status_code", "must be 429, 200, 202 or 503%s", got(strconv.Itoa(r.QueueingStatusCode)))
	}
	for i, status := range r.Consume.Success {
		if !statusPattern.MatchString(status) {
			k.fail(index(key+".consume.success", i), "must be a status such as 201 or 2xx%s", got(status))
		}
	}
	if r.Upstream != "" {
		k.upstream(key+".upstream", r.Upstream)
	}
}

func (k *checker) embedded(key string, r Room) {
	if k.c.EmbeddedRedis() && r.MaxWaiting > embeddedMaxWaiting && k.judge("redis.url", "redis.addrs") {
		k.fail(key+".max_waiting", "must not be above %d with the embedded Redis; set redis.url for a longer line%s",
			embeddedMaxWaiting, got(strconv.Itoa(r.MaxWaiting)))
	}
}
