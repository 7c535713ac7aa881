// Package bridge is what both peers share: an informer's objects to Kafka as JSON, each acknowledged.
package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	added   = "added"
	updated = "updated"
	deleted = "deleted"
)

// Run exports what the informer tells until RECORDS records are acknowledged, and prints what that took.
func Run(makeInformer func(*rest.Config) (cache.SharedIndexInformer, error)) {
	began := time.Now()
	records, err := strconv.ParseInt(os.Getenv("RECORDS"), 10, 64)
	if err != nil {
		log.Fatalf("RECORDS: %v", err)
	}
	producer, err := kgo.NewClient( // acks=all and idempotence are its defaults
		kgo.SeedBrokers(os.Getenv("BROKERS")),
		kgo.DefaultProduceTopic(os.Getenv("TOPIC")),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		kgo.ProducerLinger(5*time.Millisecond),
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx, done := context.WithCancel(context.Background())
	informer, err := makeInformer(config())
	if err != nil {
		log.Fatal(err)
	}
	out := &exporter{producer: producer, ctx: ctx, records: records, done: done}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { out.send(added, object) },
		UpdateFunc: func(_, object any) { out.send(updated, object) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			out.send(deleted, object)
		},
	}); err != nil {
		log.Fatal(err)
	}
	informer.RunWithContext(ctx)
	producer.Close()
	report(began, records)
}

func config() *rest.Config {
	config := &rest.Config{Host: os.Getenv("SERVER"), QPS: -1}
	config.CAFile = os.Getenv("CA_FILE")
	return config
}

// Resource is the one of RESOURCE: group/version/plural/kind.
func Resource() schema.GroupVersionResource {
	named := strings.Split(os.Getenv("RESOURCE"), "/")
	return schema.GroupVersionResource{Group: named[0], Version: named[1], Resource: named[2]}
}

type exporter struct {
	producer *kgo.Client
	ctx      context.Context
	records  int64
	acked    atomic.Int64
	done     func()
}

func (e *exporter) send(op string, object any) {
	meta := object.(v1.Object)
	value, err := json.Marshal(object)
	if err != nil {
		log.Fatal(err)
	}
	record := &kgo.Record{
		Key:   []byte(meta.GetNamespace() + "/" + meta.GetName()),
		Value: value,
		Headers: []kgo.RecordHeader{
			{Key: "op", Value: []byte(op)},
			{Key: "uid", Value: []byte(meta.GetUID())},
			{Key: "resourceversion", Value: []byte(meta.GetResourceVersion())},
		},
	}
	e.producer.Produce(e.ctx, record, e.acknowledged)
}

func (e *exporter) acknowledged(_ *kgo.Record, err error) {
	if err != nil {
		log.Fatal(err)
	}
	if e.acked.Add(1) == e.records {
		e.done()
	}
}

func report(began time.Time, records int64) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
	fmt.Printf(`{"records":%d,"cpu_seconds":%.3f,"wall_seconds":%.3f,"max_rss_bytes":%d}`+"\n",
		records, cpu, time.Since(began).Seconds(), used.Maxrss*1024)
}
