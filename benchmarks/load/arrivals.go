package main

import (
	"bytes"
	"strconv"
	"sync"
	"time"
)

const keptArrivals = 200_000

var written = []byte(`"load.kubedelta.test/written":"`) // before the time, in every object

// arrivals are pairs, in nanoseconds since 1970: when an object was written, and when a webhook brought it back.
type arrivals struct {
	mu    sync.Mutex
	pairs [][2]int64 // the first keptArrivals of them
}

// read takes the annotation of every object in the body of a request.
func (a *arrivals) read(body []byte, arrived time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.pairs) < keptArrivals {
		_, rest, found := bytes.Cut(body, written)
		if !found {
			return
		}
		digits, _, _ := bytes.Cut(rest, []byte(`"`))
		if at, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
			a.pairs = append(a.pairs, [2]int64{at, arrived.UnixNano()})
		}
		body = rest
	}
}

// forget begins anew.
func (a *arrivals) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pairs = nil
}

func (a *arrivals) json() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return encoded(a.pairs)
}
