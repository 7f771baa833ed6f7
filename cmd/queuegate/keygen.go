package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/spf13/cobra"
)

// keygenCommand prints a new signing secret: 32 random bytes, 43 characters.
func keygenCommand(p process) *cobra.Command {
	return &cobra.Command{
		Use: "keygen", Short: "Print a new secret for token.secret (the same one goes to every gate)", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, newSecret())
			return err
		},
	}
}

func newSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: the program ends first
	return base64.RawURLEncoding.EncodeToString(secret)
}
