package config

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
)

// Reasons a key cannot sign passes, or verify those of before.
var (
	errNoPrivateKey = errors.New("holds no private key that can be read; make one with queuegate keygen --type ed25519")
	errEncrypted    = errors.New("is encrypted; decrypt it (openssl pkey) and protect the file instead")
	errPublicHalf   = errors.New("is a public key, which cannot sign; give the private key")
	errSigningKind  = errors.New("is a key of another kind than Ed25519 or ECDSA on P-256; make one with queuegate keygen --type ed25519")
	errVerifyKind   = errors.New("is a key of another kind than Ed25519 or ECDSA on P-256")
)

// PrivateKey is the signing key of a Secret that is PEM text in PKCS#8 or SEC 1:
// ed25519.PrivateKey or *ecdsa.PrivateKey on P-256. It is nil without an error for an
// empty Secret. No error holds anything of the text.
func (s Secret) PrivateKey() (crypto.Signer, error) {
	text := []byte(strings.TrimSpace(s.Reveal()))
	if len(text) == 0 {
		return nil, nil
	}
	block, rest := pem.Decode(text)
	if block != nil && block.Type == "EC PARAMETERS" { // openssl ecparam writes the curve first
		block, rest = pem.Decode(rest)
	}
	if block == nil || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errNoPrivateKey
	}
	var key any
	var err error
	switch {
	case block.Type == "ENCRYPTED PRIVATE KEY", block.Headers["DEK-Info"] != "":
		return nil, errEncrypted
	case block.Type == "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case block.Type == "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case block.Type == "RSA PRIVATE KEY":
		return nil, errSigningKind
	case strings.HasSuffix(block.Type, "PUBLIC KEY"):
		return nil, errPublicHalf
	default:
		return nil, errNoPrivateKey
	}
	if err != nil { // its text could tell something of the key
		return nil, errNoPrivateKey
	}
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return k, nil
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			return k, nil
		}
	}
	return nil, errSigningKind
}

// VerifyKey is the public key of a Secret that is the PEM text of one or of a private
// key whose half it is: ed25519.PublicKey or *ecdsa.PublicKey on P-256. It is nil
// without an error for a Secret that is not PEM text. No error holds anything of the
// text.
func (s Secret) VerifyKey() (crypto.PublicKey, error) {
	public, err := s.PublicKey()
	if errors.Is(err, errPrivateKey) || s.startsWithCurve() {
		private, err := s.PrivateKey()
		if err != nil {
			return nil, err
		}
		return private.Public(), nil
	}
	switch public.(type) {
	case nil, ed25519.PublicKey, *ecdsa.PublicKey:
		return public, err
	default:
		return nil, errVerifyKind
	}
}

// startsWithCurve reports whether a Secret is a private key as openssl ecparam writes it.
func (s Secret) startsWithCurve() bool {
	return strings.HasPrefix(strings.TrimSpace(s.Reveal()), pemBegin+"EC PARAMETERS")
}

// privateKey checks the key that signs.
func (k *checker) privateKey() {
	t := k.c.Token
	if _, err := t.PrivateKey.PrivateKey(); err != nil {
		k.fail("token.private_key", "%s", err)
	}
	if k.c.EmbeddedRedis() || t.Secret != "" || !k.judge("token.secret", "token.private_key", "token.identity_secret", "redis.url", "redis.addrs") {
		return
	}
	switch {
	case t.PrivateKey == "":
		k.fail("token.secret", "is required with a Redis, the same on all gates; make one with queuegate keygen and set it here or by QUEUEGATE_TOKEN_SECRET_FILE")
	case t.IdentitySecret == "":
		k.fail("token.identity_secret", "is required with token.private_key and without token.secret: tickets are made with it; make one with queuegate keygen and set it here or by QUEUEGATE_TOKEN_IDENTITY_SECRET_FILE")
	}
}

// previous checks a secret or key of before.
func (k *checker) previous(key string, s Secret) {
	public, err := s.VerifyKey()
	switch {
	case s == "":
		k.fail(key, "must not be empty; remove the item")
	case err != nil:
		k.fail(key, "%s", err)
	case public == nil:
		k.signingSecret(key, s)
	}
}
