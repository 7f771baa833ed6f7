package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/config"
)

// configCommand shows what the gate would run with. Secrets are masked.
func configCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Print the effective configuration, or with a flag the annotated defaults or the environment names",
		Args: cobra.NoArgs,
	}
	path := configFlag(cmd)
	defaults := cmd.Flags().Bool("defaults", false, "print the annotated example, which holds every key at its default")
	env := cmd.Flags().Bool("env", false, "print the environment variables and the keys they set")
	cmd.RunE = func(*cobra.Command, []string) error {
		switch {
		case *defaults && *env:
			return usageError{errors.New("queuegate config: --defaults and --env print different things; give one of them")}
		case *defaults:
			_, err := p.stdout.Write(config.Example)
			return err
		case *env:
			return printEnv(p)
		}
		c, _, err := load(*path, p)
		if err != nil {
			return err
		}
		text, err := c.YAML(true)
		if err != nil {
			return err
		}
		_, err = p.stdout.Write(text)
		return err
	}
	return cmd
}

func printEnv(p process) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, e := range config.EnvNames() {
		fmt.Fprintf(w, "%s\t%s\n", e.Name, e.Key)
	}
	return w.Flush()
}
