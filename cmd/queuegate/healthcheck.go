package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/config"
)

// healthcheckTimeout is under the 3 s that container engines give by default.
const healthcheckTimeout = 2 * time.Second

// healthcheckCommand asks the running process whether it is alive, for
// containers that have no shell and no curl.
func healthcheckCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "healthcheck", Short: "Ask the running gate's admin listener for /healthz; exit 0 when it answers", Args: cobra.NoArgs,
	}
	addr := cmd.Flags().String("admin", "", "the admin `address` to ask, instead of the configuration's")
	path := cmd.Flags().StringP("config", "c", "", "the configuration `file` of the running gate (default: only QUEUEGATE_ADMIN_LISTEN, else 127.0.0.1:9090)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		listen := *addr
		switch {
		case listen != "":
		case *path != "":
			c, _, err := load(*path, p)
			if err != nil {
				return err
			}
			listen = c.Admin.Listen
		default:
			listen = lookup(p.environ, "QUEUEGATE_ADMIN_LISTEN", config.Default().Admin.Listen)
		}
		url, err := adminURL(listen)
		if err != nil {
			return usageError{fmt.Errorf("queuegate healthcheck: %w", err)}
		}
		return askHealth(cmd.Context(), url+"/healthz")
	}
	return cmd
}

// adminURL turns an address to listen on into the URL to ask from the same machine.
func adminURL(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("admin address %q: want host:port", listen)
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified(): // it may take IPv6 alone
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

func askHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{}}).Do(req)
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("healthcheck: %s answered %s", url, resp.Status)
	}
	return nil
}

// lookup finds a variable in an environment list.
func lookup(environ []string, name, fallback string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok && value != "" {
			return value
		}
	}
	return fallback
}
