package main

import (
	"bytes"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

//go:embed objects
var objects embed.FS

// slots are what differs between objects and between versions of one object. All have one width, so that rendering is
// a copy and a few writes into it.
var slots = map[string]int{"n": 7, "ns": 2, "uid": 36, "rv": 10, "written": 19, "hex": 64, "ip": 3}

type slot struct {
	at   int
	what string
}

// A template renders one kind of object of one size.
type template struct {
	bytes  []byte
	slots  []slot
	custom bool // it has its kind itself, and its members are sorted: so kube-apiserver writes custom resources
}

// newTemplate takes a JSON object with {{slots}}, compact already. Its opening brace is left out, because an object that
// stands alone has two more members before the others.
func newTemplate(text string) *template {
	made := &template{custom: strings.HasPrefix(text, `{"apiVersion"`)}
	text = strings.TrimPrefix(text, "{")
	for {
		before, after, found := strings.Cut(text, "{{")
		made.bytes = append(made.bytes, before...)
		if !found {
			return made
		}
		what, rest, _ := strings.Cut(after, "}}")
		width, known := slots[what]
		if !known {
			panic("no slot is called " + what)
		}
		made.slots = append(made.slots, slot{len(made.bytes), what})
		made.bytes = append(made.bytes, bytes.Repeat([]byte{'0'}, width)...)
		text = rest
	}
}

// What one version of one object is rendered from.
type version struct {
	index   int   // of the object in its resource
	space   int   // its namespace
	rv      int64 // resourceVersion
	written int64 // nanoseconds since 1970, at which the server writes it
	seed    uint64
}

// render appends the object to out.
func (t *template) render(out []byte, v version) []byte {
	start := len(out)
	out = append(out, t.bytes...)
	random := v.seed
	for _, each := range t.slots {
		place := out[start+each.at:]
		switch each.what {
		case "n":
			digits(place[:7], int64(v.index))
		case "ns":
			digits(place[:2], int64(v.space))
		case "uid":
			uid(place[:36], v.seed)
		case "rv":
			digits(place[:10], v.rv)
		case "written":
			digits(place[:19], v.written)
		case "hex":
			for word := 0; word < 4; word++ {
				random = mixed(random)
				hexWord(place[word*16:word*16+16], random)
			}
		case "ip":
			random = mixed(random)
			digits(place[:3], int64(100+random%128))
		}
	}
	return out
}

func digits(place []byte, number int64) {
	for i := len(place) - 1; i >= 0; i-- {
		place[i] = byte('0' + number%10)
		number /= 10
	}
}

func uid(place []byte, seed uint64) {
	var text [32]byte
	hexWord(text[:16], mixed(seed))
	hexWord(text[16:], mixed(seed+1))
	text[12], text[16] = '4', 'a'
	copy(place, text[:8])
	copy(place[9:], text[8:12])
	copy(place[14:], text[12:16])
	copy(place[19:], text[16:20])
	copy(place[24:], text[20:])
	place[8], place[13], place[18], place[23] = '-', '-', '-', '-'
}

func hexWord(place []byte, word uint64) {
	var raw [8]byte
	for i := range raw {
		raw[i] = byte(word >> (8 * i))
	}
	hex.Encode(place, raw[:])
}

// mixed is splitmix64: the same number for the same seed, and no pattern among neighbours.
func mixed(seed uint64) uint64 {
	seed += 0x9e3779b97f4a7c15
	seed = (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
	seed = (seed ^ seed>>27) * 0x94d049bb133111eb
	return seed ^ seed>>31
}

// object is the pod of so many KB, or the object of this name.
func object(name string) (string, bool) {
	switch name {
	case "0.5":
		return compact("small"), true
	case "2":
		return compact("medium"), true
	case "8":
		return compact("pod"), true
	case "configmap":
		return padded(compact(name), `"data":{`, `"panel-%04d.json":"{\n  \"title\": \"%016x\",\n  \"expr\": \"%016x\"\n}",`, 200_000), true
	}
	if kilobytes, err := strconv.ParseFloat(name, 64); err == nil && kilobytes > 0.5 {
		return sized(int(kilobytes * 1000)), true
	}
	if _, err := objects.ReadFile("objects/" + name + ".json"); err != nil {
		return "", false
	}
	return compact(name), true
}

// sized is the largest pod below this size, with as much more as makes it so many bytes.
func sized(size int) string {
	if pod := compact("pod"); len(pod) < size {
		return padded(pod, `"env":[`, `{"name":"SETTING_%04d","value":"%016x%016x"},`, size)
	}
	pod := compact("medium")
	if len(pod) > size {
		pod = compact("small")
	}
	return padded(pod, `"annotations":{`, `"shop.example.test/setting-%04d":"%016x%016x",`, size)
}

func compact(name string) string {
	text, err := objects.ReadFile("objects/" + name + ".json")
	if err != nil {
		panic(err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		panic(err)
	}
	return out.String()
}

// padded is the object with as many further members behind first as make it so many bytes.
func padded(text, first, member string, size int) string {
	var more strings.Builder
	for i := 0; len(text)+more.Len() < size; i++ {
		fmt.Fprintf(&more, member, i, mixed(uint64(i)), mixed(uint64(i)+1<<32))
	}
	return strings.Replace(text, first, first+more.String(), 1)
}
