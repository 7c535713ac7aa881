package main

import (
	"bytes"
	"fmt"
	"sort"
	"sync"
	"time"
)

const (
	firstVersion = 1_000_000_000 // the resourceVersion before the first object's
	namespaces   = 20
)

// A resource is one list of objects and what happened to them since.
type resource struct {
	group, version, plural, kind string
	objects                      int
	templates                    []*template // by the object's size
	sizeOf                       func(index int) int
	seed                         uint64

	versions []int64 // of each object
	history  []event // versions rise; nothing is ever forgotten
}

type event struct {
	rv    int64
	index int32
}

func (r *resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

func (r *resource) path() string {
	if r.group == "" {
		return "/api/" + r.version + "/" + r.plural
	}
	return "/apis/" + r.apiVersion() + "/" + r.plural
}

// head are the first members of an object that stands alone; those of a list have none. A custom resource has them in
// its template.
func (r *resource) head() string {
	if r.custom() {
		return "{"
	}
	return r.identity()
}

func (r *resource) identity() string {
	return fmt.Sprintf(`{"kind":"%s","apiVersion":"%s",`, r.kind, r.apiVersion())
}

func (r *resource) custom() bool {
	return r.templates[0].custom
}

func (r *resource) scope() string {
	if bytes.Contains(r.templates[0].bytes, []byte(`"namespace":"`)) {
		return "Namespaced"
	}
	return "Cluster"
}

// members appends the object as it stands in a list, less its opening brace.
func (r *resource) members(out []byte, index int, rv, now int64) []byte {
	space := index * namespaces / max(r.objects, 1)
	seed := mixed(r.seed<<32 + uint64(index))
	return r.templates[r.sizeOf(index)].render(out, version{index, space, rv, now, seed})
}

// The cluster is all resources under one count of versions, as etcd has it.
type cluster struct {
	mu        sync.Mutex
	resources []*resource
	total     int
	rv        int64
	events    int64
	changed   chan struct{} // closed and replaced when there is more history
}

func newCluster(resources []*resource) *cluster {
	made := &cluster{resources: resources, rv: firstVersion, changed: make(chan struct{})}
	for _, each := range resources {
		each.versions = make([]int64, each.objects)
		for index := range each.versions {
			made.rv++
			each.versions[index] = made.rv
		}
		made.total += each.objects
	}
	return made
}

// update gives so many objects a new version each. Which ones is spread without a pattern, and the same in every run.
func (c *cluster) update(count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range count {
		at := int(mixed(uint64(c.events)) % uint64(c.total))
		c.events++
		c.rv++
		for _, each := range c.resources {
			if at < each.objects {
				each.versions[at] = c.rv
				each.history = append(each.history, event{c.rv, int32(at)})
				break
			}
			at -= each.objects
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// updateAtRate spreads the updates evenly, and makes up for what it was late with.
func (c *cluster) updateAtRate(count int, perSecond float64) {
	began := time.Now()
	for done := 0; done < count; {
		due := min(count, int(time.Since(began).Seconds()*perSecond)+1)
		if due > done {
			c.update(due - done)
			done = due
		}
		next := time.Duration(float64(done) / perSecond * float64(time.Second))
		time.Sleep(time.Until(began.Add(next)))
	}
}

// since returns what happened to the resource after a version, where the cluster stands, and what tells of more.
func (c *cluster) since(r *resource, rv int64, most int) ([]event, int64, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := sort.Search(len(r.history), func(i int) bool { return r.history[i].rv > rv })
	return r.history[from:min(len(r.history), from+most)], c.rv, c.changed
}

// page copies the versions of some objects, and says where the cluster stands.
func (c *cluster) page(r *resource, from, to int) ([]int64, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int64(nil), r.versions[from:to]...), c.rv
}
