//! OTLP over HTTP: families in OpenTelemetry's protobuf format, sent by a separate thread.
//!
//! Values are cumulative: a slow collector that misses an interval loses only resolution.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;
use std::{io, thread};

use anyhow::{Result, bail};
use exports::protobuf::Message as _;
use live::otlp::{
    AnyValue, CUMULATIVE, Data, ExportMetricsServiceRequest, Gauge, Histogram, HistogramDataPoint,
    InstrumentationScope, KeyValue, Metric, Number, NumberDataPoint, Resource, ResourceMetrics, ScopeMetrics, Sum,
};
use live::{Family, Label, MetricKind, Value};

use super::page::OutputErrors;
use super::url::shown;
use crate::print;

const MOST_WAITING: usize = 2;
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for requests still queued at the end.
const LAST: Duration = Duration::from_secs(3);

pub(super) struct Sender {
    queue: SyncSender<Vec<u8>>,
    ended: Receiver<Option<String>>,
    errors: Arc<OutputErrors>,
    once: bool,
}

impl Sender {
    /// Sends to this URL with these headers. With `once` there is a single request; [`Self::end`] returns its result.
    pub(super) fn start(
        url: String,
        headers: Vec<(String, String)>,
        errors: Arc<OutputErrors>,
        once: bool,
    ) -> io::Result<Self> {
        let (queue, requests) = sync_channel::<Vec<u8>>(MOST_WAITING);
        let (end, ended) = channel();
        let counts = Arc::clone(&errors);
        thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
            let shown = shown(&url);
            let mut failed = None;
            for request in requests {
                match send(&agent, &url, &headers, &request) {
                    Ok(()) => {
                        if failed.take().is_some() {
                            print::note(format_args!("{shown} takes metrics again"));
                        }
                    }
                    Err(error) => {
                        OutputErrors::count(&counts.otlp);
                        let error = error.to_string().replace(&url, &shown);
                        let message = format!("cannot send metrics to {shown}: {error}");
                        if !once && failed.is_none() {
                            print::note(format_args!("{message}; every interval tries again"));
                        }
                        failed = Some(message);
                    }
                }
            }
            // The process may have ended without waiting.
            let _nobody_waits = end.send(failed);
        })?;
        Ok(Self { queue, ended, errors, once })
    }

    /// Queues the families of one time, or counts them as dropped if the queue is full. Never blocks.
    pub(super) fn send(&self, at_ns: u64, host: &str, families: &[Family]) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(request(at_ns, host, families).encode_to_vec()) {
            OutputErrors::count(&self.errors.dropped);
        }
    }

    pub(super) fn end(self) -> Result<()> {
        drop(self.queue);
        let patience = if self.once { PATIENCE + LAST } else { LAST };
        match self.ended.recv_timeout(patience) {
            Ok(Some(message)) if self.once => bail!(message),
            Err(RecvTimeoutError::Timeout) if self.once => bail!("the collector did not take the metrics"),
            Err(RecvTimeoutError::Timeout) => print::note("the collector did not take the last metrics"),
            _ => {}
        }
        Ok(())
    }
}

fn send(agent: &ureq::Agent, url: &str, headers: &[(String, String)], body: &[u8]) -> Result<(), ureq::Error> {
    let mut request = agent.post(url).header("Content-Type", "application/x-protobuf");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.send(body).map(drop)
}

fn request(at_ns: u64, host: &str, families: &[Family]) -> ExportMetricsServiceRequest {
    let about = [("service.name", "nccl-otf2"), ("host.name", host)];
    let resource = Resource { attributes: about.map(|(key, value)| attribute(key, value)).into() };
    let scope = InstrumentationScope { name: "nccl-otf2".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let metrics = families.iter().map(|family| metric(at_ns, family)).collect();
    let metrics = ScopeMetrics { scope: Some(scope), metrics };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { resource: Some(resource), scope_metrics: vec![metrics] }],
    }
}

fn metric(at_ns: u64, family: &Family) -> Metric {
    let unit = match family.unit {
        "seconds" => "s",
        "bytes" => "By",
        "bytes_per_second" => "By/s",
        other => other,
    };
    let data_points = || numbers(at_ns, family);
    let data = match family.kind {
        MetricKind::Gauge => Data::Gauge(Gauge { data_points: data_points() }),
        MetricKind::Counter => {
            Data::Sum(Sum { data_points: data_points(), aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        MetricKind::Histogram => {
            Data::Histogram(Histogram { data_points: histograms(at_ns, family), aggregation_temporality: CUMULATIVE })
        }
    };
    Metric {
        name: family.name.to_string(),
        description: family.help.to_string(),
        unit: unit.to_owned(),
        data: Some(data),
    }
}

fn numbers(time_unix_nano: u64, family: &Family) -> Vec<NumberDataPoint> {
    let points = family.samples.iter().filter_map(|sample| {
        let value = match &sample.value {
            Value::Number(number) => Number::AsDouble(*number),
            Value::Count(count) => Number::AsInt(i64::try_from(*count).unwrap_or(i64::MAX)),
            Value::Histogram(_) => return None,
        };
        Some(NumberDataPoint { time_unix_nano, attributes: attributes(&sample.labels), value: Some(value) })
    });
    points.collect()
}

fn histograms(time_unix_nano: u64, family: &Family) -> Vec<HistogramDataPoint> {
    let points = family.samples.iter().filter_map(|sample| {
        let Value::Histogram(histogram) = &sample.value else { return None };
        Some(HistogramDataPoint {
            time_unix_nano,
            count: histogram.count(),
            sum: Some(histogram.sum),
            bucket_counts: histogram.counts.clone(),
            explicit_bounds: histogram.bounds.to_vec(),
            attributes: attributes(&sample.labels),
        })
    });
    points.collect()
}

fn attributes(labels: &[Label]) -> Vec<KeyValue> {
    labels.iter().map(|(key, value)| attribute(key, value)).collect()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { string_value: Some(value.to_owned()) }) }
}
