package main_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Traefik and Envoy are not at hand where the tests run. Their example files are
// read strictly, key by key, and a stand-in does with them what the real one
// does: which headers it asks with, what it makes of the answer.

func TestJourneyThroughAStandInForTraefik(t *testing.T) {
	t.Parallel()
	front, shop := startFront(t, standInForTraefik, room("total_active_users: 1"))
	front.marksPrivate = false
	journeyThroughFront(t, front, shop)
}

func TestJourneyThroughAStandInForEnvoy(t *testing.T) {
	t.Parallel()
	front, shop := startFront(t, standInForEnvoy, room("total_active_users: 1"))
	front.marksPrivate = false
	journeyThroughFront(t, front, shop)
}

// strictly decodes YAML and fails on a key that the type does not have.
func strictly(t testing.TB, text string, into any) {
	t.Helper()
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	require.NoError(t, dec.Decode(into))
}

// nested is strictly for a part of a document.
func nested(t testing.TB, node yaml.Node, into any) {
	t.Helper()
	text, err := yaml.Marshal(&node)
	require.NoError(t, err)
	strictly(t, string(text), into)
}

// listenAs serves h at an address.
func listenAs(t testing.TB, address string, h http.HandlerFunc) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(h)
	require.NoError(t, s.Listener.Close())
	s.Listener = listener
	s.Start()
	endWith(t, s)
}

// ask sends a question and reads the answer.
func ask(method, target string, header http.Header, host string) (*http.Response, []byte, error) {
	r, err := http.NewRequest(method, target, nil) //nolint:noctx // ends with the gate
	if err != nil {
		return nil, nil, err
	}
	if path, query, found := strings.Cut(strings.TrimPrefix(target, "http://"+r.URL.Host), "?"); true {
		r.URL.Opaque, r.URL.RawQuery, r.URL.ForceQuery = path, query, found
	}
	r.Header, r.Host = header, host
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// pass sends the request on byte for byte, and lets change see the answer.
func pass(w http.ResponseWriter, r *http.Request, to string, change func(http.Header)) {
	base, err := url.Parse(to)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			path, query, found := strings.Cut(r.RequestURI, "?")
			pr.Out.URL = &url.URL{Scheme: "http", Host: base.Host, Opaque: path, RawQuery: query, ForceQuery: found}
			pr.Out.Host = r.Host
			pr.SetXForwarded()
		},
		ModifyResponse: func(resp *http.Response) error {
			change(resp.Header)
			return nil
		},
	}
	proxy.ServeHTTP(w, r)
}

// handOn gives the client the answer to a question.
func handOn(w http.ResponseWriter, resp *http.Response, body []byte) {
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body)
}

// traefikFile is what the example uses of Traefik's dynamic configuration.
type traefikFile struct {
	HTTP struct {
		Routers map[string]struct {
			EntryPoints   []string `yaml:"entryPoints"`
			Rule, Service string
			Middlewares   []string
		}
		Middlewares map[string]struct {
			Headers *struct {
				CustomRequestHeaders  map[string]string `yaml:"customRequestHeaders"`
				CustomResponseHeaders map[string]string `yaml:"customResponseHeaders"`
			}
			ForwardAuth *struct {
				Address                  string
				TrustForwardHeader       bool     `yaml:"trustForwardHeader"`
				AuthResponseHeaders      []string `yaml:"authResponseHeaders"`
				AddAuthCookiesToResponse []string `yaml:"addAuthCookiesToResponse"`
			} `yaml:"forwardAuth"`
		}
		Services map[string]struct {
			LoadBalancer struct{ Servers []struct{ URL string } } `yaml:"loadBalancer"`
		}
	}
}

func standInForTraefik(t testing.TB, front, gateURL, shopURL string) {
	var file traefikFile
	strictly(t, example(t, "traefik.yaml", front, gateURL, shopURL), &file)
	routers, middlewares := file.HTTP.Routers, file.HTTP.Middlewares
	require.Equal(t, "PathPrefix(`/_queue/`) && !PathPrefix(`/_queue/auth`)", routers["queuegate"].Rule)
	require.Equal(t, "PathPrefix(`/`)", routers["shop"].Rule)
	for name, router := range routers {
		require.Contains(t, file.HTTP.Services, router.Service, name)
		for _, m := range router.Middlewares {
			require.Contains(t, middlewares, m, name)
		}
	}
	listenAs(t, front, func(w http.ResponseWriter, r *http.Request) {
		router := routers["shop"]
		if p := r.URL.Path; strings.HasPrefix(p, "/_queue/") && !strings.HasPrefix(p, "/_queue/auth") {
			router = routers["queuegate"]
		}
		var gone []string
		var cookies []string
		for _, name := range router.Middlewares {
			m := middlewares[name]
			if m.Headers != nil {
				for header, value := range m.Headers.CustomRequestHeaders {
					r.Header.Del(header)
					if value != "" {
						r.Header.Set(header, value)
					}
				}
				for header := range m.Headers.CustomResponseHeaders {
					gone = append(gone, header)
				}
			}
			if m.ForwardAuth == nil {
				continue
			}
			question := r.Header.Clone()
			question.Set("X-Forwarded-Method", r.Method)
			question.Set("X-Forwarded-Proto", "http")
			question.Set("X-Forwarded-Host", r.Host)
			question.Set("X-Forwarded-Uri", r.RequestURI)
			question.Set("X-Forwarded-For", "127.0.0.1")
			resp, body, err := ask(http.MethodGet, m.ForwardAuth.Address, question, "")
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			if resp.StatusCode/100 != 2 {
				handOn(w, resp, body)
				return
			}
			for _, header := range m.ForwardAuth.AuthResponseHeaders {
				r.Header.Del(header)
				if values := resp.Header.Values(header); len(values) > 0 {
					r.Header[http.CanonicalHeaderKey(header)] = values
				}
			}
			for _, c := range resp.Cookies() {
				if slices.Contains(m.ForwardAuth.AddAuthCookiesToResponse, c.Name) {
					cookies = append(cookies, c.Raw)
				}
			}
		}
		pass(w, r, file.HTTP.Services[router.Service].LoadBalancer.Servers[0].URL, func(h http.Header) {
			for _, header := range gone {
				h.Del(header)
			}
			for _, c := range cookies {
				h.Add("Set-Cookie", c)
			}
		})
	})
}

// The parts of Envoy's configuration that the example uses.
type (
	envoyFile struct {
		StaticResources struct {
			Listeners []struct {
				Name         string
				Address      envoyAddress
				FilterChains []struct{ Filters []envoyNamed } `yaml:"filter_chains"`
			}
			Clusters []struct {
				Name, Type     string
				LoadAssignment struct {
					ClusterName string `yaml:"cluster_name"`
					Endpoints   []struct {
						LbEndpoints []struct {
							Endpoint struct{ Address envoyAddress }
						} `yaml:"lb_endpoints"`
					}
				} `yaml:"load_assignment"`
			}
		} `yaml:"static_resources"`
	}
	envoyAddress struct {
		SocketAddress struct {
			Address   string
			PortValue string `yaml:"port_value"`
		} `yaml:"socket_address"`
	}
	envoyNamed struct {
		Name        string
		TypedConfig yaml.Node `yaml:"typed_config"`
	}
	envoyManager struct {
		Type             string `yaml:"@type"`
		StatPrefix       string `yaml:"stat_prefix"`
		UseRemoteAddress bool   `yaml:"use_remote_address"`
		Early            []struct {
			Name        string
			TypedConfig struct {
				Type      string `yaml:"@type"`
				Mutations []struct{ Remove string }
			} `yaml:"typed_config"`
		} `yaml:"early_header_mutation_extensions"`
		HTTPFilters []envoyNamed `yaml:"http_filters"`
		RouteConfig struct {
			VirtualHosts []struct {
				Name    string
				Domains []string
				Routes  []envoyRoute
			} `yaml:"virtual_hosts"`
		} `yaml:"route_config"`
	}
	envoyRoute struct {
		Match          struct{ Prefix string }
		DirectResponse *struct{ Status int } `yaml:"direct_response"`
		Route          struct{ Cluster, Timeout string }
		PerFilter      map[string]struct {
			Type     string `yaml:"@type"`
			Disabled bool
		} `yaml:"typed_per_filter_config"`
		RequestGone  []string `yaml:"request_headers_to_remove"`
		ResponseGone []string `yaml:"response_headers_to_remove"`
	}
	envoyPatterns struct {
		Patterns []struct{ Exact, Prefix string }
	}
	envoyAuthz struct {
		Type                string        `yaml:"@type"`
		TransportAPIVersion string        `yaml:"transport_api_version"`
		FailureModeAllow    bool          `yaml:"failure_mode_allow"`
		AllowedHeaders      envoyPatterns `yaml:"allowed_headers"`
		HTTPService         struct {
			ServerURI             struct{ URI, Cluster, Timeout string } `yaml:"server_uri"`
			PathPrefix            string                                 `yaml:"path_prefix"`
			AuthorizationResponse struct {
				Upstream envoyPatterns `yaml:"allowed_upstream_headers"`
				Client   envoyPatterns `yaml:"allowed_client_headers_on_success"`
			} `yaml:"authorization_response"`
		} `yaml:"http_service"`
	}
)

func (p envoyPatterns) match(name string) bool {
	for _, pattern := range p.Patterns {
		name := strings.ToLower(name)
		if pattern.Exact == name || pattern.Prefix != "" && strings.HasPrefix(name, pattern.Prefix) {
			return true
		}
	}
	return false
}

// asksEnvoy asks the gate as ext_authz does: with the method, host and path of
// the request and those of its headers that are listed.
func (z envoyAuthz) asksEnvoy(r *http.Request) (*http.Response, []byte, error) {
	question := http.Header{"Content-Length": {"0"}}
	for name, values := range r.Header {
		if z.AllowedHeaders.match(name) || name == "Authorization" {
			question[name] = values
		}
	}
	return ask(r.Method, z.HTTPService.ServerURI.URI+z.HTTPService.PathPrefix+r.RequestURI, question, r.Host)
}

func standInForEnvoy(t testing.TB, front, gateURL, shopURL string) {
	var file envoyFile
	text := example(t, "envoy.yaml", front, gateURL, shopURL)
	strictly(t, text, &file)
	var manager envoyManager
	nested(t, file.StaticResources.Listeners[0].FilterChains[0].Filters[0].TypedConfig, &manager)
	require.Len(t, manager.HTTPFilters, 2)
	var authz envoyAuthz
	nested(t, manager.HTTPFilters[0].TypedConfig, &authz)
	require.False(t, authz.FailureModeAllow)
	clusters := map[string]string{}
	for _, c := range file.StaticResources.Clusters {
		at := c.LoadAssignment.Endpoints[0].LbEndpoints[0].Endpoint.Address.SocketAddress
		clusters[c.Name] = "http://" + net.JoinHostPort(at.Address, at.PortValue)
	}
	routes := manager.RouteConfig.VirtualHosts[0].Routes
	listenAs(t, front, func(w http.ResponseWriter, r *http.Request) {
		for _, m := range manager.Early[0].TypedConfig.Mutations {
			r.Header.Del(m.Remove)
		}
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		r.Header.Set("X-Forwarded-Proto", "http")
		i := slices.IndexFunc(routes, func(route envoyRoute) bool { return strings.HasPrefix(r.RequestURI, route.Match.Prefix) })
		if i < 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		route := routes[i]
		if route.DirectResponse != nil {
			w.WriteHeader(route.DirectResponse.Status)
			return
		}
		given := http.Header{}
		if !route.PerFilter["envoy.filters.http.ext_authz"].Disabled {
			resp, body, err := authz.asksEnvoy(r)
			switch {
			case err != nil || resp.StatusCode >= 500:
				w.WriteHeader(http.StatusForbidden)
				return
			case resp.StatusCode != http.StatusOK:
				handOn(w, resp, body)
				return
			}
			for name, values := range resp.Header {
				if authz.HTTPService.AuthorizationResponse.Upstream.match(name) {
					r.Header[name] = values
				}
				if authz.HTTPService.AuthorizationResponse.Client.match(name) {
					given[name] = values
				}
			}
		}
		for _, name := range route.RequestGone {
			r.Header.Del(name)
		}
		pass(w, r, clusters[route.Route.Cluster], func(h http.Header) {
			for _, name := range route.ResponseGone {
				h.Del(name)
			}
			for name, values := range given {
				h[name] = append(h[name], values...)
			}
		})
	})
}

func TestExampleFilesAreReadStrictly(t *testing.T) {
	var file traefikFile
	dec := yaml.NewDecoder(bytes.NewBufferString("http: {routers: {a: {rul: x}}}"))
	dec.KnownFields(true)
	require.ErrorContains(t, dec.Decode(&file), "field rul not found")
}
