package main

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/examples/shop/store"
)

// errSettings is returned when the environment asks for what cannot be; the text
// after it names the variable.
var errSettings = errors.New("shop")

// settings are what the environment says. README.md lists the variables.
type settings struct {
	listen   string
	gate     string // "" = none
	prefix   string
	redis    string // "" = embedded
	kafka    []string
	rabbit   string // instead of Kafka
	database string
	products []store.Product
	decline  int           // percent of the payments
	payment  time.Duration // how long each of them takes
	hold     time.Duration // from a take to the question what became of it
	again    time.Duration // until the outbox tries again
	busy     time.Duration // how long a locked database is waited for
	session  time.Duration // until Kafka takes a consumer for dead
}

var productID = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// readSettings reads the environment through lookup.
func readSettings(lookup func(string) (string, bool)) (settings, error) {
	get := func(name, otherwise string) string {
		if value, ok := lookup(name); ok {
			return value
		}
		return otherwise
	}
	s := settings{
		listen: get("SHOP_LISTEN", "127.0.0.1:9000"), gate: get("SHOP_GATE_URL", "http://127.0.0.1:8080"),
		prefix: get("SHOP_GATE_PREFIX", "/_queue"), redis: get("SHOP_REDIS_URL", ""),
		rabbit: get("SHOP_RABBITMQ_URL", ""), database: get("SHOP_DATABASE", "shop.db"),
	}
	if brokers := get("SHOP_KAFKA_BROKERS", ""); brokers != "" {
		s.kafka = strings.Split(brokers, ",")
	}
	var problems []error
	check := func(name string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%w: %s: %w", errSettings, name, err))
		}
	}
	var err error
	s.products, err = readProducts(get("SHOP_PRODUCTS", "lantern=100"))
	check("SHOP_PRODUCTS", err)
	s.decline, err = strconv.Atoi(get("SHOP_DECLINE_PERCENT", "0"))
	if err == nil && (s.decline < 0 || s.decline > 100) {
		err = fmt.Errorf("want 0 to 100, got %d", s.decline)
	}
	check("SHOP_DECLINE_PERCENT", err)
	s.payment, err = time.ParseDuration(get("SHOP_PAYMENT", "0s"))
	check("SHOP_PAYMENT", err)
	s.hold, err = positive(get("SHOP_HOLD", "30s"))
	check("SHOP_HOLD", err)
	s.again, err = positive(get("SHOP_RETRY", "10s"))
	check("SHOP_RETRY", err)
	s.session, err = positive(get("SHOP_KAFKA_SESSION", "10s"))
	check("SHOP_KAFKA_SESSION", err)
	s.busy, err = positive(get("SHOP_DATABASE_BUSY", "5s"))
	check("SHOP_DATABASE_BUSY", err)
	check("SHOP_LISTEN", hidden(s.listen))
	if s.rabbit != "" && len(s.kafka) > 0 {
		check("SHOP_RABBITMQ_URL", errors.New("one broker is enough: set it or SHOP_KAFKA_BROKERS"))
	}
	return s, errors.Join(problems...)
}

// readProducts reads name=stock, several with commas between them.
func readProducts(text string) ([]store.Product, error) {
	var products []store.Product
	for part := range strings.SplitSeq(text, ",") {
		id, total, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(total)
		if err != nil || n < 0 || !productID.MatchString(id) {
			return nil, fmt.Errorf("want product=stock, as lantern=100,kite=20, got %q", part)
		}
		products = append(products, store.Product{ID: id, Name: strings.ToUpper(id[:1]) + id[1:], Total: n})
	}
	return products, nil
}

func positive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d < time.Millisecond {
		err = fmt.Errorf("want at least 1ms, got %s", text)
	}
	return d, err
}

// hidden refuses an address at which others than the gate could reach the shop:
// it believes whatever X-Queuegate-Visitor says.
func hidden(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback() && !ip.IsPrivate()) {
		return fmt.Errorf("want an address on loopback or of a private network, as 127.0.0.1:9000, got %s: nobody may walk around the gate", address)
	}
	return nil
}
