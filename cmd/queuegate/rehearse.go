package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/queuegate/queuegate/queue"
)

// rehearsalPatience bounds each question that a check asks over the network.
const rehearsalPatience = 2 * time.Second

// reach tells what a gate with these parts would find wrong at the other ends: the
// shops that take no connection, a Redis that does not answer, and its settings that
// will hurt.
func (b *built) reach(ctx context.Context) []string {
	var found []string
	shops := []struct{ key, address string }{{"upstream.url", b.config.Upstream.URL}}
	for i, room := range b.config.Rooms {
		if room.Upstream != "" {
			shops = append(shops, struct{ key, address string }{fmt.Sprintf("rooms[%d].upstream", i), room.Upstream})
		}
	}
	for _, shop := range shops {
		if err := dialShop(ctx, shop.address); err != nil {
			found = append(found, fmt.Sprintf("%s: the shop takes no connection: %v; start it, or name its address", shop.key, err))
		}
	}
	if b.config.EmbeddedRedis() {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, rehearsalPatience)
	defer cancel()
	inspector := queue.Inspector{Redis: b.redis, Sentinel: b.config.Redis.MasterName != ""}
	settings, err := inspector.Inspect(ctx)
	if err != nil {
		fault := queue.FaultOf(err)
		return append(found, fmt.Sprintf("redis: could not be asked about its settings (%s): %v", fault.Name, err))
	}
	for _, s := range settings {
		place := "redis"
		if s.Node != "" {
			place += " " + s.Node
		}
		found = append(found, fmt.Sprintf("%s: %s %s", place, s.Setting, s.Problem))
	}
	return found
}

// dialShop opens one connection, as the gate would, and closes it.
func dialShop(ctx context.Context, address string) error {
	at, err := url.Parse(address)
	if err != nil {
		return err
	}
	port := at.Port()
	if port == "" {
		port = at.Scheme // net knows http and https
	}
	conn, err := (&net.Dialer{Timeout: rehearsalPatience}).DialContext(ctx, "tcp", net.JoinHostPort(at.Hostname(), port))
	if err != nil {
		return err
	}
	return conn.Close()
}
