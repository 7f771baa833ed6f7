package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/queue"
)

// connect prepares the client of Redis, or starts the embedded one.
func (l *lasting) connect(c *config.Config) error {
	r := c.Redis
	opts := queue.ClientOptions{
		URL: r.URL.Reveal(), Addrs: r.Addrs, MasterName: r.MasterName, Username: r.Username, Password: r.Password.Reveal(),
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword.Reveal(),
		Lines: len(c.Rooms), Timeout: r.Timeout,
	}
	if r.TLS.InUse() {
		var err error
		if opts.TLS, err = redisTLS(r.TLS); err != nil {
			return err
		}
	}
	if c.EmbeddedRedis() {
		opts.Dial, l.stop = newEmbedded()
	}
	client, err := queue.NewClient(opts)
	if err != nil {
		return err
	}
	l.redis = client
	return nil
}

// redisTLS is how the gate speaks TLS with Redis. An empty name of the server
// stands for the host that is connected to, of which there are several.
func redisTLS(t config.RedisTLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redis.tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("redis.tls.ca_file: holds no certificate in PEM")
		}
	}
	if t.CertFile == "" {
		return c, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redis.tls.cert_file and key_file: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	// Read for each connection: they are few, and a certificate that is renewed
	// counts without a restart.
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return c, nil
}
