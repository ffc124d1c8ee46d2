//! The arguments of `metrics`, and whether they can be fulfilled.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueEnum};

use super::url::{has_place, shown};

const EXAMPLES: &str = "\
Follows the journals of a job's processes on this node while they run, and gives what `stats` has as numbers: \
operations, bytes, durations, bandwidths, network transfers, waiting, losses, the age of each rank's last event. The \
job is not contacted or slowed. One such process a node is enough, for several outputs at once:

  nccl-otf2 metrics trace --listen 127.0.0.1:9401      for Prometheus: /metrics
  nccl-otf2 metrics trace --textfile textfiles         for node exporter: nccl_otf2_trace.prom
  nccl-otf2 metrics trace --otlp http://localhost:4318 for an OpenTelemetry collector
  nccl-otf2 metrics trace --json | jq .operations      a line each interval
  nccl-otf2 metrics trace --once                       print the metrics of now

An address that is not of this machine's loopback wants --token-file: clients then send `Authorization: Bearer TOKEN`. \
The connection is not encrypted.

Sums begin with the first record of each process, whenever this is started: started again it continues with the same \
values. Bandwidths and latencies are of the last interval. It runs until SIGINT or SIGTERM; a directory that is not \
there yet is waited for. docs/REFERENCE.md lists all metrics, docs/MONITORING.md has a systemd unit and a Kubernetes \
sidecar, and docs/grafana/nccl.json is a dashboard.

Exit codes: 0 ended by a signal or after --once, 2 wrong usage, an address, file or directory that cannot be used, or \
with --once a collector or file that did not get the metrics, or journals of which none can be read.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// The job's directory
    #[arg(value_name = "DIR", value_parser = crate::place::job_argument)]
    pub(super) directory: PathBuf,

    /// Length of an interval
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = interval)]
    pub(super) interval: Duration,

    /// Answer Prometheus's scrapes at this address, such as 127.0.0.1:9401
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<SocketAddr>,

    /// With --listen: answer only those who show the token in this file
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// With --listen: answer everybody, at an address that others can reach
    #[arg(long, requires = "listen", conflicts_with = "token_file")]
    anonymous: bool,

    /// Write a file for node exporter's textfile collector into this directory; it is removed at the end
    #[arg(long, value_name = "DIR")]
    pub(super) textfile: Option<PathBuf>,

    /// Send metrics to this OpenTelemetry collector (OTLP/HTTP); headers are in OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// Print all that is known as a line of JSON each interval
    #[arg(long)]
    pub(super) json: bool,

    /// Whose names the metrics have
    #[arg(long, value_enum, value_name = "NAMES", default_value = "ours")]
    pub(super) names: Names,

    /// The job's id in labels; else what its launcher says
    #[arg(long, value_name = "ID")]
    pub(super) job: Option<String>,

    /// The cluster's name in labels; else what its launcher says
    #[arg(long, value_name = "NAME")]
    pub(super) cluster: Option<String>,

    /// Read all that is recorded, give the metrics once, and end; without another output print them
    #[arg(long, conflicts_with = "listen")]
    pub(super) once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Names {
    /// Everything, in base units
    Ours,
    /// Those of NVIDIA's inspector plugin
    Inspector,
    /// Those of the OpenTelemetry profiler plugin
    Otel,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds from 0.1, such as 10".to_owned()),
    }
}

pub(super) struct Collector {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
}

impl Request {
    pub(super) fn check(&self) -> Result<()> {
        let has_output = self.listen.is_some() || self.textfile.is_some() || self.otlp.is_some() || self.json;
        ensure!(has_output || self.once, "nobody would get metrics: --listen, --textfile, --otlp, --json or --once");
        if let Some(directory) = &self.textfile {
            let shown = directory.display();
            ensure!(directory.is_dir(), "--textfile {shown}: there is no such directory");
        }
        Ok(())
    }

    pub(super) const fn prints(&self) -> bool {
        self.once && self.textfile.is_none() && self.otlp.is_none() && !self.json
    }

    /// The socket for `--listen`, with the token that clients must send.
    pub(super) fn listener(&self) -> Result<Option<(TcpListener, Option<String>)>> {
        let Some(address) = self.listen else { return Ok(None) };
        let token = self.token_file.as_ref().map(|path| {
            let mut text = String::new();
            let file = regular_files::open_named(path, regular_files::MOST_MARK_BYTES);
            let read = file.and_then(|mut file| file.read_to_string(&mut text));
            let _bytes = read.with_context(|| format!("cannot read {}", path.display()))?;
            let token = text.trim().to_owned();
            ensure!(!token.is_empty(), "{}: there is no token in it", path.display());
            Ok(token)
        });
        let token = token.transpose()?;
        if !address.ip().is_loopback() && token.is_none() && !self.anonymous {
            bail!(
                "--listen {address}: others can reach that address; give --token-file, or --anonymous to answer everybody"
            );
        }
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
        Ok(Some((listener, token)))
    }

    pub(super) fn collector(&self) -> Result<Option<Collector>> {
        let Some(url) = &self.otlp else { return Ok(None) };
        let shown = shown(url);
        let Some((scheme, rest)) = url.split_once("://") else {
            bail!("--otlp {shown}: not a URL such as http://localhost:4318");
        };
        match scheme {
            "http" => {}
            "https" => bail!("--otlp {shown}: this tool has no TLS; send to a collector on this node, which sends on"),
            _ => bail!("--otlp {shown}: only http:// is known"),
        }
        // As OpenTelemetry's own exporters do.
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
