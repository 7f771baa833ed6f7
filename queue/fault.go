package queue

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Fault is the kind of a failure of Redis.
type Fault struct {
	// Name is a word for it that can be shown and counted: it holds nothing of the
	// error's text. It is empty when nothing failed.
	Name string
	// Lasting failures stay until somebody changes a setting, here or in Redis; the
	// others pass. Both are tried again, so that neither needs a restart.
	Lasting bool
	// Remedy is what to do about a lasting one.
	Remedy string
}

// codes are the words Redis begins its errors with. Before 7.0 the error of a
// command in a script stands in the middle of another one's text.
var codes = map[string]Fault{
	"TRYAGAIN":    {Name: "slot_moving"},
	"MOVED":       {Name: "slot_moving"},
	"ASK":         {Name: "slot_moving"},
	"CLUSTERDOWN": {Name: "cluster_down"},
	"READONLY":    {Name: "read_only"},
	"MASTERDOWN":  {Name: "master_down"},
	"LOADING":     {Name: "loading"},
	"NOREPLICAS":  {Name: "too_few_replicas"},
	"BUSY":        {Name: "busy"},
	"OOM":         {Name: "out_of_memory"},
	"MISCONF":     {Name: "cannot_persist"},
	"NOAUTH":      credentials,
	"WRONGPASS":   credentials,
	"NOPERM":      permission,
	"WRONGTYPE": {Name: "wrong_type", Lasting: true,
		Remedy: "a key of this room holds what is not queuegate's: choose another redis.key_prefix or remove the key"},
	"CROSSSLOT": {Name: "cross_slot", Lasting: true,
		Remedy: "something between the gate and Redis Cluster splits the keys of one room: connect to the Cluster itself"},
	"DENIED": {Name: "protected_mode", Lasting: true,
		Remedy: "Redis is in protected mode: give its user a password, or bind it to the address the gates use"},
}

// phrases are errors without a code of their own.
var phrases = []struct {
	text  string
	fault Fault
}{
	{"max number of clients reached", Fault{Name: "too_many_clients"}},
	{"max number of clients + cluster", Fault{Name: "too_many_clients"}},
	{"without any password configured", credentials},
	{"invalid password", credentials},
	{"user executing the script", permission},
	{"ACL failure in script", permission},
	{"cluster support disabled", Fault{Name: "no_cluster", Lasting: true,
		Remedy: "redis.addrs names servers that are no Cluster: for one server use redis.url, for Sentinels set redis.master_name"}},
	{"unknown command", Fault{Name: "unsupported", Lasting: true,
		Remedy: "this is no Redis 6.2 or newer, or it renames or forbids commands the gate needs"}},
}

var (
	credentials = Fault{Name: "credentials", Lasting: true,
		Remedy: "Redis or a Sentinel wants another user or password: see redis.username, redis.password and redis.sentinel_password"}
	permission = Fault{Name: "permission", Lasting: true,
		Remedy: "the gate's user in Redis lacks a right: the README has the ACL"}
	untrusted = Fault{Name: "tls", Lasting: true,
		Remedy: "TLS with Redis fails: see redis.tls and whether the server speaks TLS on that port"}
	nameless = Fault{Name: "unknown_master", Lasting: true,
		Remedy: "the Sentinels know no master of that name: see redis.master_name"}
)

// FaultOf tells what kind of failure an error is; nil is none.
func FaultOf(err error) Fault {
	if err == nil {
		return Fault{}
	}
	if errors.Is(err, redis.Nil) { // only Sentinels are asked what can be absent
		return nameless
	}
	text := err.Error()
	for _, p := range phrases {
		if strings.Contains(text, p.text) {
			return p.fault
		}
	}
	for word := range strings.FieldsSeq(text) {
		if fault, ok := codes[strings.Trim(word, "-:")]; ok {
			return fault
		}
	}
	return connectionFault(err, text)
}

// connectionFault is for errors that no server sent.
func connectionFault(err error, text string) Fault {
	var (
		record  tls.RecordHeaderError
		alert   *net.OpError // how crypto/tls reports what the other end objects to
		invalid *tls.CertificateVerificationError
		network net.Error
	)
	switch {
	case errors.As(err, &record), errors.As(err, &alert) && alert.Op == "remote error", errors.As(err, &invalid):
		return untrusted
	case strings.Contains(text, "sentinels specified in configuration"):
		return Fault{Name: "no_sentinel"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return Fault{Name: "refused"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout),
		errors.As(err, &network) && network.Timeout():
		return Fault{Name: "timeout"}
	default:
		return Fault{Name: "connection"}
	}
}
