//! The arguments of `metrics`, the page that its outputs share, and the server that answers scrapes over HTTP: one
//! request per connection, each on its own thread, limited in time and size.
//!
//! `tiny_http` has no time limit, and hyper would add a runtime. Prometheus needs one request, which `httparse` parses.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueEnum};
use live::{Buckets, Family, Label, MetricKind, Sample, Value};
use nccl_events::visible;
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use ureq::http::Uri;

/// Maximum simultaneous connections; others wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 128;
const MOST_REQUEST: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
/// Time limit for receiving a request, and for sending its response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for the client to close, so that the response to a request that was not fully read is not lost.
const LINGER: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) latest: Arc<Latest>,
    pub(crate) errors: Arc<OutputErrors>,
    pub(crate) token: Option<String>,
}

impl Server {
    pub(crate) fn start(self, listener: TcpListener) -> io::Result<SocketAddr> {
        let address = listener.local_addr()?;
        let server = Arc::new(self);
        thread::Builder::new().name("listen".to_owned()).spawn(move || {
            loop {
                // Out of file descriptors, threads or connections: retry when some are free again.
                if server.accept(&listener).is_err() || Arc::strong_count(&server) > MOST_CONNECTIONS {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        })?;
        Ok(address)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) -> io::Result<()> {
        while Arc::strong_count(self) <= MOST_CONNECTIONS {
            let (stream, _) = listener.accept()?;
            let server = Arc::clone(self);
            let thread = thread::Builder::new().name("scrape".to_owned()).stack_size(256 << 10);
            // A client that disconnects is not an error of the server.
            thread.spawn(move || drop(server.serve(stream)))?;
        }
        Ok(())
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut stream = StreamWithDeadline { stream, until: Instant::now() + PATIENCE };
        let answer = match read_request(&mut stream) {
            Ok(request) => self.answer(&request),
            Err(error) if error.kind() == ErrorKind::InvalidData => Answer::Text(400, "not a request\n"),
            Err(error) => return Err(error),
        };
        if matches!(answer, Answer::Text(400.., _)) {
            OutputErrors::count(&self.errors.refused);
        }
        stream.until = Instant::now() + PATIENCE;
        answer.write(&mut stream)?;
        stream.stream.shutdown(Shutdown::Write)?;
        stream.until = Instant::now() + LINGER;
        io::copy(&mut stream.take(1 << 20), &mut io::sink())?;
        Ok(())
    }

    fn answer(&self, request: &HttpRequest) -> Answer {
        let is_allowed = |token: &String| {
            request.bearer.as_ref().is_some_and(|shown| shown.as_bytes().ct_eq(token.as_bytes()).into())
        };
        if !self.token.as_ref().is_none_or(is_allowed) {
            return Answer::Text(401, "show the token: Authorization: Bearer TOKEN\n");
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/metrics") => match self.latest.lock().clone() {
                Some(page) => Answer::Page(page, request.format),
                None => Answer::Text(503, "no values yet\n"),
            },
            ("GET", "/") => Answer::Text(200, "nccl-otf2: /metrics has the metrics\n"),
            ("GET", _) => Answer::Text(404, "not found; see /metrics\n"),
            _ => Answer::Text(405, "only GET\n"),
        }
    }
}

struct StreamWithDeadline {
    stream: TcpStream,
    until: Instant,
}

impl StreamWithDeadline {
    fn remaining(&self) -> io::Result<Option<Duration>> {
        let left = self.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        left.map(Some).ok_or_else(|| ErrorKind::TimedOut.into())
    }
}

impl Read for StreamWithDeadline {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.remaining()?)?;
        self.stream.read(buffer)
    }
}

impl Write for StreamWithDeadline {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.remaining()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

struct HttpRequest {
    method: String,
    path: String,
    format: Format,
    bearer: Option<String>,
}

/// Reads a request; an invalid one gives `InvalidData`.
fn read_request(stream: &mut impl Read) -> io::Result<HttpRequest> {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 1024];
        let read = stream.read(&mut part)?;
        bytes.extend_from_slice(part.get(..read).unwrap_or_default());
        if let Some(request) = parse(&bytes).map_err(|_| ErrorKind::InvalidData)? {
            return Ok(request);
        }
        if read == 0 || bytes.len() > MOST_REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Option<HttpRequest>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(bytes)?.is_partial() {
        return Ok(None);
    }
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    let method = request.method.unwrap_or_default().to_owned();
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let is_open = header("Accept").unwrap_or_default().contains("application/openmetrics-text");
    let format = if is_open { Format::OpenMetrics } else { Format::Prometheus };
    let bearer = header("Authorization").and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim().to_owned())
    });
    Ok(Some(HttpRequest { method, path, format, bearer }))
}

enum Answer {
    Page(Arc<Page>, Format),
    Text(u16, &'static str),
}

impl Answer {
    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (status, content_type, body) = match self {
            Self::Page(page, format) => (200, format.content_type(), page.text(*format)),
            Self::Text(status, text) => (*status, "text/plain; charset=utf-8", *text),
        };
        let reason = match status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized\r\nWWW-Authenticate: Bearer",
            404 => "Not Found",
            405 => "Method Not Allowed\r\nAllow: GET",
            _ => "Service Unavailable",
        };
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        to.write_all(head.as_bytes())?;
        to.write_all(body.as_bytes())
    }
}

const EXAMPLES: &str = "\
Follows the journals of a job's processes on this node while they run, and exports the numbers of `stats`: \
operations, bytes, durations, bandwidths, network transfers, waiting, losses, the age of each rank's last event. The \
job is neither contacted nor slowed. Run one such process per node; it can serve several outputs at once:

  nccl-otf2 metrics trace --listen 127.0.0.1:9401      for Prometheus: /metrics
  nccl-otf2 metrics trace --textfile textfiles         for node exporter: nccl_otf2_trace.prom
  nccl-otf2 metrics trace --otlp http://localhost:4318 for an OpenTelemetry collector
  nccl-otf2 metrics trace --json | jq .operations      a line per interval
  nccl-otf2 metrics trace --once                       print the current metrics

An address other than loopback needs --token-file: clients then send `Authorization: Bearer TOKEN`. The connection is \
not encrypted.

Sums begin with the first record of each process, so they keep their values when this command is restarted. \
Bandwidths and latencies are those of the last interval. The command waits for a directory that does not exist yet, \
and runs until SIGINT or SIGTERM. docs/REFERENCE.md lists all metrics, docs/MONITORING.md has a systemd unit and a \
Kubernetes sidecar, and docs/grafana/nccl.json is a dashboard.

Exit codes: 0 ended by a signal or after --once, 2 wrong usage, or an address, file or directory that cannot be used; \
with --once also a collector or file that did not get the metrics, or no readable journal.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory
    #[arg(value_name = "DIR", value_parser = crate::archives::job_argument)]
    pub(crate) directory: PathBuf,

    /// Interval between updates
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = interval)]
    pub(crate) interval: Duration,

    /// Serve metrics to Prometheus at this address, such as 127.0.0.1:9401
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// With --listen: answer only requests with the bearer token in this file
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// With --listen: answer requests without a token, even at an address that other hosts can reach
    #[arg(long, requires = "listen", conflicts_with = "token_file")]
    anonymous: bool,

    /// Write a file for node exporter's textfile collector to this directory; remove it on exit
    #[arg(long, value_name = "DIR")]
    pub(crate) textfile: Option<PathBuf>,

    /// Send metrics to this OpenTelemetry collector (OTLP/HTTP); headers are in OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// Print all values as a line of JSON each interval
    #[arg(long)]
    pub(crate) json: bool,

    /// Naming scheme of the metrics
    #[arg(long, value_enum, value_name = "NAMES", default_value = "ours")]
    pub(crate) names: Names,

    /// Job id for labels [default: the launcher's]
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<String>,

    /// Cluster name for labels [default: the launcher's]
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// Read everything recorded so far, export the metrics once, and exit; without another output, print them
    #[arg(long, conflicts_with = "listen")]
    pub(crate) once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Names {
    /// Everything, in base units
    Ours,
    /// Names of NVIDIA's inspector plugin
    Inspector,
    /// Names of the OpenTelemetry profiler plugin
    Otel,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds from 0.1, such as 10".to_owned()),
    }
}

pub(crate) struct Collector {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn check(&self) -> Result<()> {
        let has_output = self.listen.is_some() || self.textfile.is_some() || self.otlp.is_some() || self.json;
        ensure!(has_output || self.once, "no output selected: give --listen, --textfile, --otlp, --json or --once");
        if let Some(directory) = &self.textfile {
            let shown = directory.display();
            ensure!(directory.is_dir(), "--textfile {shown}: there is no such directory");
        }
        Ok(())
    }

    pub(crate) const fn prints(&self) -> bool {
        self.once && self.textfile.is_none() && self.otlp.is_none() && !self.json
    }

    /// The socket for `--listen`, with the token that clients must send.
    pub(crate) fn listener(&self) -> Result<Option<(TcpListener, Option<String>)>> {
        let Some(address) = self.listen else { return Ok(None) };
        let token = self.token_file.as_ref().map(|path| {
            let mut text = String::new();
            let file = regular_files::open_named(path, regular_files::MOST_MARK_BYTES);
            let read = file.and_then(|mut file| file.read_to_string(&mut text));
            let _bytes = read.with_context(|| format!("cannot read {}", path.display()))?;
            let token = text.trim().to_owned();
            ensure!(!token.is_empty(), "{}: the file has no token", path.display());
            Ok(token)
        });
        let token = token.transpose()?;
        if !address.ip().is_loopback() && token.is_none() && !self.anonymous {
            bail!(
                "--listen {address}: other hosts can reach that address; add --token-file, or --anonymous to serve \
                everyone"
            );
        }
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
        Ok(Some((listener, token)))
    }

    pub(crate) fn collector(&self) -> Result<Option<Collector>> {
        let Some(url) = &self.otlp else { return Ok(None) };
        let shown = shown(url);
        let Some((scheme, rest)) = url.split_once("://") else {
            bail!("--otlp {shown}: not a URL such as http://localhost:4318");
        };
        match scheme {
            "http" => {}
            "https" => bail!("--otlp {shown}: TLS is not supported; send to a collector on this node that forwards"),
            _ => bail!("--otlp {shown}: only http:// is supported"),
        }
        // Append the default path to a URL without one, as OpenTelemetry's own exporters do.
        let has_path = rest.trim_end_matches('/').contains('/');
        let url = if has_path { url.clone() } else { format!("{}/v1/metrics", url.trim_end_matches('/')) };
        ensure!(has_place(&url), "--otlp {shown}: not a URL such as http://localhost:4318");
        let headers = std::env::var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let headers = headers.split(',').filter_map(|header| {
            let (name, value) = header.split_once('=')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        });
        Ok(Some(Collector { url, headers: headers.collect() }))
    }
}

/// Prometheus's text format 0.0.4, and OpenMetrics 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    pub(crate) fn write(self, families: &[Family]) -> String {
        let mut out = Text(String::new());
        for family in families {
            out.family(family, self);
        }
        if self == Self::OpenMetrics {
            out.0.push_str("# EOF\n");
        }
        out.0
    }
}

/// The name of a unit in Prometheus, as OpenTelemetry's collector appends it to metric names.
fn unit(unit: &str) -> &str {
    match unit {
        "us" => "microseconds",
        "MB/s" => "MB_per_second",
        unit => unit,
    }
}

/// The name of a family, with its unit as a suffix.
pub(crate) fn name(family: &Family) -> String {
    let unit = unit(family.unit);
    let ends = family.name.ends_with(unit);
    if unit.is_empty() || ends { family.name.to_string() } else { format!("{}_{unit}", family.name) }
}

struct Text(String);

impl Text {
    fn family(&mut self, family: &Family, format: Format) {
        let name = name(family);
        let total = if family.kind == MetricKind::Counter { "_total" } else { "" };
        // In OpenMetrics, a counter's metadata omits `_total`.
        let described = if format == Format::Prometheus { format!("{name}{total}") } else { name.clone() };
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {described} {}", escaped(&family.help)));
        self.line(format_args!("# TYPE {described} {kind}"));
        if format == Format::OpenMetrics && !family.unit.is_empty() {
            self.line(format_args!("# UNIT {described} {}", unit(family.unit)));
        }
        for sample in &family.samples {
            let labels = labels(&sample.labels, None);
            match &sample.value {
                Value::Number(number) => self.line(format_args!("{name}{total}{labels} {}", float(*number))),
                Value::Count(count) => self.line(format_args!("{name}{total}{labels} {count}")),
                Value::Histogram(histogram) => self.histogram(&name, &sample.labels, histogram),
            }
        }
    }

    fn histogram(&mut self, name: &str, own: &[Label], histogram: &Buckets) {
        let bounds = histogram.bounds.iter().copied().chain([f64::INFINITY]);
        let mut so_far = 0;
        for (bound, count) in bounds.zip(&histogram.counts) {
            so_far += count;
            self.line(format_args!("{name}_bucket{} {so_far}", labels(own, Some(bound))));
        }
        let labels = labels(own, None);
        self.line(format_args!("{name}_sum{labels} {}", float(histogram.sum)));
        self.line(format_args!("{name}_count{labels} {so_far}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _written = writeln!(self.0, "{line}");
    }
}

/// A number as both formats write it. OpenMetrics requires bounds such as `1.0`.
fn float(number: f64) -> String {
    if number.is_infinite() { if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned() } else { format!("{number:?}") }
}

fn labels(labels: &[Label], bound: Option<f64>) -> String {
    let mut all: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    all.extend(bound.map(|bound| format!("le=\"{}\"", float(bound))));
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

/// A page may be printed on a terminal, and a collector may print its labels.
fn escaped(text: &str) -> String {
    let line = |line: &str| visible(line).replace('\\', r"\\").replace('"', "\\\"");
    text.split('\n').map(line).collect::<Vec<String>>().join(r"\n")
}

/// The families of one time; their texts are made when first requested.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) families: Vec<Family>,
    prometheus: OnceLock<String>,
    open_metrics: OnceLock<String>,
}

impl Page {
    pub(crate) fn new(families: Vec<Family>) -> Self {
        Self { families, ..Self::default() }
    }

    pub(crate) fn text(&self, format: Format) -> &str {
        let text = match format {
            Format::Prometheus => &self.prometheus,
            Format::OpenMetrics => &self.open_metrics,
        };
        text.get_or_init(|| format.write(&self.families))
    }
}

/// The latest page; `None` before the first interval ends.
pub(crate) type Latest = Mutex<Option<Arc<Page>>>;

/// The exporter's own error counts.
#[derive(Debug, Default)]
pub(crate) struct OutputErrors {
    pub(crate) textfile: AtomicU64,
    pub(crate) otlp: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl OutputErrors {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let sample = |output: &'static str, counter: &AtomicU64| Sample {
            labels: vec![("output", output.to_owned())],
            value: Value::Count(counter.load(Ordering::Relaxed)),
        };
        let counter = |name: &'static str, help: &'static str, samples| Family {
            name: name.into(),
            help: help.into(),
            unit: "",
            kind: MetricKind::Counter,
            samples,
        };
        vec![
            counter(
                "nccl_otf2_output_errors",
                "Text files that could not be written, collectors that did not accept metrics, requests that were \
                refused",
                vec![sample("textfile", &self.textfile), sample("otlp", &self.otlp), sample("listen", &self.refused)],
            ),
            counter(
                "nccl_otf2_output_dropped",
                "Intervals that were not sent because the collector was behind",
                vec![sample("otlp", &self.dropped)],
            ),
        ]
    }
}

/// A URL without user, password and query, which may contain a token. If the URL is invalid, less is shown: any text
/// before an `@` may be a password, and text after one may be a token.
pub(crate) fn shown(url: &str) -> String {
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), url),
    };
    let query = ['?', '#'];
    let place = match rest.rsplit_once('@') {
        Some((secret, _)) if secret.contains(query) => "***".to_owned(),
        Some((_, place)) => format!("***@{place}"),
        None => rest.to_owned(),
    };
    match place.find(query) {
        Some(at) => format!("{scheme}{}?***", &place[..at]),
        None => format!("{scheme}{place}"),
    }
}

/// Whether a URL has a host, and a number as its port if it has one. Without a host, the request would be sent to
/// whatever stands in its place, such as the start of a password that contains a slash.
pub(crate) fn has_place(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let Some(authority) = url.authority() else { return false };
    !authority.host().is_empty() && (authority.port_u16().is_some() || authority.as_str().ends_with(authority.host()))
}
