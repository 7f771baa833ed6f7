package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/queuegate/queuegate/token"
)

const (
	usualLine = "queue"
	usualBeat = "beat:"
	usualLife = 5 * time.Minute
)

// usual is the waiting room of the write-ups: a sorted set in the order of arrival
// and a key with a heartbeat for each visitor. A join is four Redis commands and a
// poll three, one after the other, because the next often depends on the last.
type usual struct{ *redis.Client }

func newUsualClient(url string) (usual, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return usual{}, err
	}
	o.PoolSize, o.DisableIdentity = 4*connections, true
	return usual{redis.NewClient(o)}, nil
}

// join takes a place.
func (u usual) join(ctx context.Context, visitor string) (rank, waiting int64, err error) {
	if err = u.ZAddNX(ctx, usualLine, redis.Z{Score: float64(time.Now().UnixMicro()), Member: visitor}).Err(); err != nil {
		return 0, 0, err
	}
	if err = u.Set(ctx, usualBeat+visitor, 1, usualLife).Err(); err != nil {
		return 0, 0, err
	}
	if rank, err = u.ZRank(ctx, usualLine, visitor).Result(); err != nil {
		return 0, 0, err
	}
	waiting, err = u.ZCard(ctx, usualLine).Result()
	return rank, waiting, err
}

// status tells the place and keeps it.
func (u usual) status(ctx context.Context, visitor string) (rank, waiting int64, err error) {
	if rank, err = u.ZRank(ctx, usualLine, visitor).Result(); err != nil {
		return 0, 0, err
	}
	if waiting, err = u.ZCard(ctx, usualLine).Result(); err != nil {
		return 0, 0, err
	}
	return rank, waiting, u.Expire(ctx, usualBeat+visitor, usualLife).Err()
}

// usualAnswer is as much as such a waiting room tells.
type usualAnswer struct {
	Visitor string `json:"visitor"`
	Status  string `json:"status"`
	Rank    int64  `json:"rank"`
	Waiting int64  `json:"waiting"`
}

// newUsual serves it over HTTP: POST /join, and GET /status with the visitor in
// X-Queue-Ticket.
func newUsual(args []string) (http.Handler, error) {
	if len(args) != 1 {
		return nil, errors.New("usual: which Redis?")
	}
	u, err := newUsualClient(args[0])
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	serve := func(ask func(context.Context, string) (int64, int64, error), visitor func(*http.Request) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			who := visitor(r)
			rank, waiting, err := ask(r.Context(), who)
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			w.Header()["Content-Type"] = []string{"application/json"}
			_ = json.NewEncoder(w).Encode(usualAnswer{who, "waiting", rank, waiting})
		}
	}
	mux.HandleFunc("POST /join", serve(u.join, func(*http.Request) string { return token.NewVisitor() }))
	mux.HandleFunc("GET /status", serve(u.status, func(r *http.Request) string { return r.Header.Get("X-Queue-Ticket") }))
	return mux, nil
}
