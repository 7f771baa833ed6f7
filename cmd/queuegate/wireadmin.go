package main

import (
	"fmt"
	"log/slog"

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
		Metrics: parts.metrics.Handler(),
	}
	for _, r := range c.Rooms {
		room := admin.Room{Name: r.Name, Method: r.QueueingMethod, Suspended: r.Suspended}
		if line := parts.lineOf(r.Name); line != nil {
			room.Line = line
		}
		o.Rooms = append(o.Rooms, room)
	}
	return o, nil
}
