package proxy

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// certificateEvery is how often the files of a certificate are read again. Their
// content is compared, not their times: what mounts secrets moves links about.
const certificateEvery = time.Second

// Certificate is the pair of files that the public listener proves itself with.
// It follows them while a Server serves, so that a renewed certificate needs no
// restart.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	current           atomic.Pointer[tls.Certificate]
	seen              [sha256.Size]byte // of the files as last read, good or bad
	bad               bool              // they were no pair then
}

// NewCertificate reads a PEM chain and its private key. Its error names the files
// and the remedy. log gets what the files have to say later; nil discards it.
func NewCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	if _, err := c.read(); err != nil {
		return nil, err
	}
	if leaf := c.current.Load().Leaf; leaf != nil && time.Now().After(leaf.NotAfter) {
		log.Warn("the certificate has expired; clients will refuse it", "cert_file", certFile, "not_after", leaf.NotAfter)
	}
	return c, nil
}

// read reads the files and puts the pair in use. It reports whether the files
// are others than when they were last read.
func (c *Certificate) read() (changed bool, err error) {
	chain, err := os.ReadFile(c.certFile)
	key, keyErr := os.ReadFile(c.keyFile)
	var problems []error
	if err != nil {
		problems = append(problems, fmt.Errorf("proxy: tls.cert_file: %w", err))
	}
	if keyErr != nil {
		problems = append(problems, fmt.Errorf("proxy: tls.key_file: %w", keyErr))
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %v %v\n", len(chain), err, keyErr)
	sum.Write(chain)
	sum.Write(key)
	now := [sha256.Size]byte(sum.Sum(nil))
	if now == c.seen {
		return false, nil
	}
	c.seen = now
	if len(problems) > 0 {
		return true, errors.Join(problems...)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return true, fmt.Errorf("proxy: tls.cert_file %q and tls.key_file %q are no pair of a PEM certificate chain and its private key: %w",
			c.certFile, c.keyFile, err)
	}
	c.current.Store(&pair)
	return true, nil
}

// follow reads the files again until ctx ends. A pair that is broken changes
// nothing and is told once: files are often written one after the other.
func (c *Certificate) follow(ctx context.Context) {
	tick := time.NewTicker(certificateEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := c.read()
		switch {
		case err != nil:
			if !c.bad {
				c.log.WarnContext(ctx, "the certificate's files changed and cannot be used; the last good pair stays in use", "error", err)
			}
			c.bad = true
		case changed:
			c.bad = false
			c.log.InfoContext(ctx, "the certificate was read again", "cert_file", c.certFile, "not_after", c.current.Load().Leaf.NotAfter)
		}
	}
}

// NotAfter is when the certificate in use ends.
func (c *Certificate) NotAfter() time.Time { return c.current.Load().Leaf.NotAfter }

// config is how the public listener speaks TLS. The ciphers are Go's choice.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
