package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/examples/shop/order"
)

// steps are those at which an order that is confirmed can be cut off.
var steps = []order.Step{
	order.StepTaken, order.StepAccepted, order.StepClaimed, order.StepPublished, order.StepRead, order.StepConfirmed,
	order.StepReleasing, order.StepReleased,
}

func TestAnOrderIsDecidedOnceWhereverTheShopIsKilled(t *testing.T) {
	for _, step := range steps {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := w.open("SHOP_TEST_KILL_AT=" + string(step))
			_, _ = first.order("/orders", "ann", "key-1", "2") // the answer may die with the shop
			first.awaitDeath()

			second := w.open()
			a, err := second.order("/orders", "ann", "key-1", "2")
			require.NoError(t, err)
			require.Equal(t, http.StatusAccepted, a.Code, a.body)
			second.awaitStatus(a.Order, "confirmed")
			w.await(0, `SELECT COUNT(*) FROM outbox WHERE done_at IS NULL`)
			w.awaitLeft(98)
			require.Equal(t, 2, w.count(`SELECT SUM(quantity) FROM orders`))
			require.Equal(t, 2, w.count(`SELECT taken FROM products WHERE id = 'lantern'`))
			require.Equal(t, 1, w.count(`SELECT COUNT(*) FROM requests`))
			w.await(0, `SELECT COUNT(*) FROM requests WHERE pass <> ''`) // a pass is kept for nothing
			released, _ := w.gate.said("pass-of-ann")
			require.GreaterOrEqual(t, released, 1)
		})
	}
}

func TestAnOrderThatCameToNothingGivesTheStockBackOnceAndKeepsThePass(t *testing.T) {
	for _, step := range []order.Step{order.StepGivingUp, order.StepGivenBack} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := w.open("SHOP_DECLINE_PERCENT=100", "SHOP_TEST_KILL_AT="+string(step))
			a, err := first.order("/orders", "ann", "key-1", "3")
			if err == nil {
				require.Equal(t, http.StatusAccepted, a.Code, a.body)
			}
			first.awaitDeath()

			second := w.open("SHOP_DECLINE_PERCENT=0")
			w.await(0, `SELECT COUNT(*) FROM outbox WHERE done_at IS NULL`)
			w.awaitLeft(100)
			require.Equal(t, 1, w.count(`SELECT COUNT(*) FROM requests WHERE status = 'failed'`))
			released, _ := w.gate.said("pass-of-ann")
			require.Zero(t, released, "the buyer's pass is gone")

			again := second.mustOrder("ann", "key-2")
			second.awaitStatus(again.Order, "confirmed")
			w.awaitLeft(99)
		})
	}
}

func TestStockThatWasTakenForNobodyComesBack(t *testing.T) {
	w := newWorld(t)
	first := w.open("SHOP_TEST_KILL_AT=taken", "SHOP_HOLD=1s")
	_, err := first.order("/orders", "ann", "key-1", "4")
	require.Error(t, err)
	first.awaitDeath()
	count, err := w.shelf.Look(t.Context(), "lantern")
	require.NoError(t, err)
	require.Equal(t, 96, count.Left)

	second := w.open("SHOP_HOLD=1s")
	w.awaitLeft(100)
	require.Zero(t, w.count(`SELECT COUNT(*) FROM requests`))
	second.mustOrder("ann", "key-2") // another order than the one that came to nothing
}

func TestARedisThatLostItsDataIsFilledFromTheDatabase(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	before := p.mustOrder("ann", "key-1")
	p.awaitStatus(before.Order, "confirmed")
	w.awaitLeft(99)

	require.NoError(t, w.client().FlushAll(t.Context()).Err())
	after := p.mustOrder("ann", "key-1")
	require.Equal(t, before.body, after.body, "the buyer was forgotten")
	w.awaitLeft(99)

	// A copy from before the sale: the count is too high, and puts itself right.
	require.NoError(t, w.client().FlushAll(t.Context()).Err())
	require.NoError(t, w.client().HSet(t.Context(), "shop:{lantern}:count", "left", 100, "seq", 1).Err())
	w.awaitLeft(99)
}

func TestAnOlderCopyOfTheStockNeverSellsMoreThanThereIs(t *testing.T) {
	w := newWorld(t)
	p := w.open("SHOP_PRODUCTS=lantern=1")
	first := p.mustOrder("ann", "key-1")
	p.awaitStatus(first.Order, "confirmed")

	require.NoError(t, w.client().FlushAll(t.Context()).Err())
	require.NoError(t, w.client().HSet(t.Context(), "shop:{lantern}:count", "left", 1, "seq", 1).Err())
	late, err := p.order("/orders", "ben", "key-1", "1")
	require.NoError(t, err)
	if late.Code == http.StatusAccepted { // unless the keeper was faster
		p.awaitStatus(late.Order, "sold_out")
	}
	require.Equal(t, 1, w.count(`SELECT SUM(quantity) FROM orders`))
	w.awaitLeft(0)
}
