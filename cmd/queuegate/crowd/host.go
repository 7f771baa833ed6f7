package crowd

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// onlyLoopback refuses to connect to another host, whatever a name has come to mean
// since it was looked up.
func onlyLoopback(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%w: %s is not this host", ErrOptions, address)
	}
	return nil
}

// IsLoopback tells whether a host, a name or an address, is this one and nothing else.
func IsLoopback(ctx context.Context, host string) bool {
	if at, err := netip.ParseAddr(host); err == nil {
		return at.Unmap().IsLoopback()
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(found) == 0 {
		return false
	}
	for _, at := range found {
		if !at.Unmap().IsLoopback() {
			return false
		}
	}
	return true
}
