package main

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/config"
)

// checkCommand judges a configuration the way serve would, without serving.
func checkCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Check the configuration and print every problem; exit 2 when there is one", Args: cobra.NoArgs,
	}
	path := configFlag(cmd)
	connect := cmd.Flags().Bool("connect", false, "also ask Redis and the shops, as from where the gate will run, and warn of what will hurt")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, warnings, err := load(*path, p)
		for _, w := range warnings {
			fmt.Fprintln(p.stderr, "warning:", w)
		}
		if err != nil {
			return err
		}
		// What only the building finds (overlapping rules, keys that do not parse)
		// is a problem of the configuration too.
		built, err := build(c, nil)
		if err != nil {
			return usageError{fmt.Errorf("%s: %w", *path, err)}
		}
		defer built.close()
		if *connect {
			for _, problem := range built.reach(cmd.Context()) {
				fmt.Fprintln(p.stderr, "warning:", problem)
			}
		}
		_, err = fmt.Fprintf(p.stdout, "%s is valid: %d room(s), %d warning(s)\n", *path, len(c.Rooms), len(warnings))
		for i, room := range c.Rooms {
			if len(room.Exempt) == 0 && takesPosts(room) {
				_, err = fmt.Fprintf(p.stdout, "note: rooms[%d] (%s) exempts nothing: payment callbacks on its paths would wait in line\n", i, room.Name)
			}
		}
		return err
	}
	return cmd
}

// takesPosts reports whether a room protects what machines post to.
func takesPosts(room config.Room) bool {
	return slices.ContainsFunc(room.Protect, func(rule config.Rule) bool {
		return len(rule.Methods) == 0 || slices.Contains(rule.Methods, http.MethodPost)
	})
}
