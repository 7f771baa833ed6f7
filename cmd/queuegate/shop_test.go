package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// steadyWork takes the same time for each order.
func steadyWork() time.Duration { return 100 * time.Millisecond }

// ask sends one request to a handler; headers are pairs of name and value.
func ask(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// shopFigure reads a number from the product page, which stands in the dd after the named dt.
func shopFigure(t *testing.T, h http.Handler, name string) int {
	t.Helper()
	page := ask(h, "GET", "/", "").Body.String()
	match := regexp.MustCompile(`<dt>` + name + `</dt><dd>(\d+)`).FindStringSubmatch(page)
	require.NotNil(t, match, page)
	n, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return n
}

func TestShopPages(t *testing.T) {
	h := newShop(shopOptions{Stock: 3})
	tests := []struct {
		name, method, target string
		code                 int
		contains             string
	}{
		{"the product is at the root", "GET", "/", 200, "Paper lantern"},
		{"about is a page", "GET", "/about", 200, "About us"},
		{"the checkout has an order form", "GET", "/checkout", 200, `<form method="post" action="/orders">`},
		{"HEAD works too", "HEAD", "/checkout", 200, ""},
		{"an unknown page is 404", "GET", "/nothing", 404, "no such page"},
		{"orders cannot be read", "GET", "/orders", 404, "no such page"},
		{"the checkout takes no post", "POST", "/checkout", 405, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := ask(h, tt.method, tt.target, "")
			require.Equal(t, tt.code, w.Code)
			require.Contains(t, w.Body.String(), tt.contains)
		})
	}
}

func TestShopPagesAreSelfContainedAndAccessible(t *testing.T) {
	h := newShop(shopOptions{})
	for _, target := range []string{"/", "/about", "/checkout", "/nothing"} {
		t.Run(target, func(t *testing.T) {
			w := ask(h, "GET", target, "")
			page := w.Body.String()
			require.Contains(t, page, `<html lang="en">`)
			require.Contains(t, page, `name="viewport"`)
			require.Contains(t, page, "prefers-color-scheme: dark")
			require.Equal(t, 1, strings.Count(page, "<h1>"))
			require.NotRegexp(t, `(src|href|action)="(https?:)?//`, page, "a request to somebody else")
			require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		})
	}
	require.Contains(t, ask(h, "GET", "/checkout", "").Body.String(), `<label for="quantity">`)
	require.Equal(t, "no-store", ask(h, "GET", "/checkout", "").Header().Get("Cache-Control"))
	require.Contains(t, ask(h, "GET", "/about", "").Header().Get("Cache-Control"), "max-age")
}

func TestShopCheckoutShowsWhoTheGateLetIn(t *testing.T) {
	h := newShop(shopOptions{})
	page := ask(h, "GET", "/checkout", "", "X-Queuegate-Visitor", "v-<b>1</b>", "X-Queuegate-Admission", "a-2").Body.String()
	require.Contains(t, page, "v-&lt;b&gt;1&lt;/b&gt;")
	require.Contains(t, page, "a-2")
	require.Contains(t, ask(h, "GET", "/checkout", "").Body.String(), "did not come through the gate")
}

func TestShopOrders(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	tests := []struct {
		name, contentType, accept, body string
		code                            int
		left                            int // of 3
		contains                        string
	}{
		{"a form gets a page", form, "text/html", "quantity=2", 201, 1, "Thank you"},
		{"JSON gets JSON", "application/json", "application/json", `{"quantity":3}`, 201, 0, `{"order":"L-000001","quantity":3}`},
		{"no body orders one", "", "application/json", "", 201, 2, `"quantity":1`},
		{"JSON without a quantity orders one", "application/json; charset=utf-8", "application/json", `{}`, 201, 2, `"quantity":1`},
		{"a form without a quantity orders one", form, "text/html", "x=1", 201, 2, "Thank you"},
		{"a browser that takes anything gets a page", form, "text/html,application/json;q=0.5", "quantity=1", 201, 2, "Thank you"},
		{"more than there are is refused", form, "text/html", "quantity=4", 409, 3, "not enough"},
		{"none is refused", form, "text/html", "quantity=0", 422, 3, "between 1 and 4"},
		{"a word is refused", form, "text/html", "quantity=two", 422, 3, "between 1 and 4"},
		{"too many are refused in JSON", "application/json", "application/json", `{"quantity":5}`, 422, 3, `"error"`},
		{"broken JSON is refused", "application/json", "application/json", `{"quantity":`, 400, 3, `"error"`},
		{"a broken form is refused", form, "text/html", "quantity=%zz", 400, 3, "could not read"},
		{"another format is refused", "text/plain", "text/html", "two please", 400, 3, "could not read"},
		{"a long body is refused", form, "text/html", strings.Repeat("x", shopMaxBody+1), 413, 3, "too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newShop(shopOptions{Stock: 3})
				w := ask(h, "POST", "/orders", tt.body, "Content-Type", tt.contentType, "Accept", tt.accept)
				require.Equal(t, tt.code, w.Code, w.Body.String())
				require.Contains(t, w.Body.String(), tt.contains)
				require.Equal(t, tt.left, shopFigure(t, h, "Left in stock"))
				if strings.Contains(tt.accept, "html") {
					require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
				} else {
					require.Equal(t, "application/json", w.Header().Get("Content-Type"))
				}
			})
		})
	}
}

func TestShopTakesItsTimeForAnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShop(shopOptions{})
		began := time.Now()
		require.Equal(t, 201, ask(h, "POST", "/orders", "").Code)
		require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
		require.Less(t, time.Since(began), 150*time.Millisecond)
	})
}

func TestShopCountsOrdersBeingServedAndSlowsDownBeyondItsCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShop(shopOptions{Capacity: 2, Work: steadyWork})
		began := time.Now()
		var orders sync.WaitGroup
		for range 6 {
			orders.Go(func() { ask(h, "POST", "/orders", "") })
		}
		synctest.Wait()
		require.Equal(t, 6, shopFigure(t, h, "Orders being served now"))
		orders.Wait()
		require.Equal(t, 300*time.Millisecond, time.Since(began), "the sixth order at once, with hands for two")
		require.Equal(t, 0, shopFigure(t, h, "Orders being served now"))
		require.Equal(t, 6, shopFigure(t, h, "Most at once so far"))
		require.Equal(t, 6, shopFigure(t, h, "Orders taken"))
	})
}

func TestShopNeverSellsMoreThanItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShop(shopOptions{Stock: 5})
		codes := make([]int, 20)
		var orders sync.WaitGroup
		for i := range codes {
			orders.Go(func() { codes[i] = ask(h, "POST", "/orders", "").Code })
		}
		orders.Wait()
		count := map[int]int{}
		for _, code := range codes {
			count[code]++
		}
		require.Equal(t, map[int]int{201: 5, 409: 15}, count)
		require.Contains(t, ask(h, "GET", "/checkout", "").Body.String(), "last lantern went")

		<-time.After(31 * time.Second) // of the bubble's clock
		require.Equal(t, 5, shopFigure(t, h, "Left in stock"), "the next delivery")
	})
}

func TestShopGivesOneOrderForOneAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShop(shopOptions{Stock: 10})
		place := func(admission string) shopOrder {
			w := ask(h, "POST", "/orders", "", "Accept", "application/json", "X-Queuegate-Admission", admission)
			require.Equal(t, 201, w.Code)
			var order shopOrder
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &order))
			return order
		}
		first := place("a")
		require.Equal(t, first, place("a"))
		require.NotEqual(t, first, place("b"))
		require.Equal(t, 8, shopFigure(t, h, "Left in stock"))
	})
}

func TestShopSellsNothingToACustomerWhoHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShop(shopOptions{Stock: 3})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/orders", http.NoBody))
		require.Equal(t, 503, w.Code)
		require.Equal(t, 3, shopFigure(t, h, "Left in stock"))
		require.Equal(t, 0, shopFigure(t, h, "Orders being served now"))
	})
}

func TestShopBehindARealServer(t *testing.T) {
	server := httptest.NewServer(newShop(shopOptions{}))
	defer server.Close()
	response, err := server.Client().Post(server.URL+"/orders", "application/x-www-form-urlencoded", strings.NewReader("quantity=1"))
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, 201, response.StatusCode)
	require.Contains(t, string(body), "Thank you")
}
