// The forms in which sinks send records, and the event that each of them is. Its counterpart in Python is events.py.
package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

type event struct {
	kind, identity, id, key, uid, op, evidence, snapshot, gap string
	sequence, epoch, term                                     int64
	data                                                      json.RawMessage
}

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
