package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lookup finds a program, also where Debian keeps those for administrators.
func lookup(program string) string {
	if _, err := exec.LookPath(program); err == nil {
		return program
	}
	if path := filepath.Join("/usr/sbin", program); exists(path) {
		return path
	}
	return program
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Each of these proxies passes everything on to one shop over connections it keeps,
// on all processors and without an access log.

func (b *bench) startNginx(ctx context.Context, shop string) (string, error) {
	return b.startProxy(ctx, "nginx", lookup("nginx"), fmt.Sprintf(`daemon off;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  keepalive_requests 100000000;
  upstream shop { server %[2]s; keepalive 512; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:PORT;
    location / {
      proxy_pass http://shop;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
    }
  }
}
`, b.dir, host(shop)), "-e", "stderr", "-c")
}

func (b *bench) startHAProxy(ctx context.Context, shop string) (string, error) {
	return b.startProxy(ctx, "haproxy", lookup("haproxy"), fmt.Sprintf(`defaults
  mode http
  timeout connect 5s
  timeout client 1m
  timeout server 1m
  option forwardfor
  http-reuse always
frontend public
  bind 127.0.0.1:PORT
  default_backend shop
backend shop
  server shop %s
`, host(shop)), "-db", "-f")
}

func (b *bench) startCaddy(ctx context.Context, shop string) (string, error) {
	return b.startProxy(ctx, "caddy", b.caddy, fmt.Sprintf(`{
	admin off
	persist_config off
}
http://127.0.0.1:PORT {
	reverse_proxy %s {
		transport http {
			keepalive_idle_conns_per_host 512
		}
	}
}
`, host(shop)), "run", "--adapter", "caddyfile", "--config")
}

// startProxy starts a proxy on a port of its own and returns its URL.
func (b *bench) startProxy(ctx context.Context, name, program, config string, args ...string) (string, error) {
	_, addr, err := b.onPort(ctx, name, func(port string) (*process, error) {
		file, err := b.file(name+"-"+port+".conf", strings.ReplaceAll(config, "PORT", port))
		if err != nil {
			return nil, err
		}
		return b.start(name, program, append(args, file)...)
	})
	return "http://" + addr, err
}

func host(url string) string { return strings.TrimPrefix(url, "http://") }
