// Applies the records of vectors and says what came out: this shows that the vectors suffice for another language.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
)

func main() {
	results := []any{}
	for _, path := range os.Args[1:] {
		content, err := os.ReadFile(path)
		var vector struct {
			Version     int
			Encoding    string
			Partitioned bool
			Given       []struct{ Record map[string]json.RawMessage }
		}
		if err == nil {
			err = json.Unmarshal(content, &vector)
		}
		if err != nil || vector.Version != 1 {
			fmt.Fprintln(os.Stderr, path, err, "version", vector.Version)
			os.Exit(1)
		}
		r := newReader(vector.Partitioned)
		steps := [][]string{}
		for _, each := range vector.Given {
			if e := decode(vector.Encoding, each.Record); e == nil {
				steps = append(steps, []string{"NotAnEvent"})
			} else {
				steps = append(steps, r.apply(e, text(each.Record["partition"])))
			}
		}
		objects, uncertain := map[string]any{}, []string{}
		for key, of := range r.objects {
			if !of.deleted {
				objects[key] = map[string]any{"uid": of.uid, "sequence": of.sequence, "state": of.state}
				if r.uncertain(key, of) {
					uncertain = append(uncertain, key)
				}
			}
		}
		sort.Strings(uncertain)
		results = append(results, map[string]any{"steps": steps, "then": map[string]any{"objects": objects, "uncertain": uncertain, "gaps": r.gaps}})
	}
	json.NewEncoder(os.Stdout).Encode(results)
}
