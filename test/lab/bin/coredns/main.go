// Command coredns is CoreDNS with only the plugins that a cluster's own DNS needs. The full build links the SDKs of
// three clouds, which costs minutes and a gigabyte of module cache for servers that the lab never talks to.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

// The order in which a query passes the plugins, whatever the order in the Corefile. It is CoreDNS's own, shortened.
func init() {
	dnsserver.Directives = []string{
		"bind", "reload", "health", "ready", "errors", "loadbalance", "cache", "kubernetes",
	}
}

func main() { coremain.Run() }
