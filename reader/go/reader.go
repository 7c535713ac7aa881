// A reader of kubedelta's streams, in Go. The rules are those of kubedelta_reader/reader.py, whose page says them.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
)

type known struct {
	uid, identity, partition, snapshot, counted string
	sequence, term                              int64
	deleted                                     bool
	state                                       json.RawMessage
}

type gap struct {
	Sequence  int64    `json:"sequence"`
	Resources []string `json:"resources"`
	id        string
	partition string
}

type reader struct {
	partitioned bool
	objects     map[string]known
	gaps        []gap
	newestGap   string
	epochs      map[string]int64
	counted     map[string]int
	proven      map[string]int64
}

func newReader(partitioned bool) *reader {
	return &reader{partitioned, map[string]known{}, []gap{}, "", map[string]int64{}, map[string]int{}, map[string]int64{}}
}

const anywhere = "*" // The partition of a gap of all partitions: no topic is called so.

var marker = regexp.MustCompile(`/p[0-9]+$`)

func (r *reader) provenFor(partition string) int64 {
	if !r.partitioned {
		partition = ""
	}
	if found, has := r.proven[partition]; has {
		return found
	}
	if partition == anywhere && len(r.proven) > 0 {
		return slices.Min(slices.Collect(maps.Values(r.proven)))
	}
	return -1
}

// resourceOf is a resource as the bridge and kubectl name it.
func resourceOf(key []string) string {
	if key[1] == "core" {
		return key[2]
	}
	return key[2] + "." + key[1]
}

func (r *reader) note(found gap) {
	same := func(each gap) bool { return reflect.DeepEqual(each, found) }
	if found.Sequence > r.provenFor(found.partition) && !slices.ContainsFunc(r.gaps, same) {
		r.gaps = append(r.gaps, found)
	}
}

func (r *reader) uncertain(key string, of known) bool {
	part := strings.Split(key, "/")
	for _, each := range r.gaps {
		if (each.partition == anywhere || each.partition == of.partition) && of.sequence < each.Sequence &&
			each.Sequence > r.proven[of.partition] && (each.Resources == nil || slices.Contains(each.Resources, resourceOf(part)) ||
			slices.Contains(each.Resources, part[1]+"/"+part[2])) {
			return true
		}
	}
	return false
}

func isNewer(e *event, of known) bool {
	if e.sequence != of.sequence {
		return e.sequence > of.sequence
	}
	return e.identity != of.identity && (e.term > of.term || e.snapshot != "" && e.snapshot != of.snapshot)
}

func (r *reader) apply(e *event, partition string) (steps []string) {
	named := func(each gap) bool { return each.id == e.gap }
	if e.gap != "" && e.gap != r.newestGap && !slices.ContainsFunc(r.gaps, named) {
		r.note(gap{Sequence: e.sequence, id: e.gap, partition: anywhere})
		r.newestGap, steps = e.gap, []string{"GapFound"}
	}
	if e.op == "" {
		return append(steps, r.notice(e, partition))
	}
	if _, has := r.proven[partition]; !has {
		r.proven[partition] = -1
	}
	of, has := r.objects[e.key]
	if e.snapshot != "" && of.counted != e.snapshot {
		r.counted[partition+"\t"+e.snapshot]++
		of.counted = e.snapshot
		if has {
			r.objects[e.key] = of
		}
	}
	if !has && e.sequence < r.proven[partition] || has && !isNewer(e, of) && e.identity != of.identity {
		return append(steps, "Older")
	} else if has && !isNewer(e, of) {
		return append(steps, "Repeated")
	}
	resource := strings.Join(strings.Split(e.key, "/")[1:3], "/")
	if e.epoch > max(1, r.epochs[resource]) {
		r.epochs[resource] = e.epoch
		r.note(gap{Sequence: e.sequence, id: fmt.Sprint("epoch/", resource, e.epoch), partition: anywhere, Resources: []string{resource}})
		steps = append(steps, "EpochBegan")
	}
	gone := e.op == "deleted"
	r.objects[e.key] = known{uid: e.uid, identity: e.identity, partition: partition, snapshot: e.snapshot,
		counted: of.counted, sequence: e.sequence, term: e.term, deleted: gone, state: e.data}
	switch {
	case has && e.identity == of.identity:
		return append(steps, "Repeated")
	case gone && (e.evidence == "unwatched" || e.evidence == "unselected"):
		return append(steps, "Left")
	case gone:
		return append(steps, "Deleted "+e.evidence)
	case has && !of.deleted && of.uid != e.uid:
		return append(steps, "Deleted replaced", "Changed")
	}
	return append(steps, "Changed")
}

func (r *reader) notice(e *event, partition string) string {
	if !r.partitioned {
		partition = ""
	}
	isMarker := marker.MatchString(e.id)
	switch strings.TrimSuffix(strings.TrimPrefix(e.kind, "kubedelta."), ".v1") {
	case "gap":
		found := gap{Sequence: e.sequence, id: marker.ReplaceAllString(e.id, ""), partition: anywhere}
		if r.partitioned && isMarker {
			found.partition = partition
		}
		var data struct{ Resources []string }
		json.Unmarshal(e.data, &data)
		found.Resources, r.newestGap = data.Resources, found.id
		r.note(found)
		return "GapFound"
	case "term.began":
		return "TermBegan"
	case "snapshot.began":
		return "SnapshotBegan"
	case "snapshot.cancelled":
		delete(r.counted, partition+"\t"+e.snapshot)
		return "SnapshotCancelled"
	case "snapshot.ended":
		if r.partitioned && !isMarker {
			return "SnapshotEnded incomplete"
		}
		return r.ended(e, partition)
	}
	return "Unknown"
}

func (r *reader) ended(e *event, partition string) string {
	var data struct {
		Objects     *int
		DeadLetters int `json:"dead_letters"`
		Only        map[string]json.RawMessage
	}
	json.Unmarshal(e.data, &data)
	came := r.counted[partition+"\t"+e.snapshot]
	delete(r.counted, partition+"\t"+e.snapshot)
	for name := range data.Only {
		if name != "resource" && name != "namespace" {
			return "SnapshotEnded incomplete"
		}
	}
	if data.DeadLetters > 0 || data.Objects == nil || came < *data.Objects {
		return "SnapshotEnded incomplete"
	}
	swept := []string{}
	for key, of := range r.objects {
		part := strings.Split(key, "/")
		resource, namespace := data.Only["resource"], data.Only["namespace"]
		if of.partition != partition || of.sequence >= e.sequence ||
			resource != nil && text(resource) != resourceOf(part) || namespace != nil && text(namespace) != part[3] {
			continue
		}
		if !of.deleted {
			swept = append(swept, key)
		}
		of.sequence, of.identity, of.deleted, of.snapshot = e.sequence, e.identity, true, ""
		r.objects[key] = of
		if len(data.Only) == 0 {
			delete(r.objects, key)
		}
	}
	if len(data.Only) == 0 {
		r.proven[partition] = max(e.sequence, r.provenFor(partition))
		r.gaps = slices.DeleteFunc(r.gaps, func(each gap) bool { return each.Sequence <= r.provenFor(each.partition) })
	}
	sort.Strings(swept)
	return strings.TrimSpace("SnapshotEnded swept " + strings.Join(swept, ","))
}
