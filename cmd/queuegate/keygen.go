package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	"github.com/spf13/cobra"
)

// keygenCommand prints a new signing secret, 32 random bytes in 43 characters, or a new
// private key in PEM.
func keygenCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "keygen", Short: "Print a new secret for token.secret or a key for token.private_key (the same one goes to every gate)",
		Args: cobra.NoArgs,
	}
	kind := cmd.Flags().String("type", "secret", "`what` to make: secret, or a private key: ed25519 or p256")
	cmd.RunE = func(*cobra.Command, []string) error {
		text, err := newKey(*kind)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(p.stdout, text)
		return err
	}
	return cmd
}

// newKey makes what is asked for.
func newKey(kind string) (string, error) {
	var private any
	var err error
	switch kind {
	case "secret":
		return newSecret(), nil
	case "ed25519":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case "p256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		return "", usageError{fmt.Errorf("queuegate keygen: --type must be secret, ed25519 or p256 (got %q)", kind)}
	}
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return string(block[:len(block)-1]), nil // the line end comes with the printing
}

func newSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: the program ends first
	return base64.RawURLEncoding.EncodeToString(secret)
}
