// A reader of kubedelta's streams, in Go. The rules are those of kubedelta_reader/reader.py, whose page says them.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

type event struct {
	kind, identity, id, key, uid, op, evidence, snapshot, gap string
	sequence, epoch, term                                     int64
	data                                                      json.RawMessage
}

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
	partition *string
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

// ── Forms ────────────────────────────────────────────────────────────────────

func text(raw json.RawMessage) string {
	var found string
	if json.Unmarshal(raw, &found) == nil {
		return found
	}
	return strings.TrimSpace(string(raw))
}

func number(raw string) (found int64) {
	found, _ = strconv.ParseInt(raw, 10, 64)
	return
}

func state(raw json.RawMessage) json.RawMessage {
	var written string
	if json.Unmarshal(raw, &written) == nil && len(raw) > 0 && raw[0] == '"' {
		return json.RawMessage(written)
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil
	}
	return raw
}

// attributes makes an event of the attributes of a CloudEvent; nil for a record of another program.
func attributes(of map[string]string, data json.RawMessage, gap string) *event {
	if !strings.HasPrefix(of["type"], "kubedelta.") || of["id"] == "" || of["source"] == "" || of["sequence"] == "" {
		return nil
	}
	found := &event{kind: of["type"], id: of["id"], identity: of["source"] + " " + of["id"], key: of["partitionkey"],
		uid: of["uid"], op: of["op"], evidence: of["evidence"], snapshot: of["snapshot"], gap: gap,
		sequence: number(of["sequence"]), epoch: max(1, number(of["epoch"])), term: number(of["term"]), data: data}
	if !slices.Contains([]string{"added", "updated", "deleted", "sync"}, found.op) {
		found.op = ""
	}
	return found
}

func decode(encoding string, record map[string]json.RawMessage) *event {
	of, gap := map[string]string{}, ""
	switch encoding {
	case "structured":
		for name, value := range record {
			of[name] = text(value)
		}
		return attributes(of, record["data"], "")
	case "kafka", "nats":
		var headers map[string]string
		json.Unmarshal(record["headers"], &headers)
		for name, value := range headers {
			name = strings.ToLower(name)
			if plain, found := strings.CutPrefix(name, "ce_"); found {
				of[plain] = value
			} else if plain, found := strings.CutPrefix(name, "ce-"); found {
				of[plain], _ = url.PathUnescape(value)
			} else if name == "kubedelta-gap" {
				gap = value
			}
		}
		return attributes(of, state(record[map[string]string{"kafka": "value", "nats": "payload"}[encoding]]), gap)
	}
	names := []string{"cluster", "group", "resource", "namespace", "name", "resource_version"}
	source, data := record, record["object"]
	of["op"] = text(record["op"])
	if encoding == "envelope" {
		names = []string{"db", "schema", "table", "namespace", "objectname", "resourceversion"}
		source = map[string]json.RawMessage{}
		json.Unmarshal(record["source"], &source)
		of["op"] = map[string]string{"c": "added", "u": "updated", "d": "deleted", "r": "sync"}[of["op"]]
		data = record["after"]
		if of["op"] == "deleted" {
			data = record["before"]
		}
	}
	for _, name := range []string{"id", "uid", "evidence", "sequence", "epoch", "term"} {
		of[name] = text(source[name])
	}
	parts := []string{}
	for index, name := range names[:5] {
		part := text(source[name])
		if part == "" {
			part = map[int]string{1: "core", 3: "_"}[index]
		}
		parts = append(parts, part)
	}
	of["partitionkey"], of["type"] = strings.Join(parts, "/"), "kubedelta."+encoding
	of["source"] = "/clusters/" + parts[0]
	if number(of["epoch"]) > 1 {
		of["source"] += "/epochs/" + of["epoch"]
	}
	if named := state(source["gap"]); len(named) > 0 {
		gap = string(named)
	}
	if named := text(source["snapshot"]); named != "false" && named != "null" {
		of["snapshot"] = named
	}
	return attributes(of, state(data), gap)
}

// ── Rules ────────────────────────────────────────────────────────────────────

var marker = regexp.MustCompile(`/p[0-9]+$`)

func (r *reader) provenFor(partition *string) int64 {
	if partition != nil || !r.partitioned {
		if found, has := r.proven[deref(partition)]; has {
			return found
		}
		return -1
	}
	if len(r.proven) == 0 {
		return -1
	}
	least := int64(math.MaxInt64)
	for _, each := range r.proven {
		least = min(least, each)
	}
	return least
}

func deref(partition *string) string {
	if partition == nil {
		return ""
	}
	return *partition
}

func (r *reader) note(found gap) {
	same := func(each gap) bool {
		return each.id == found.id && each.Sequence == found.Sequence && deref(each.partition) == deref(found.partition) &&
			(each.Resources == nil) == (found.Resources == nil) && slices.Equal(each.Resources, found.Resources)
	}
	if found.Sequence > r.provenFor(found.partition) && !slices.ContainsFunc(r.gaps, same) {
		r.gaps = append(r.gaps, found)
	}
}

func (r *reader) uncertain(key string, of known) bool {
	part := strings.Split(key, "/")
	named := part[2]
	if part[1] != "core" {
		named += "." + part[1]
	}
	for _, each := range r.gaps {
		if (each.partition == nil || *each.partition == of.partition) && of.sequence < each.Sequence &&
			each.Sequence > r.proven[of.partition] && (each.Resources == nil || slices.Contains(each.Resources, named) ||
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
		r.note(gap{Sequence: e.sequence, id: e.gap})
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
		if has {
			of.counted = e.snapshot
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
		r.note(gap{Sequence: e.sequence, id: fmt.Sprint("epoch/", resource, e.epoch), Resources: []string{resource}})
		steps = append(steps, "EpochBegan")
	}
	gone, counted := e.op == "deleted", of.counted
	if e.snapshot != "" {
		counted = e.snapshot
	}
	r.objects[e.key] = known{uid: e.uid, identity: e.identity, partition: partition, snapshot: e.snapshot,
		counted: counted, sequence: e.sequence, term: e.term, deleted: gone, state: e.data}
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
		found := gap{Sequence: e.sequence, id: marker.ReplaceAllString(e.id, "")}
		if r.partitioned && isMarker {
			found.partition = &partition
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
		named := part[2]
		if part[1] != "core" {
			named += "." + part[1]
		}
		resource, namespace := data.Only["resource"], data.Only["namespace"]
		if of.partition != partition || of.sequence >= e.sequence ||
			resource != nil && text(resource) != named || namespace != nil && text(namespace) != part[3] {
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
		r.proven[partition] = max(e.sequence, r.provenFor(&partition))
		r.gaps = slices.DeleteFunc(r.gaps, func(each gap) bool { return each.Sequence <= r.provenFor(each.partition) })
	}
	sort.Strings(swept)
	return strings.TrimSpace("SnapshotEnded swept " + strings.Join(swept, ","))
}
