package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/config"
)

// newRoot is the command tree. Errors are printed by run, once.
func newRoot(p process) *cobra.Command {
	root := &cobra.Command{
		Use:           "queuegate",
		Short:         "A virtual waiting room in front of a web shop",
		Long:          "queuegate stands in front of a web shop and lets people through to the protected\nroutes only as fast as the shop can serve them. Everybody else waits in one fair line.",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetVersionTemplate("queuegate {{.Version}}\n")
	root.AddCommand(serveCommand(p), demoCommand(p), checkCommand(p), explainCommand(p), configCommand(p), keygenCommand(p),
		roomsCommand(p), loadCommand(p), healthcheckCommand(p), versionCommand(p))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%s: %w (%[1]s --help)", cmd.CommandPath(), err)}
	})
	strict(root)
	return root
}

// strict makes wrong arguments of a command, and of all below it, a usage error.
func strict(cmd *cobra.Command) {
	cmd.Args = usageArgs(cmd.Args)
	for _, below := range cmd.Commands() {
		strict(below)
	}
}

// usageArgs makes wrong arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("queuegate: %w (see %s --help)", err, cmd.CommandPath())}
		}
		return nil
	}
}

func versionCommand(p process) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, "queuegate", version)
			return err
		},
	}
}

// configFlag adds the flag that names the configuration file.
func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("config", "c", "queuegate.yaml", "the configuration `file`")
}

// load reads the configuration; what is wrong with it is a usage error that
// lists every problem, one a line.
func load(path string, p process) (*config.Config, []config.Problem, error) {
	c, warnings, err := config.Load(path, p.environ)
	if err == nil {
		return c, warnings, nil
	}
	var problems *config.Problems
	if errors.As(err, &problems) {
		return nil, warnings, usageError{problems}
	}
	return nil, warnings, usageError{fmt.Errorf("queuegate: %w", err)}
}
