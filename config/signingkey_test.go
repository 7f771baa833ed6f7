package config_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/config"
)

// pemOf is a key as files hold it.
func pemOf(t *testing.T, kind string, key any) string {
	t.Helper()
	var der []byte
	var err error
	switch kind {
	case "PRIVATE KEY":
		der, err = x509.MarshalPKCS8PrivateKey(key)
	case "EC PRIVATE KEY":
		der, err = x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	default:
		der, err = x509.MarshalPKIXPublicKey(key)
	}
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestKeysThatSignAndVerifyAreReadInEveryUsualForm(t *testing.T) {
	t.Parallel()
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	openssl, err := os.ReadFile("testdata/keys/pass-p256.pem")
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		text    string
		private crypto.Signer
		public  crypto.PublicKey
	}{
		"Ed25519 in PKCS#8":   {pemOf(t, "PRIVATE KEY", ed), ed, edPublic},
		"P-256 in PKCS#8":     {pemOf(t, "PRIVATE KEY", ec), ec, ec.Public()},
		"P-256 in SEC 1":      {pemOf(t, "EC PRIVATE KEY", ec), ec, ec.Public()},
		"with line ends":      {"\n " + pemOf(t, "PRIVATE KEY", ed) + "\r\n", ed, edPublic},
		"an Ed25519 public":   {pemOf(t, "PUBLIC KEY", edPublic), nil, edPublic},
		"a P-256 public":      {pemOf(t, "PUBLIC KEY", ec.Public()), nil, ec.Public()},
		"as openssl makes it": {string(openssl), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			private, err := config.Secret(tt.text).PrivateKey()
			if tt.private == nil && tt.public != nil {
				require.EqualError(t, err, "is a public key, which cannot sign; give the private key")
			} else {
				require.NoError(t, err)
			}
			public, err := config.Secret(tt.text).VerifyKey()
			require.NoError(t, err)
			if tt.public == nil { // whichever key it is
				require.Equal(t, private.Public(), public)
				return
			}
			require.Equal(t, tt.public, public)
			if tt.private != nil {
				require.Equal(t, tt.private, private)
			}
		})
	}
}

func TestASecretIsNoKeyAndNothingIsNone(t *testing.T) {
	t.Parallel()
	public, err := config.Secret(goodSecret).VerifyKey()
	require.NoError(t, err)
	require.Nil(t, public)
	private, err := config.Secret("").PrivateKey()
	require.NoError(t, err)
	require.Nil(t, private)
}

// Trailing text is refused: of two keys in one file it would be chance which signs.
func TestOneFileHoldsOneKey(t *testing.T) {
	t.Parallel()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	one := pemOf(t, "PRIVATE KEY", ed)
	for _, text := range []string{one + one, one + "more", "more" + one} {
		_, err := config.Secret(text).PrivateKey()
		require.Error(t, err)
	}
}
