package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// store is a Redis server.
type store struct {
	*redis.Client
	url     string
	process *process
}

// startRedis starts a server without persistence.
func (s *stage) startRedis(ctx context.Context) (*store, error) {
	p, addr, err := s.onPort(ctx, "redis", func(port string) (*process, error) {
		return s.start("redis", "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no")
	})
	if err != nil {
		return nil, err
	}
	return &store{redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true}), "redis://" + addr, p}, nil
}

// figures adds up all numbers of INFO that a pattern finds.
func (s *store) figures(ctx context.Context, section, pattern string) (float64, error) {
	info, err := s.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(info, -1)
	if len(found) == 0 {
		return 0, fmt.Errorf("no %s in INFO %s", pattern, section)
	}
	for _, f := range found {
		n, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// cpu is for how many seconds the server has been on a processor.
func (s *store) cpu(ctx context.Context) (float64, error) {
	return s.figures(ctx, "cpu", `(?m)^used_cpu_(?:sys|user):([\d.]+)`)
}

// commands is how many it has run, those of scripts too and those that ask for
// figures aside.
func (s *store) commands(ctx context.Context) (float64, error) {
	if err := s.Ping(ctx).Err(); err != nil { // so that there is one at least
		return 0, err
	}
	all, err := s.figures(ctx, "commandstats", `(?m)^cmdstat_[^:]+:calls=(\d+)`)
	if err != nil {
		return 0, err
	}
	own, err := s.figures(ctx, "commandstats", `(?m)^cmdstat_(?:ping|info):calls=(\d+)`)
	return all - own, err
}
