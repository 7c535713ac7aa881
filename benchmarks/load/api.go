package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const clusterUID = "7d0b5a7e-3f1c-4a52-9f0e-5f1f6c1f0a11"

type server struct {
	cluster       *cluster
	lease         *lease
	stats         *stats
	watchList     bool
	bookmarkEvery time.Duration
	bodies        sync.Pool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if strings.HasPrefix(path, "/load/") {
		s.control(w, r, path)
		return
	}
	if strings.HasPrefix(path, leasesPath) {
		s.serveLease(w, r)
		return
	}
	s.stats.asked(r)
	for _, each := range s.cluster.resources {
		if path == each.path() {
			if query := r.URL.Query(); query.Get("watch") == "true" || query.Get("watch") == "1" {
				s.watch(w, r, each)
			} else {
				s.list(w, r, each)
			}
			return
		}
	}
	s.other(w, r, path)
}

// ── How the harness speaks to it ────────────────────────────────────────────

func (s *server) control(w http.ResponseWriter, r *http.Request, path string) {
	switch path {
	case "/load/hook":
		s.hook(w, r)
	case "/load/stats":
		answer(w, s.stats.json())
	case "/load/arrivals":
		answer(w, s.stats.arrivals.json())
	case "/load/forget":
		s.stats.forget()
	case "/load/go":
		events, err := strconv.Atoi(r.URL.Query().Get("events"))
		rate, badRate := strconv.ParseFloat(r.URL.Query().Get("rate"), 64)
		s.stats.arrivals.forget()
		switch {
		case err != nil || badRate != nil || r.Method != http.MethodPost:
			http.Error(w, "POST with events=N&rate=N (a second; 0 for all at once)", http.StatusBadRequest)
		case rate > 0:
			go s.cluster.updateAtRate(events, rate)
		default:
			s.cluster.update(events)
		}
	default:
		http.NotFound(w, r)
	}
}

// hook receives what a webhook posts, and counts it.
func (s *server) hook(w http.ResponseWriter, r *http.Request) {
	body, _ := s.bodies.Get().(*bytes.Buffer)
	if body == nil {
		body = &bytes.Buffer{}
	}
	body.Reset()
	defer s.bodies.Put(body)
	if _, err := io.Copy(body, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.stats.arrivals.read(body.Bytes(), time.Now())
	events := 1
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/cloudevents-batch+json") {
		events = bytes.Count(body.Bytes(), []byte(`"specversion"`))
	}
	s.stats.hookRequests.Add(1)
	s.stats.hookEvents.Add(int64(events))
	w.WriteHeader(http.StatusNoContent)
}

// ── Lists ───────────────────────────────────────────────────────────────────

// list honours limit and continue. A page shows objects as they are when it is asked for.
func (s *server) list(w http.ResponseWriter, r *http.Request, of *resource) {
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit <= 0 {
		limit = of.objects
	}
	from, rv := 0, int64(0)
	if token := query.Get("continue"); token != "" {
		if _, err := fmt.Sscanf(token, "%d-%d", &rv, &from); err != nil || from < 0 || from > of.objects {
			status(w, http.StatusBadRequest, "BadRequest", "continue key is not valid")
			return
		}
	} else {
		s.stats.lists.Add(1)
	}
	to := min(of.objects, from+limit)
	versions, now := s.cluster.page(of, from, to)
	if rv == 0 {
		rv = now
	}
	meta := fmt.Sprintf(`"resourceVersion":"%d"`, rv)
	if to < of.objects {
		meta += fmt.Sprintf(`,"continue":"%d-%d","remainingItemCount":%d`, rv, to, of.objects-to)
	}
	s.stats.pages.Add(1)
	w.Header().Set("Content-Type", "application/json")
	out := fmt.Appendf(nil, `{"kind":"%sList","apiVersion":"%s","metadata":{%s},"items":[`, of.kind, of.apiVersion(), meta)
	end := "]}\n"
	if of.custom() {
		out = fmt.Appendf(nil, `{"apiVersion":"%s","items":[`, of.apiVersion())
		end = fmt.Sprintf(`],"kind":"%sList","metadata":{%s}}`+"\n", of.kind, meta)
	}
	for i, each := range versions {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '{')
		out = of.members(out, from+i, each, time.Now().UnixNano())
		if len(out) >= 4*batch {
			if s.write(w, out) != nil {
				return
			}
			out = out[:0]
		}
	}
	s.write(w, append(out, end...))
}

func (s *server) write(w http.ResponseWriter, out []byte) error {
	began := time.Now()
	_, err := w.Write(out)
	s.stats.wrote(len(out), time.Since(began))
	return err
}

// ── The rest of what clients ask ────────────────────────────────────────────

func (s *server) other(w http.ResponseWriter, r *http.Request, path string) {
	switch path {
	case "/healthz", "/livez", "/readyz":
		fmt.Fprint(w, "ok")
	case "/version":
		answer(w, []byte(`{"major":"1","minor":"36","gitVersion":"v1.36.3","platform":"linux/amd64"}`))
	case "/api/v1/namespaces/kube-system":
		answer(w, []byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"`+clusterUID+
			`","resourceVersion":"1"}}`))
	case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		answer(w, []byte(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`))
	case "/api", "/apis":
		s.discovery(w, r, path)
	default:
		for _, each := range s.cluster.resources {
			if path == strings.TrimSuffix(each.path(), "/"+each.plural) {
				answer(w, s.classicResources(path))
				return
			}
		}
		status(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	}
}

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// discovery has both forms; what is served never changes.
func (s *server) discovery(w http.ResponseWriter, r *http.Request, path string) {
	if !strings.Contains(r.Header.Get("Accept"), aggregated) {
		answer(w, s.classicGroups(path))
		return
	}
	w.Header().Set("ETag", `"1"`)
	if r.Header.Get("If-None-Match") == `"1"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	groups := []any{}
	for _, group := range s.groups(path) {
		resources := []any{}
		for _, each := range s.of(group) {
			resources = append(resources, map[string]any{
				"resource":         each.plural,
				"responseKind":     map[string]any{"group": each.group, "version": each.version, "kind": each.kind},
				"scope":            each.scope(),
				"singularResource": strings.ToLower(each.kind),
				"verbs":            []string{"get", "list", "watch"},
			})
		}
		groups = append(groups, map[string]any{
			"metadata": map[string]any{"name": group, "creationTimestamp": nil},
			"versions": []any{map[string]any{"version": "v1", "resources": resources, "freshness": "Current"}},
		})
	}
	w.Header().Set("Content-Type", aggregated)
	w.Write(encoded(map[string]any{
		"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": map[string]any{}, "items": groups,
	}))
}

func (s *server) classicGroups(path string) []byte {
	if path == "/api" {
		return encoded(map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	}
	groups := []any{}
	for _, group := range s.groups(path) {
		version := map[string]any{"groupVersion": group + "/v1", "version": "v1"}
		groups = append(groups, map[string]any{"name": group, "versions": []any{version}, "preferredVersion": version})
	}
	return encoded(map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

func (s *server) classicResources(path string) []byte {
	resources := []any{}
	groupVersion := ""
	for _, each := range s.cluster.resources {
		if each.path() == path+"/"+each.plural {
			groupVersion = each.apiVersion()
			resources = append(resources, map[string]any{
				"name": each.plural, "singularName": strings.ToLower(each.kind), "namespaced": each.scope() == "Namespaced", "kind": each.kind,
				"verbs": []string{"get", "list", "watch"},
			})
		}
	}
	return encoded(map[string]any{
		"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": resources,
	})
}

func (s *server) groups(path string) []string {
	if path == "/api" {
		return []string{""}
	}
	found := []string{}
	for _, each := range s.cluster.resources {
		if each.group != "" && (len(found) == 0 || found[len(found)-1] != each.group) {
			found = append(found, each.group)
		}
	}
	return found
}

func (s *server) of(group string) []*resource {
	found := []*resource{}
	for _, each := range s.cluster.resources {
		if each.group == group {
			found = append(found, each)
		}
	}
	return found
}

func answer(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

func status(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(encoded(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": message, "reason": reason, "code": code,
	}))
}

func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
