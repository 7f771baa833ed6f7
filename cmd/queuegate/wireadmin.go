package main

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/proxy/admin"
)

// adminOptions maps the configuration to what the admin listener needs, but for
// readiness.
func adminOptions(c *config.Config, parts *built, log *slog.Logger) (admin.Options, error) {
	allow, err := prefixes(c.Admin.Allow)
	if err != nil {
		return admin.Options{}, fmt.Errorf("admin.allow: %w", err)
	}
	o := admin.Options{
		Version: version, Pages: parts.gate.Pages(), Token: c.Admin.Token.Reveal(), Allow: allow, Pprof: c.Admin.Pprof, Log: log,
		Metrics: parts.metrics.Handler(), ShopRefuses: parts.gate.ShopRefuses,
	}
	for _, r := range c.Rooms {
		room := admin.Room{Name: r.Name, Method: r.QueueingMethod, Suspended: r.Suspended, Shadow: r.Shadow, MaxWaiting: maxWaiting(c, r)}
		if line := parts.lineOf(r.Name); line != nil {
			room.Line = line
		}
		o.Rooms = append(o.Rooms, room)
	}
	return o, nil
}

// gateName is this gate's in its rooms, as operators see it: that of the host, and
// something that no other run of it has, because a gate that begins anew remembers
// nothing.
func gateName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "gate"
	}
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '-'
		}
		return r
	}, host)
	return host + "-" + strings.ToLower(rand.Text()[:6])
}
