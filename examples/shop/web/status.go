package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/queuegate/queuegate/examples/shop/store"
)

// standing is how far an order is.
type standing struct {
	Order    string       `json:"order"`
	Product  string       `json:"product_id"`
	Quantity int          `json:"quantity"`
	Status   store.Status `json:"status"`
}

func standingOf(r store.Request) standing {
	return standing{Order: r.EventID, Product: r.Product, Quantity: r.Quantity, Status: r.Status}
}

// showOrder tells how far an order is. Whoever knows its id may ask: it cannot be
// guessed and says nothing of the buyer.
func (s *shop) showOrder(w http.ResponseWriter, r *http.Request) {
	request, ok := s.request(w, r)
	if !ok {
		return
	}
	if wantsHTML(r) {
		s.render(w, http.StatusOK, "order", page{Title: "Your order", Standing: standingOf(request)})
		return
	}
	if !request.Status.Final() {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, http.StatusOK, standingOf(request))
}

func (s *shop) request(w http.ResponseWriter, r *http.Request) (store.Request, bool) {
	request, err := s.opts.Books.Request(r.Context(), r.PathValue("id"))
	switch {
	case err == nil:
		return request, true
	case errors.Is(err, store.ErrNotFound):
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "not-found", "message": "There is no such order."})
	default:
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "unavailable", "message": "Please ask again."})
	}
	return store.Request{}, false
}

// followOrder tells how far an order is by server-sent events, each time that
// changes and at last when it is decided. A stream that ends earlier is opened
// again by the browser.
func (s *shop) followOrder(w http.ResponseWriter, r *http.Request) {
	request, ok := s.request(w, r)
	if !ok {
		return
	}
	headers(w, "text/event-stream")
	stream := http.NewResponseController(w)
	ends := time.NewTimer(s.opts.Stream)
	defer ends.Stop()
	look := time.NewTicker(s.opts.Follow)
	defer look.Stop()
	told := store.Status("")
	for {
		if request.Status != told {
			told = request.Status
			if err := tell(w, stream, standingOf(request)); err != nil || told.Final() {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-ends.C:
			return
		case <-look.C:
		}
		if again, err := s.opts.Books.Request(r.Context(), request.EventID); err == nil {
			request = again
		}
	}
}

func tell(w http.ResponseWriter, stream *http.ResponseController, what standing) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: status\ndata: %s\n\n", text); err != nil {
		return err
	}
	return stream.Flush()
}
