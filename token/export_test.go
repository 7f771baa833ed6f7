package token

import "crypto/sha256"

// CacheLen is how many passes c remembers.
func CacheLen(c *Cache) (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		n += len(s.recent) + len(s.before)
		s.mu.RUnlock()
	}
	return n
}

// CacheHolds reports whether c remembers the token raw.
func CacheHolds(c *Cache, raw string) bool {
	key := cacheKey(sha256.Sum256([]byte(raw)))
	s := &c.shards[key[0]%cacheShards]
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, recent := s.recent[key]
	_, before := s.before[key]
	return recent || before
}
