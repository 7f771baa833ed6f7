package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// environment is a lookup in pairs of name and value.
func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestSettingsThatCannotBeAreNamed(t *testing.T) {
	tests := []struct {
		name, variable, value, want string
	}{
		{"the shop is not for the street", "SHOP_LISTEN", ":9000",
			"shop: SHOP_LISTEN: want an address on loopback or of a private network, as 127.0.0.1:9000, got :9000: nobody may walk around the gate"},
		{"nor for the world", "SHOP_LISTEN", "203.0.113.1:9000",
			"shop: SHOP_LISTEN: want an address on loopback or of a private network, as 127.0.0.1:9000, got 203.0.113.1:9000: nobody may walk around the gate"},
		{"a product has a stock", "SHOP_PRODUCTS", "lantern",
			`shop: SHOP_PRODUCTS: want product=stock, as lantern=100,kite=20, got "lantern"`},
		{"no more than all payments are declined", "SHOP_DECLINE_PERCENT", "101", "shop: SHOP_DECLINE_PERCENT: want 0 to 100, got 101"},
		{"a hold takes time", "SHOP_HOLD", "0s", "shop: SHOP_HOLD: want at least 1ms, got 0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readSettings(environment(tt.variable, tt.value))
			require.EqualError(t, err, tt.want)
			require.ErrorIs(t, err, errSettings)
		})
	}
	_, err := readSettings(environment("SHOP_RABBITMQ_URL", "amqp://127.0.0.1", "SHOP_KAFKA_BROKERS", "127.0.0.1:9092"))
	require.EqualError(t, err, "shop: SHOP_RABBITMQ_URL: one broker is enough: set it or SHOP_KAFKA_BROKERS")
}

func TestEveryVariableIsExplained(t *testing.T) {
	code, err := os.ReadFile("settings.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	variables := regexp.MustCompile(`get\("(SHOP_[A-Z_]+)"`).FindAllSubmatch(code, -1)
	require.NotEmpty(t, variables)
	for _, v := range variables {
		require.Contains(t, string(readme), "`"+string(v[1])+"`")
	}
}
