package main

import (
	"context"
	"net/http"
)

// measurePage compares the queue page, which each visitor is given with a place of
// their own, with a handler that writes the same bytes.
func (b *bench) measurePage(ctx context.Context) error {
	shop, err := b.startPeer(ctx, "shop")
	if err != nil {
		return err
	}
	store, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	g, err := b.startGate(ctx, gateConfig{shop: shop.url, redis: store, room: waitingRoom})
	if err != nil {
		return err
	}
	w, err := dial(ctx, g.url)
	if err != nil {
		return err
	}
	defer w.close()
	h, err := w.ask(http.MethodGet, shopPath, "Accept", "text/html", "Sec-Fetch-Mode", "navigate")
	if err != nil {
		return err
	}
	answer, err := b.record("page.json", h)
	if err != nil {
		return err
	}
	same, err := b.startPeer(ctx, "bytes", answer)
	if err != nil {
		return err
	}
	page := func(name, url string) side {
		return side{name: name, load: load{
			url: url, method: http.MethodGet, path: shopPath, headers: "Accept: text/html|Sec-Fetch-Mode: navigate", refusals: true,
		}}
	}
	shots, err := b.alternate(ctx, []side{page("gate", g.url), page("handler of the same bytes", same.url)})
	if err != nil {
		return err
	}
	b.noteRate(pageSame, shots[0], shots[1])
	b.remark(pageSame, unlike(shots[0], shots[1]))
	return nil
}
