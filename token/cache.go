package token

import (
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"
)

const (
	// cacheShards share the entries of a Cache, so that requests seldom wait for
	// each other.
	cacheShards = 32

	// DefaultCacheEntries is how many passes a Cache remembers when not told: about
	// 16 MB. An entry takes 250 bytes and never more than 400.
	DefaultCacheEntries = 1 << 16
)

// Cache verifies entry tokens and remembers those that were good, so that a visitor's
// second request costs a hash and not a signature. It gives the same answers as the
// Verifier it is made of: the time, and whether a pass ended early, are judged by the
// caller each time, of a remembered token as of a new one. Bad tokens are never
// remembered, so that nobody without a key can fill it. It is safe for use by any number
// of goroutines.
type Cache struct {
	verifier *Verifier
	shards   [cacheShards]cacheShard
	most     int // entries in one of the two maps of a shard
}

// cacheShard keeps its entries in two maps that take turns: when the younger is full the
// elder is dropped, so that nothing ever has to be looked through.
type cacheShard struct {
	mu     sync.RWMutex
	recent map[cacheKey]Pass
	before map[cacheKey]Pass
}

// cacheKey is the hash of a whole token. Finding another text with the hash of a token
// that is remembered is as hard as forging its signature.
type cacheKey [sha256.Size]byte

// NewCache returns a Cache of at most that many entries, of 64 when it is less; 0 means
// DefaultCacheEntries.
func NewCache(v *Verifier, entries int) (*Cache, error) {
	if v == nil {
		return nil, errors.New("token: cache has no verifier")
	}
	if entries < 0 {
		return nil, errors.New("token: cache of less than no entries; 0 means the default")
	}
	if entries == 0 {
		entries = DefaultCacheEntries
	}
	return &Cache{verifier: v, most: max(entries/cacheShards/2, 1)}, nil
}

// Verify is Verifier.Verify.
func (c *Cache) Verify(raw, room string) (Pass, error) {
	if len(raw) > MaxSize {
		return c.verifier.Verify(raw, room) // refuses it unread
	}
	var text [MaxSize]byte // on the stack, where []byte(raw) would not be
	key := cacheKey(sha256.Sum256(text[:copy(text[:], raw)]))
	shard := &c.shards[key[0]%cacheShards]
	if p, ok := shard.find(key, c.most); ok {
		if p.Room != room {
			return Pass{}, ErrRoom
		}
		return p, nil
	}
	p, err := c.verifier.Verify(raw, room)
	if err != nil {
		return Pass{}, err
	}
	// Nothing of an entry may keep a larger text alive.
	p.Room, p.Visitor, p.Admission = strings.Clone(p.Room), strings.Clone(p.Visitor), strings.Clone(p.Admission)
	shard.keep(key, p, c.most)
	return p, nil
}

// VerifyAt is Verifier.VerifyAt.
func (c *Cache) VerifyAt(raw, room string, now time.Time) (Pass, error) {
	p, err := c.Verify(raw, room)
	return p.at(now, err)
}

// find looks for a pass. What is found among the elder moves to the younger: whoever
// goes on asking is never forgotten.
func (s *cacheShard) find(key cacheKey, most int) (Pass, bool) {
	s.mu.RLock()
	p, ok := s.recent[key]
	old := false
	if !ok {
		p, old = s.before[key]
	}
	s.mu.RUnlock()
	if old {
		s.keep(key, p, most)
	}
	return p, ok || old
}

func (s *cacheShard) keep(key cacheKey, p Pass, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.recent[key]; !known && len(s.recent) >= most || s.recent == nil {
		s.before, s.recent = s.recent, make(map[cacheKey]Pass)
	}
	s.recent[key] = p
}
