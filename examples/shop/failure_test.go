package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/queuegate/queuegate/examples/shop/kafka"
	"github.com/queuegate/queuegate/examples/shop/order"
)

// crowd sends one order each of as many visitors at once and returns how many were
// answered with each status.
func (p *shopProcess) crowd(visitors int) map[int]int {
	var mu sync.Mutex
	answers := map[int]int{}
	var everybody sync.WaitGroup
	for n := range visitors {
		everybody.Go(func() {
			a, err := p.order("/orders", fmt.Sprint("visitor-", n), "key", "1")
			if err != nil {
				a.Code = -1
			}
			mu.Lock()
			defer mu.Unlock()
			answers[a.Code]++
		})
	}
	everybody.Wait()
	return answers
}

func TestOfTwoHundredOrdersAtOnceExactlyTheStockIsSold(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	require.Equal(t, map[int]int{http.StatusAccepted: 100, http.StatusConflict: 100}, p.crowd(200))
	w.await(100, `SELECT COUNT(*) FROM orders`)
	w.await(100, `SELECT COUNT(DISTINCT visitor) FROM orders WHERE quantity = 1`)
	w.await(0, `SELECT COUNT(*) FROM outbox WHERE done_at IS NULL`)
	w.awaitLeft(0)
	require.Eventually(t, func() bool {
		read := int64(0)
		for _, commit := range w.kafka.fake.GroupInfo(kafka.Group).Commits[kafka.Topic] {
			read += commit.Offset
		}
		return read >= 100
	}, patience, tick, "what was handled is not marked as read")

	sold, err := p.order("/orders", "late", "key", "1")
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, sold.Code)
	require.Equal(t, "sold-out", sold.head.Get("X-Queuegate-Command"))
	require.Equal(t, "0", sold.head.Get("X-Queuegate-Stock"))
}

func TestARepeatedOrderIsAnsweredTheSame(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	first := p.mustOrder("ann", "key-1")
	require.Equal(t, first.body, p.mustOrder("ann", "key-1").body)
	p.awaitStatus(first.Order, "confirmed")
	require.Equal(t, first.body, p.mustOrder("ann", "key-1").body)

	other, err := p.order("/orders", "ann", "key-2", "1")
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, other.Code)
	require.Equal(t, "already-ordered", other.Error)
	require.Contains(t, other.body, first.Order)

	now, err := p.order("/purchases", "ben", "key-1", "2")
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, now.Code, now.body)
	again, err := p.order("/purchases", "ben", "key-1", "2")
	require.NoError(t, err)
	require.Equal(t, now.body, again.body)
	require.Equal(t, "confirmed", p.status(now.Order))
	w.await(2, `SELECT COUNT(*) FROM orders`)
	w.awaitLeft(97)
}

func TestABuyerFollowsTheOrderToItsEnd(t *testing.T) {
	w := newWorld(t)
	p := w.open("SHOP_DECLINE_PERCENT=100")
	placed := p.mustOrder("ann", "key-1")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/orders/"+placed.Order+"/events", http.NoBody)
	require.NoError(t, err)
	reply, err := asking().Do(r)
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	require.Equal(t, "text/event-stream", reply.Header.Get("Content-Type"))
	last := ""
	for lines := bufio.NewScanner(reply.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			last = data
		}
	}
	require.Contains(t, last, `"status":"failed"`, "the stream ends with the decision")
	require.Contains(t, last, placed.Order)
}

func TestARebalanceInTheMiddleLosesAndDoublesNothing(t *testing.T) {
	w := newWorld(t)
	first := w.open()
	answers := make(chan map[int]int, 1)
	go func() { answers <- first.crowd(100) }()
	w.open() // joins the group with two more consumers
	leaver := w.open()
	leaver.kill() // and these two are gone without a word
	require.Equal(t, map[int]int{http.StatusAccepted: 100}, <-answers)
	w.await(100, `SELECT COUNT(*) FROM orders`)
	require.Equal(t, 100, w.count(`SELECT taken FROM products`))
	w.await(0, `SELECT COUNT(*) FROM outbox WHERE done_at IS NULL`)
}

func TestAPoisonMessageHoldsUpNobody(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.kafka.brokers()...), kgo.DefaultProduceTopic(kafka.Topic))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	unknown, err := order.Event{EventID: "of-nobody", ProductID: "lantern", Visitor: "ann", Quantity: 1}.Encode()
	require.NoError(t, err)
	for _, poison := range []string{"{", "", `{"event_id": "x"}`, string(unknown)} {
		sent := client.ProduceSync(t.Context(), &kgo.Record{Key: []byte("lantern"), Value: []byte(poison)})
		require.NoError(t, sent.FirstErr())
	}
	placed := p.mustOrder("ann", "key-1")
	p.awaitStatus(placed.Order, "confirmed")
	w.await(4, `SELECT COUNT(*) FROM dead_letters WHERE reason <> ''`)
	w.await(1, `SELECT COUNT(*) FROM orders`)
}

func TestABrokerThatIsAwayDelaysOrdersAndLosesNone(t *testing.T) {
	w := newWorld(t)
	w.kafka = nil
	p := w.open()
	placed := p.mustOrder("ann", "key-1")
	require.Equal(t, "accepted", p.status(placed.Order))
	p.kill() // the broker comes at another address
	w.kafka = newCluster(t)
	again := w.open()
	again.awaitStatus(placed.Order, "confirmed")
}

func TestABrokerThatLosesItsMessagesIsToldAgain(t *testing.T) {
	w := newWorld(t)
	// Sent, and killed before anybody has read it.
	first := w.open("SHOP_TEST_KILL_AT=published")
	_, _ = first.order("/orders", "ann", "key-1", "1") // the answer may die with the shop
	first.awaitDeath()
	w.kafka = newCluster(t)
	w.open()
	w.await(1, `SELECT COUNT(*) FROM orders`)
}

func TestALockedDatabaseRefusesAndHoldsTheStockForTheNextTry(t *testing.T) {
	w := newWorld(t)
	p := w.open("SHOP_DATABASE_BUSY=200ms")
	db, err := sql.Open("sqlite", "file:"+w.database+"?_txlock=exclusive&_pragma=busy_timeout(20000)")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	lock, err := db.BeginTx(context.Background(), nil)
	require.NoError(t, err)

	refused, err := p.order("/orders", "ann", "key-1", "1")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, refused.Code, refused.body)
	require.NotEmpty(t, refused.head.Get("Retry-After"))
	require.NoError(t, lock.Rollback())

	var placed answer
	require.Eventually(t, func() bool { // the shop itself may hold the database for longer than it waits
		placed, err = p.order("/orders", "ann", "key-1", "1")
		return err == nil && placed.Code == http.StatusAccepted
	}, patience, tick)
	p.awaitStatus(placed.Order, "confirmed")
	w.awaitLeft(99)
}

func TestAGateThatIsAwayIsToldLater(t *testing.T) {
	w := newWorld(t)
	w.gate.setAway(true)
	p := w.open()
	placed := p.mustOrder("ann", "key-1")
	p.awaitStatus(placed.Order, "confirmed")
	require.Eventually(t, func() bool {
		_, refused := w.gate.said("pass-of-ann")
		return refused > 0
	}, patience, tick)
	require.Equal(t, 1, w.count(`SELECT COUNT(*) FROM requests WHERE pass = 'pass-of-ann'`))
	p.kill() // in between
	w.gate.setAway(false)
	w.open()
	w.await(0, `SELECT COUNT(*) FROM requests WHERE pass <> ''`)
	released, _ := w.gate.said("pass-of-ann")
	require.GreaterOrEqual(t, released, 1)
}

func TestTheEmbeddedPartsForgetAndTheOrderComesThrough(t *testing.T) {
	w := newWorld(t)
	w.kafka = nil
	embedded := []string{"SHOP_REDIS_URL=", "SHOP_KAFKA_BROKERS="}
	first := w.open(append(embedded, "SHOP_TEST_KILL_AT=published")...)
	_, _ = first.order("/orders", "ann", "key-1", "1") // the answer may die with the shop
	first.awaitDeath()
	second := w.open(embedded...)
	w.await(1, `SELECT COUNT(*) FROM orders`)
	again := second.mustOrder("ann", "key-1")
	require.Equal(t, "confirmed", second.status(again.Order))
	require.Equal(t, 1, w.count(`SELECT COUNT(*) FROM requests`), "the buyer was forgotten")
}
