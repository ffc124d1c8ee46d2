//! `nccl-otf2 metrics`: reports what a running job does, for monitoring systems.
//!
//! ```text
//!  live ─ Snapshot ─► Families ─► Page ─┬─► Server     scraped by Prometheus
//!                                       ├─► TextFile   read by node exporter
//!                                       └─► Sender     sent to a collector
//! ```

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use crate::command_line::Exit;
use crate::dump::{Line, exit, nothing, over, problems, read};
use crate::metrics::http::{Collector, Format, Latest, Names, OutputErrors, Page, Server, shown};
use crate::{archives, output};
use anyhow::{Context as _, Result, bail};
use exports::protobuf::Message as _;
use live::otlp::{
    AnyValue, CUMULATIVE, Data, ExportMetricsServiceRequest, Gauge, Histogram, HistogramDataPoint,
    InstrumentationScope, KeyValue, Metric, Number, NumberDataPoint, Resource, ResourceMetrics, ScopeMetrics, Sum,
};
use live::{Families, Family, Label, Live, MetricKind, Options, Snapshot, Value};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

mod http;

pub(crate) use crate::metrics::http::Request;

/// Once everything has been read for this long, completed operations are aggregated: they settle in the meantime.
const SETTLED: Duration = Duration::from_millis(1500);
/// Limit for reading what was recorded before the start, if processes record faster than it is read.
const CATCH_UP: Duration = Duration::from_secs(60);

pub(crate) fn metrics(request: &Request) -> Result<Exit> {
    let stop = signals().context("cannot catch signals")?;
    let mut outputs = Outputs::open(request)?;
    match archives::job(&request.directory) {
        Err(error) if request.once => return Err(error),
        Err(error) => output::note(format_args!("waiting for processes to record: {error}")),
        Ok(directory) => archives::note_other_jobs(directory),
    }
    let mut live = Live::new(&request.directory, Options::default());
    // Served sums start with everything recorded so far, so that they do not decrease after a restart.
    let mut noted = BTreeSet::new();
    let (mut until, mut is_first) = ((!request.once).then(|| Instant::now() + CATCH_UP), true);
    loop {
        read(&mut live, until, is_first.then_some(SETTLED), &stop);
        let mut snapshot = live.snapshot();
        for (own, label) in [(&request.job, &mut snapshot.job.job), (&request.cluster, &mut snapshot.job.cluster)] {
            own.iter().for_each(|own| label.clone_from(own));
        }
        outputs.publish(&snapshot)?;
        let is_told = request.once || snapshot.processes_elsewhere > 0;
        let nothing = nothing(&request.directory, &snapshot).filter(|_| is_told);
        if request.once && nothing.is_none() {
            over(&snapshot).iter().for_each(output::note);
        }
        problems(&snapshot).chain(nothing).filter(|text| noted.insert(text.clone())).for_each(output::note);
        if request.once || stop.load(Ordering::Relaxed) || !outputs.has_any() {
            outputs.end()?;
            return Ok(if request.once { exit(&snapshot) } else { Exit::Well });
        }
        (until, is_first) = (Some(Instant::now() + request.interval), false);
    }
}

/// The flag that SIGINT and SIGTERM set. A second signal ends the process at once.
fn signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

struct Outputs {
    families: Families,
    latest: Arc<Latest>,
    textfile: Option<TextFile>,
    sender: Option<Sender>,
    errors: Arc<OutputErrors>,
    serves: bool,
    prints: bool,
    json: bool,
    once: bool,
}

impl Outputs {
    fn open(request: &Request) -> Result<Self> {
        request.check()?;
        let (latest, errors) = (Arc::<Latest>::default(), Arc::<OutputErrors>::default());
        if let Some((listener, token)) = request.listener()? {
            let server = Server { latest: Arc::clone(&latest), errors: Arc::clone(&errors), token };
            let address = server.start(listener).context("cannot listen")?;
            output::note(format_args!("metrics are at http://{address}/metrics"));
        }
        let sender = request.collector()?.map(|Collector { url, headers }| {
            Sender::start(url, headers, Arc::clone(&errors), request.once).context("cannot start a thread")
        });
        Ok(Self {
            families: Families::new(match request.names {
                Names::Ours => live::Names::Ours,
                Names::Inspector => live::Names::Inspector,
                Names::Otel => live::Names::Otel,
            }),
            latest,
            textfile: request.textfile.as_ref().map(|directory| TextFile::new(directory, &request.directory)),
            sender: sender.transpose()?,
            errors,
            serves: request.listen.is_some(),
            prints: request.prints(),
            json: request.json,
            once: request.once,
        })
    }

    /// Passes a snapshot to all outputs. An output that fails does not keep it from the others.
    fn publish(&mut self, snapshot: &Snapshot) -> Result<()> {
        let mut families = self.families.collect(snapshot);
        families.extend(self.errors.families());
        let page = Arc::new(Page::new(families));
        *self.latest.lock() = Some(Arc::clone(&page));
        if let Some(file) = &mut self.textfile {
            let written = file.write(page.text(Format::Prometheus));
            if written.is_err() {
                OutputErrors::count(&self.errors.textfile);
            }
            match written {
                Ok(message) => message.iter().for_each(output::note),
                Err(message) if self.once => bail!(message.unwrap_or_default()),
                Err(message) => message.iter().for_each(|message| {
                    output::note(format_args!("{message}; its last values stay; trying again every interval"));
                }),
            }
        }
        if let Some(sender) = &self.sender {
            sender.send(snapshot.at_ns, &snapshot.job.host, &page.families);
        }
        if self.json {
            let line = serde_json::to_string(&Line::new(snapshot, None)).context("cannot write JSON")?;
            match writeln!(io::stdout().lock(), "{line}") {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.json = false,
                written => written.context("cannot write to stdout")?,
            }
        }
        if self.prints {
            output::exact(page.text(Format::Prometheus))?;
        }
        Ok(())
    }

    /// Whether any output is left; false if only `--json` was asked for and its reader has closed stdout.
    const fn has_any(&self) -> bool {
        self.serves || self.textfile.is_some() || self.sender.is_some() || self.json
    }

    /// Called after the last snapshot. Fails if it was the only one and the collector did not accept it.
    fn end(self) -> Result<()> {
        if let Some(file) = self.textfile.filter(|_| !self.once) {
            file.remove();
        }
        self.sender.map_or(Ok(()), Sender::end)
    }
}

const MOST_WAITING: usize = 2;
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for requests still queued at the end.
const LAST: Duration = Duration::from_secs(3);

/// OTLP over HTTP: families in OpenTelemetry's protobuf format, sent by a separate thread.
///
/// Values are cumulative: a slow collector that misses an interval loses only resolution.
pub(crate) struct Sender {
    queue: SyncSender<Vec<u8>>,
    ended: Receiver<Option<String>>,
    errors: Arc<OutputErrors>,
    once: bool,
}

impl Sender {
    /// Sends to this URL with these headers. With `once` there is a single request; [`Self::end`] returns its result.
    pub(crate) fn start(
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
                            output::note(format_args!("{shown} accepts metrics again"));
                        }
                    }
                    Err(error) => {
                        OutputErrors::count(&counts.otlp);
                        let error = error.to_string().replace(&url, &shown);
                        let message = format!("cannot send metrics to {shown}: {error}");
                        if !once && failed.is_none() {
                            output::note(format_args!("{message}; trying again every interval"));
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
    pub(crate) fn send(&self, at_ns: u64, host: &str, families: &[Family]) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(request(at_ns, host, families).encode_to_vec()) {
            OutputErrors::count(&self.errors.dropped);
        }
    }

    pub(crate) fn end(self) -> Result<()> {
        drop(self.queue);
        let patience = if self.once { PATIENCE + LAST } else { LAST };
        match self.ended.recv_timeout(patience) {
            Ok(Some(message)) if self.once => bail!(message),
            Err(RecvTimeoutError::Timeout) if self.once => bail!("the collector did not accept the metrics"),
            Err(RecvTimeoutError::Timeout) => output::note("the collector did not accept the last metrics"),
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

/// Writes a file for node exporter's textfile collector, replaced atomically.
#[derive(Debug)]
pub(crate) struct TextFile {
    directory: PathBuf,
    path: PathBuf,
    failed: bool,
}

impl TextFile {
    pub(crate) fn new(directory: &Path, job: &Path) -> Self {
        let job = job.canonicalize().unwrap_or_else(|_| job.to_owned());
        let name = job.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name
            .chars()
            .map(
                |character| {
                    if character.is_ascii_alphanumeric() || "-_.".contains(character) { character } else { '_' }
                },
            )
            .collect();
        Self { directory: directory.to_owned(), path: directory.join(format!("nccl_otf2_{name}.prom")), failed: false }
    }

    /// Replaces the text. Returns a message when writing starts to fail, and when it works again.
    pub(crate) fn write(&mut self, text: &str) -> Result<Option<String>, Option<String>> {
        let path = self.path.display();
        match self.replace(text) {
            Ok(()) => Ok(std::mem::take(&mut self.failed).then(|| format!("{path} can be written again"))),
            Err(error) => {
                let is_new = !std::mem::replace(&mut self.failed, true);
                Err(is_new.then(|| format!("cannot write {path}: {error}")))
            }
        }
    }

    /// Opens no file that others put into the directory. The collector runs as another user, and reads `*.prom` files.
    fn replace(&self, text: &str) -> io::Result<()> {
        let mut unfinished =
            tempfile::Builder::new().prefix(".nccl_otf2_").suffix(".tmp").tempfile_in(&self.directory)?;
        unfinished.write_all(text.as_bytes())?;
        unfinished.as_file().set_permissions(Permissions::from_mode(0o644))?;
        unfinished.persist(&self.path)?;
        Ok(())
    }

    /// Removes the file: values that are no longer updated would stay forever.
    pub(crate) fn remove(self) {
        let _not_there = fs::remove_file(self.path);
    }
}

#[cfg(test)]
mod tests;
