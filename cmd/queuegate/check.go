package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// checkCommand judges a configuration the way serve would, without serving.
func checkCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Check the configuration and print every problem; exit 2 when there is one", Args: cobra.NoArgs,
	}
	path := configFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
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
		built.close()
		_, err = fmt.Fprintf(p.stdout, "%s is valid: %d room(s), %d warning(s)\n", *path, len(c.Rooms), len(warnings))
		return err
	}
	return cmd
}
