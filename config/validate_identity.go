package config

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// minRSA is the least size of an RSA key in bits.
const minRSA = 2048

// fieldName matches the name of a header or cookie.
var fieldName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")

// notIdentity are headers that say nothing of who somebody is, or that the gate
// never sees under their name.
var notIdentity = []string{"host", "cookie", "connection", "x-entry-token", "x-queue-ticket", "x-forwarded-for"}

// Reasons a key of the shop cannot be used for.
var (
	errNotPEM     = errors.New("is not one PEM block that can be read")
	errPrivateKey = errors.New("is a private key; give its public half and keep this one in the shop")
	errCurve      = errors.New("is an ECDSA key of another curve than P-256")
	errRSA        = fmt.Errorf("is an RSA key of less than %d bits", minRSA)
)

// PublicKey is the key of a Secret that is PEM text: ed25519.PublicKey,
// *ecdsa.PublicKey on P-256 or *rsa.PublicKey of at least 2048 bits. It is nil
// without an error for a Secret that is not PEM text. No error holds anything of
// the text.
func (s Secret) PublicKey() (crypto.PublicKey, error) {
	if !isPEM(s.Reveal()) {
		return nil, nil
	}
	block, rest := pem.Decode([]byte(strings.TrimSpace(s.Reveal())))
	if block == nil || len(rest) > 0 {
		return nil, errNotPEM
	}
	var key crypto.PublicKey
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
		return nil, errPrivateKey
	default:
		return nil, errors.New("is PEM text of another kind than PUBLIC KEY")
	}
	if err != nil {
		return nil, errNotPEM
	}
	switch k := key.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return nil, errCurve
		}
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return nil, errRSA
		}
	default:
		return nil, errors.New("is a key of another kind than Ed25519, ECDSA or RSA")
	}
	return key, nil
}

// identity checks where a room finds the shop's name for a visitor.
func (k *checker) identity(key string, id Identity) {
	if id.Header != "" {
		k.fieldName(key+".header", id.Header)
		if slices.Contains(notIdentity, strings.ToLower(id.Header)) || strings.HasPrefix(strings.ToLower(id.Header), "x-queuegate-") {
			k.fail(key+".header", "cannot name a visitor; take a header that your own proxy sets%s", got(id.Header))
		}
		if len(k.c.TrustedProxies) == 0 && k.judge("trusted_proxies") {
			k.fail(key+".header", "needs trusted_proxies: anybody could write this header, so it is believed only from your own proxies")
		}
	}
	j := id.JWT
	jwt := key + ".jwt"
	if j.Cookie == "" && j.Header == "" && j.Issuer == "" && j.Audience == "" && !j.InUse() && j.Claim == DefaultRoom().Identity.JWT.Claim {
		return
	}
	if !j.InUse() && k.judge(jwt+".keys") {
		k.fail(jwt+".keys", "at least one is needed: without a key no token can be verified, and each would name nobody")
	}
	if j.Cookie == "" && j.Header == "" && k.judge(jwt+".cookie", jwt+".header") {
		k.fail(jwt, "needs cookie or header, where the token is found")
	}
	if j.Claim == "" {
		k.fail(jwt+".claim", "must not be empty; the default is sub")
	}
	if j.Cookie != "" {
		k.fieldName(jwt+".cookie", j.Cookie)
	}
	if j.Header != "" {
		k.fieldName(jwt+".header", j.Header)
	}
	for i, secret := range j.Keys {
		k.identityKey(index(jwt+".keys", i), secret)
	}
}

func (k *checker) fieldName(key, name string) {
	if !fieldName.MatchString(name) {
		k.fail(key, "must be the name of a header or cookie such as X-Member-Id%s", got(name))
	}
}

// identityKey checks one key of the shop. It is never quoted.
func (k *checker) identityKey(key string, s Secret) {
	public, err := s.PublicKey()
	switch {
	case s == "":
		k.fail(key, "must not be empty; remove the item")
	case err != nil:
		k.fail(key, "%s", err)
	case public == nil && len(s) < minSecret:
		k.fail(key, "must be a secret of at least %d bytes, a public key in PEM, or a file that begins with \"/\" or \"./\"; it has %d bytes",
			minSecret, len(s))
	case public == nil:
		if why := weakness(s); why != "" {
			k.fail(key, "%s; whoever guesses it can be anybody", why)
		}
	}
}
