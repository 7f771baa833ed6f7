package config

import "time"

// Default is the configuration before the file and the environment. It has no
// rooms and is therefore not valid by itself.
func Default() Config {
	return Config{
		Listen: ":8080",
		Prefix: "/_queue",
		Upstream: Upstream{
			URL:             "http://127.0.0.1:9000",
			DialTimeout:     2 * time.Second,
			ResponseTimeout: time.Minute,
			MaxRequest:      15 * time.Minute,
		},
		Redis:     Redis{KeyPrefix: "qg", Timeout: 100 * time.Millisecond},
		Token:     Token{Issuer: "queuegate"},
		Admin:     Admin{Listen: "127.0.0.1:9090"},
		JoinLimit: JoinLimit{IPv4Prefix: 32, IPv6Prefix: 64},
		Log:       Log{Level: "info", Format: "json"},
		Shutdown:  Shutdown{DrainDelay: 5 * time.Second, Grace: 30 * time.Second},
	}
}

// DefaultRoom is a room before its keys in the file. Name, Protect and one of
// the two limits have no default.
func DefaultRoom() Room {
	return Room{
		DefaultExempt:      true,
		QueueingMethod:     QueueFIFO,
		SessionDuration:    5 * time.Minute,
		SessionMax:         2 * time.Hour,
		ClaimWindow:        90 * time.Second,
		PresenceWindow:     10 * time.Second,
		WaitingTimeout:     30 * time.Minute,
		QueueingStatusCode: 429,
		OnRedisError:       RedisErrorClosed,
		Identity:           Identity{JWT: IdentityJWT{Claim: "sub"}},
		Consume:            Consume{Success: []string{"2xx"}},
		Cookie:             Cookie{SameSite: SameSiteLax, Secure: SecureAuto},
		Page: Page{
			ShowNumbers:     true,
			Languages:       []string{"en", "ko", "ja"},
			DefaultLanguage: "en",
		},
	}
}
