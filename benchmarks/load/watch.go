package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	batch = 64 << 10 // bytes that are rendered before they are written
	most  = 512      // events that are looked up at once
)

// A watch is one stream. It writes to the connection itself: one HTTP chunk for each event, as kube-apiserver does, but
// many of them in one write.
type watch struct {
	server    *server
	resource  *resource
	conn      net.Conn
	out       []byte
	prefix    map[string][]byte // by type of event
	bookmarks bool
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, of *resource) {
	query := r.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	if initial && !s.watchList {
		status(w, http.StatusUnprocessableEntity, "Invalid", `ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: `+
			"Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
		return
	}
	rv, err := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	if err != nil && query.Get("resourceVersion") != "" {
		status(w, http.StatusBadRequest, "BadRequest", "resourceVersion is no number")
		return
	}
	timeout, err := strconv.Atoi(query.Get("timeoutSeconds"))
	if err != nil || timeout <= 0 {
		timeout = 1800
	}
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	made := &watch{
		server: s, resource: of, conn: conn,
		prefix:    map[string][]byte{},
		bookmarks: query.Get("allowWatchBookmarks") == "true",
	}
	for _, kind := range []string{"ADDED", "MODIFIED"} {
		made.prefix[kind] = []byte(`{"type":"` + kind + `","object":` + of.head())
	}
	made.out = []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-cache, private\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n")
	if made.flush() != nil {
		return
	}
	s.stats.watches.Add(1)
	s.stats.watching.Add(1)
	defer s.stats.watching.Add(-1)
	made.run(rv, initial, time.Now().Add(time.Duration(timeout)*time.Second), hungUp(buffered.Reader))
}

// hungUp is closed when the client has gone: it sends nothing after its request.
func hungUp(from *bufio.Reader) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		from.ReadByte()
	}()
	return gone
}

func (w *watch) run(rv int64, initial bool, ends time.Time, gone <-chan struct{}) {
	if initial || rv == 0 {
		var err error
		if rv, err = w.initialEvents(initial); err != nil {
			return
		}
	}
	over := time.NewTimer(time.Until(ends))
	defer over.Stop()
	ticks := time.NewTicker(w.server.bookmarkEvery)
	defer ticks.Stop()
	for {
		events, now, more := w.server.cluster.since(w.resource, rv, most)
		for _, each := range events {
			w.event("MODIFIED", int(each.index), each.rv)
			if len(w.out) >= batch && w.flush() != nil {
				return
			}
			rv = each.rv
		}
		if w.flush() != nil {
			return
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-more:
		case <-ticks.C:
			if w.bookmarks {
				rv = max(rv, now) // nothing happened to this resource up to there
				w.bookmark(rv, "")
			}
		case <-over.C:
			w.out = append(w.out, "0\r\n\r\n"...)
			w.flush()
			return
		case <-gone:
			return
		}
	}
}

// initialEvents tells all objects as added, and where asked for, that these were all.
func (w *watch) initialEvents(marked bool) (int64, error) {
	versions, rv := w.server.cluster.page(w.resource, 0, w.resource.objects)
	for index, each := range versions {
		w.event("ADDED", index, each)
		if len(w.out) >= batch {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	if marked {
		w.server.stats.watchLists.Add(1)
		w.bookmark(rv, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
	}
	return rv, w.flush()
}

func (w *watch) event(kind string, index int, rv int64) {
	const room = 8 // for the length of the chunk: six digits and the end of their line
	start := len(w.out)
	w.out = append(w.out, "000000\r\n"...)
	w.out = append(w.out, w.prefix[kind]...)
	w.out = w.resource.members(w.out, index, rv, time.Now().UnixNano())
	w.out = append(w.out, "}\n"...)
	copy(w.out[start:], fmt.Sprintf("%06x", len(w.out)-start-room))
	w.out = append(w.out, "\r\n"...)
	w.server.stats.events.Add(1)
}

func (w *watch) bookmark(rv int64, annotations string) {
	line := fmt.Sprintf(`{"type":"BOOKMARK","object":%s"metadata":{"resourceVersion":"%d","creationTimestamp":null%s}}}`+"\n",
		w.resource.identity(), rv, annotations)
	w.out = fmt.Appendf(w.out, "%x\r\n%s\r\n", len(line), line)
}

func (w *watch) flush() error {
	if len(w.out) == 0 {
		return nil
	}
	began := time.Now()
	_, err := w.conn.Write(w.out)
	w.server.stats.wrote(len(w.out), time.Since(began))
	w.out = w.out[:0]
	return err
}
