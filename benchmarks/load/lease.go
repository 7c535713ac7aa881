package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/load/leases"

// lease is the only Lease there is. Whoever writes it must know its version.
type lease struct {
	lock    sync.Mutex
	version int64
	object  []byte // nil until it is created
	changed chan struct{}
}

func newLease() *lease {
	return &lease{changed: make(chan struct{})}
}

func (l *lease) read() ([]byte, int64, <-chan struct{}) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.object, l.version, l.changed
}

// write answers false to a version that is not the current one; that of a Lease to create is empty.
func (l *lease) write(object map[string]any) ([]byte, bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	metadata, _ := object["metadata"].(map[string]any)
	known, _ := metadata["resourceVersion"].(string)
	current := ""
	if l.object != nil {
		current = fmt.Sprint(l.version)
	}
	if metadata == nil || known != current {
		return nil, false
	}
	l.version++
	metadata["resourceVersion"], metadata["uid"] = fmt.Sprint(l.version), clusterUID
	l.object = encoded(object)
	close(l.changed)
	l.changed = make(chan struct{})
	return l.object, true
}

func (s *server) serveLease(w http.ResponseWriter, r *http.Request) {
	found, _, _ := s.lease.read()
	switch {
	case r.Method != http.MethodGet:
		var object map[string]any
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			status(w, http.StatusBadRequest, "BadRequest", err.Error())
		} else if written, current := s.lease.write(object); !current {
			status(w, http.StatusConflict, "Conflict", "another version is current")
		} else {
			answer(w, written)
		}
	case r.URL.Query().Has("watch"):
		s.watchLease(w, r)
	case found == nil || !strings.HasPrefix(r.URL.Path, leasesPath+"/"):
		status(w, http.StatusNotFound, "NotFound", "there is no Lease")
	default:
		answer(w, found)
	}
}

// watchLease sends the newest state after each change, for as long as the client asked.
func (s *server) watchLease(w http.ResponseWriter, r *http.Request) {
	query, sent := r.URL.Query(), int64(0)
	fmt.Sscan(query.Get("resourceVersion"), &sent)
	seconds := 300
	fmt.Sscan(query.Get("timeoutSeconds"), &seconds)
	over := time.After(time.Duration(seconds) * time.Second)
	w.Header().Set("Content-Type", "application/json")
	for {
		found, version, changed := s.lease.read()
		if version > sent {
			fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", found)
			sent = version
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}
