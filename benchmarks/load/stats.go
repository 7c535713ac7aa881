package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stats are what the server did, and what it cost.
type stats struct {
	began                                                 time.Time
	events, bytes, writing                                atomic.Int64
	lists, pages, watches, watching, watchLists, requests atomic.Int64
	hookRequests, hookEvents                              atomic.Int64

	arrivals arrivals

	mu     sync.Mutex
	opened []request // the oldest first, the first thousand
}

type request struct {
	At   int64  `json:"at"` // nanoseconds since 1970
	What string `json:"what"`
}

const keptRequests = 1000

func (s *stats) wrote(bytes int, took time.Duration) {
	s.bytes.Add(int64(bytes))
	s.writing.Add(int64(took))
}

func (s *stats) asked(r *http.Request) {
	s.requests.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.opened) < keptRequests {
		s.opened = append(s.opened, request{time.Now().UnixNano(), r.Method + " " + r.URL.RequestURI()})
	}
}

// forget begins the list of requests anew.
func (s *stats) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = nil
}

func (s *stats) json() []byte {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(map[string]any{
		"cpu_seconds":     time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds(),
		"wall_seconds":    time.Since(s.began).Seconds(),
		"writing_seconds": time.Duration(s.writing.Load()).Seconds(),
		"events":          s.events.Load(),
		"bytes":           s.bytes.Load(),
		"lists":           s.lists.Load(),
		"pages":           s.pages.Load(),
		"watches":         s.watches.Load(),
		"watching":        s.watching.Load(),
		"watch_lists":     s.watchLists.Load(),
		"requests":        s.requests.Load(),
		"hook_requests":   s.hookRequests.Load(),
		"hook_events":     s.hookEvents.Load(),
		"asked":           s.opened,
	})
	if err != nil {
		panic(err)
	}
	return text
}
