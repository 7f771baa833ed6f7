package config

import (
	"strings"
)

// minSecret is the least length of a signing secret in bytes: the output of
// the hash it keys.
const minSecret = 32

// minAdminToken is the least length of the admin token in bytes.
const minAdminToken = 16

// pemBegin begins every PEM text.
const pemBegin = "-----BEGIN "

// placeholders are words that stand in secrets nobody has replaced yet.
var placeholders = []string{
	"changeme", "changethis", "changeit", "replaceme", "replacethis", "defaultsecret", "default-secret",
	"yoursecret", "mysecret", "supersecret", "secretkey", "insecure", "placeholder", "password", "donotuse",
}

// readKeyFiles replaces the items of token.private_key, token.previous and the
// keys of identities that name a file by what the file holds. A name that cannot be read is never
// taken for the secret itself: whoever guesses the path could sign with it.
func (l *loader) readKeyFiles(c *Config) {
	if key := c.Token.PrivateKey.Reveal(); key != "" && !isPEM(key) {
		c.Token.PrivateKey = l.keyFile("token.private_key", key)
	}
	for i, item := range c.Token.Previous {
		if looksLikePath(item.Reveal()) {
			c.Token.Previous[i] = l.keyFile(index("token.previous", i), item.Reveal())
		}
	}
	for i, room := range c.Rooms {
		for j, item := range room.Identity.JWT.Keys {
			if looksLikePath(item.Reveal()) {
				room.Identity.JWT.Keys[j] = l.keyFile(index(index("rooms", i)+".identity.jwt.keys", j), item.Reveal())
			}
		}
	}
}

// keyFile reads the file a key names. The path is not shown: it may be a
// secret that looks like one.
func (l *loader) keyFile(key, path string) Secret {
	l.files = append(l.files, path)
	data, err := readRegular(path)
	text := strings.TrimSpace(string(data))
	message := ""
	switch {
	case err != nil:
		message = "must be PEM text or a file that can be read: " + reason(err)
		if looksLikePath(path) {
			message = "names a file that cannot be read: " + reason(err) +
				" (a secret that begins with \"/\" or \".\" must be given through a file)"
		}
	case text == "":
		message = "names a file that is empty"
	case key == "token.private_key" && !isPEM(text):
		message = "names a file that holds no PEM text; make one with queuegate keygen --type ed25519"
	default:
		return Secret(text)
	}
	problem := l.locate([]Problem{{Key: key, Message: message, Err: err}})
	l.problems = append(l.problems, problem...)
	l.bad[key] = true
	return ""
}

func isPEM(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), pemBegin) }

func looksLikePath(text string) bool {
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../")
}

// weakness says why a secret is easy to guess, or "".
func weakness(s Secret) string {
	text := s.Reveal()
	lower := strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(text))
	for _, word := range placeholders {
		if strings.Contains(lower, strings.ReplaceAll(word, "-", "")) {
			return "is a well-known placeholder"
		}
	}
	distinct := map[rune]bool{}
	for _, r := range text {
		distinct[r] = true
	}
	if len(distinct) < 8 {
		return "consists of too few different characters"
	}
	for period := 1; period <= 8; period++ {
		if strings.Repeat(text[:period], len(text)/period+1)[:len(text)] == text {
			return "repeats a short piece"
		}
	}
	return ""
}

// signingSecret checks a secret that signs; empty ones are not checked.
func (k *checker) signingSecret(key string, s Secret) {
	switch {
	case s == "":
	case len(s) < minSecret:
		k.fail(key, "must be at least %d bytes, it has %d; make one with queuegate keygen", minSecret, len(s))
	default:
		if why := weakness(s); why != "" {
			k.fail(key, "%s; make one with queuegate keygen", why)
		}
	}
}

func (k *checker) token() {
	t := k.c.Token
	k.signingSecret("token.secret", t.Secret)
	k.privateKey()
	for i, previous := range t.Previous {
		k.previous(index("token.previous", i), previous)
	}
	k.signingSecret("token.identity_secret", t.IdentitySecret)
	if t.Issuer == "" {
		k.fail("token.issuer", "must not be empty; the default is queuegate")
	}
}

func (k *checker) admin() {
	a := k.c.Admin
	k.hostPort("admin.listen", a.Listen)
	if a.Listen == k.c.Listen && !strings.HasSuffix(a.Listen, ":0") {
		k.fail("admin.listen", "must differ from listen; the admin listener is never public%s", got(a.Listen))
	}
	switch {
	case a.Token == "":
		if !isLoopback(a.Listen) {
			k.fail("admin.token", "is required unless admin.listen is loopback (127.0.0.1, ::1, localhost); set it here or by QUEUEGATE_ADMIN_TOKEN_FILE")
		}
	case len(a.Token) < minAdminToken:
		k.fail("admin.token", "must be at least %d characters, it has %d; make one with queuegate keygen", minAdminToken, len(a.Token))
	default:
		if why := weakness(a.Token); why != "" {
			k.fail("admin.token", "%s; make one with queuegate keygen", why)
		}
	}
	k.cidrs("admin.allow", a.Allow)
}
