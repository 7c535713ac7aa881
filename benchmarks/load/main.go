// An API server for measurements: it lists and watches rendered bytes, and costs far less than its clients.
//
// It serves pods, and widgets of a group of its own, each resource with objects that never come or go: they are listed
// with limit and continue or sent in a watch, and get a new version when the harness says so (POST /load/go). What it did
// and what that cost is at /load/stats, and printed when it ends. It also receives webhooks, at /load/hook, and has a Lease,
// so that replicas elect a leader.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of plain HTTP, also for the harness")
	tlsListen := flag.String("tls-listen", "", "address of HTTPS; none by default")
	caFile := flag.String("ca-file", "", "where to write the certificate that clients must trust, with -tls-listen")
	pods := flag.Int("pods", 10_000, "objects of the first resource")
	first := flag.String("resource", "/v1/pods/Pod", "the first resource: group/version/plural/kind")
	size := flag.String("size", "8", "KB of a pod, or mixed, or the name of another object")
	widgets := flag.Int("widgets", 0, "further resources: widgets000.load.kubedelta.test and so on")
	each := flag.Int("widget-objects", 1, "objects of each of them")
	watchList := flag.Bool("watch-list", true, "serve sendInitialEvents, as servers do from 1.34 on; else refuse it")
	bookmarks := flag.Duration("bookmarks", time.Minute, "time between two bookmarks of a watch")
	flag.Parse()

	made := &server{
		cluster:       newCluster(resources(*first, *pods, *widgets, *each, *size)),
		lease:         newLease(),
		stats:         &stats{began: time.Now()},
		watchList:     *watchList,
		bookmarkEvery: *bookmarks,
	}
	// Plain HTTP comes last: who has an answer from it finds the certificate and HTTPS, too.
	if *tlsListen != "" {
		serve(made, *tlsListen, certificate(*caFile))
	}
	serve(made, *listen, nil)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	fmt.Printf("%s\n", made.stats.json())
}

func serve(handler http.Handler, address string, secured *tls.Config) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	if secured != nil {
		listener = tls.NewListener(listener, secured)
	}
	fmt.Println("listening on", listener.Addr())
	// Streams take over their connection, which HTTP/2 would not let them.
	go func() { log.Fatal((&http.Server{Handler: handler}).Serve(listener)) }()
}

// shares are how many of a hundred mixed objects have each size.
var shares = []struct {
	size  string
	share int
}{{"0.5", 20}, {"2", 30}, {"8", 40}, {"30", 9}, {"300", 1}}

func resources(first string, pods, widgets, each int, size string) []*resource {
	templates, sizeOf := choice(size)
	named := strings.Split(first, "/")
	if len(named) != 4 {
		log.Fatalf("-resource %s: expected is group/version/plural/kind", first)
	}
	found := []*resource{{
		group: named[0], version: named[1], plural: named[2], kind: named[3],
		objects: pods, templates: templates, sizeOf: sizeOf,
	}}
	for i := range widgets {
		found = append(found, &resource{
			group: "load.kubedelta.test", version: "v1",
			plural: fmt.Sprintf("widgets%03d", i), kind: fmt.Sprintf("Widget%03d", i),
			objects: each, templates: templates, sizeOf: sizeOf, seed: uint64(i + 1),
		})
	}
	return found
}

func choice(size string) ([]*template, func(int) int) {
	if size != "mixed" {
		text, known := object(size)
		if !known {
			log.Fatalf("-size %s: allowed are numbers above 0.5, 0.5, mixed and the names in objects", size)
		}
		return []*template{newTemplate(text)}, func(int) int { return 0 }
	}
	templates := []*template{}
	for _, each := range shares {
		text, _ := object(each.size)
		templates = append(templates, newTemplate(text))
	}
	return templates, func(index int) int {
		drawn := int(mixed(uint64(index)) % 100)
		for i, each := range shares {
			if drawn -= each.share; drawn < 0 {
				return i
			}
		}
		panic("the shares are less than a hundred")
	}
}
