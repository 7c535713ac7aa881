//! kube-rs' reflector over dynamic objects, which serves any resource, and rdkafka: what the watcher tells to Kafka as
//! JSON, each acknowledged. Without BROKERS the JSON is discarded, and the file TALLY has the number of records.

use std::env;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{reflector, store::Writer};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config, ResourceExt};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};
use tokio::sync::Notify;

struct Acknowledged {
    left: AtomicU64,
    all: Notify,
}

#[derive(Clone)]
struct Deliveries(Arc<Acknowledged>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        if let Err((error, _)) = result {
            eprintln!("not delivered: {error}");
            std::process::exit(1);
        }
        self.0.one_more();
    }
}

impl Acknowledged {
    fn one_more(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all.notify_one();
        }
    }
}

enum Output {
    Kafka {
        producer: ThreadedProducer<Deliveries>,
        topic: String,
    },
    Nobody {
        seen: AtomicU64,
        tally: File,
        acknowledged: Arc<Acknowledged>,
    },
}

impl Output {
    fn open(acknowledged: Arc<Acknowledged>) -> Result<Self> {
        let Ok(brokers) = env::var("BROKERS") else {
            let tally = OpenOptions::new().write(true).open(env::var("TALLY")?)?;
            let seen = AtomicU64::new(0);
            return Ok(Self::Nobody {
                seen,
                tally,
                acknowledged,
            });
        };
        let producer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("compression.type", "lz4")
            .create_with_context(Deliveries(acknowledged))?;
        let topic = env::var("TOPIC")?;
        Ok(Self::Kafka { producer, topic })
    }

    async fn send(&self, op: &str, object: &DynamicObject) -> Result<()> {
        let value = serde_json::to_vec(object)?;
        match self {
            Self::Kafka { producer, topic } => produce(producer, topic, op, object, &value).await,
            Self::Nobody {
                seen,
                tally,
                acknowledged,
            } => {
                let now = seen.fetch_add(1, Ordering::Relaxed) + 1;
                tally.write_all_at(&now.to_le_bytes(), 0)?;
                acknowledged.one_more();
                Ok(())
            }
        }
    }

    fn flush(&self) -> Result<()> {
        if let Self::Kafka { producer, .. } = self {
            producer.flush(Duration::from_secs(10))?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let began = Instant::now();
    let records: u64 = env::var("RECORDS")?.parse()?;
    let acknowledged = Arc::new(Acknowledged {
        left: AtomicU64::new(records),
        all: Notify::new(),
    });
    let output = Output::open(acknowledged.clone())?;
    tokio::select! {
        ended = export(&output) => ended?,
        () = acknowledged.all.notified() => {}
    }
    output.flush()?;
    report(began, records);
    Ok(())
}

async fn export(output: &Output) -> Result<()> {
    let mut config = Config::new(env::var("SERVER")?.parse()?);
    config.root_cert = env::var("CA_FILE")
        .ok()
        .map(read_certificates)
        .transpose()?;
    let resource = resource()?;
    let api: Api<DynamicObject> = Api::all_with(Client::try_from(config)?, &resource);
    let writer = Writer::new(resource);
    let _store = writer.as_reader();
    let mut events =
        pin!(reflector(writer, watcher(api, watcher::Config::default())).default_backoff());
    while let Some(event) = events.try_next().await? {
        match event {
            Event::Apply(object) => output.send("updated", &object).await?,
            Event::InitApply(object) => output.send("added", &object).await?,
            Event::Delete(object) => output.send("deleted", &object).await?,
            Event::Init | Event::InitDone => {}
        }
    }
    Ok(())
}

/// The one of RESOURCE: group/version/plural/kind.
fn resource() -> Result<ApiResource> {
    let named = env::var("RESOURCE")?;
    let [group, version, plural, kind] = named.split('/').collect::<Vec<_>>()[..] else {
        bail!("RESOURCE={named}: expected is group/version/plural/kind");
    };
    let kind = GroupVersionKind::gvk(group, version, kind);
    Ok(ApiResource::from_gvk_with_plural(&kind, plural))
}

async fn produce(
    producer: &ThreadedProducer<Deliveries>,
    topic: &str,
    op: &str,
    object: &DynamicObject,
    value: &[u8],
) -> Result<()> {
    let key = format!(
        "{}/{}",
        object.namespace().unwrap_or_default(),
        object.name_any()
    );
    let headers = OwnedHeaders::new_with_capacity(3)
        .insert(Header {
            key: "op",
            value: Some(op),
        })
        .insert(Header {
            key: "uid",
            value: object.metadata.uid.as_ref(),
        })
        .insert(Header {
            key: "resourceversion",
            value: object.metadata.resource_version.as_ref(),
        });
    let mut record = BaseRecord::to(topic)
        .key(&key)
        .payload(value)
        .headers(headers);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

fn read_certificates(path: String) -> Result<Vec<Vec<u8>>> {
    let text = std::fs::read(&path).with_context(|| path.clone())?;
    Ok(pem::parse_many(text)?
        .into_iter()
        .map(pem::Pem::into_contents)
        .collect())
}

fn report(began: Instant, records: u64) {
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut used) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    println!(
        r#"{{"records":{records},"cpu_seconds":{:.3},"wall_seconds":{:.3},"max_rss_bytes":{}}}"#,
        seconds(used.ru_utime) + seconds(used.ru_stime),
        began.elapsed().as_secs_f64(),
        used.ru_maxrss * 1024,
    );
}
