//! `nccl-otf2 metrics`: reports what a running job does, for monitoring systems.
//!
//! ```text
//!  live ─ Snapshot ─► Families ─► Page ─┬─► server     scraped by Prometheus
//!                                       ├─► textfile   read by node exporter
//!                                       └─► otlp       sent to a collector
//! ```

mod otlp;
mod page;
mod request;
mod server;
#[cfg(test)]
mod tests;
mod text;
mod textfile;
mod url;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use live::{Families, Live, Options, Snapshot};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;
use crate::place;
use crate::print;
use crate::running::{Line, exit, over, problems, read};
use otlp::Sender;
use page::{Latest, OutputErrors, Page};
pub(crate) use request::Request;
use request::{Collector, Names};
use server::Server;
use text::Format;
use textfile::TextFile;

/// Once everything has been read for this long, completed operations are aggregated: they settle in the meantime.
const SETTLED: Duration = Duration::from_millis(1500);
/// Limit for reading what was recorded before the start, if processes record faster than it is read.
const CATCH_UP: Duration = Duration::from_secs(60);

pub(crate) fn metrics(request: &Request) -> Result<Exit> {
    let stop = signals().context("cannot catch signals")?;
    let mut outputs = Outputs::open(request)?;
    match place::job(&request.directory) {
        Err(error) if request.once => return Err(error),
        Err(error) => print::note(format_args!("waits for processes to record: {error}")),
        Ok(directory) => place::note_other_jobs(directory),
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
        problems(&snapshot).filter(|it| noted.insert(it.clone())).for_each(print::note);
        if request.once {
            over(&snapshot).iter().for_each(print::note);
        }
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
            print::note(format_args!("metrics are at http://{address}/metrics"));
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
        let mut families = self.families.of(snapshot);
        families.extend(self.errors.families());
        let page = Arc::new(Page::new(families));
        *self.latest.lock() = Some(Arc::clone(&page));
        if let Some(file) = &mut self.textfile {
            let written = file.write(page.text(Format::Prometheus));
            if written.is_err() {
                OutputErrors::count(&self.errors.textfile);
            }
            match written {
                Ok(message) => message.iter().for_each(print::note),
                Err(message) if self.once => bail!(message.unwrap_or_default()),
                Err(message) => message.iter().for_each(|message| {
                    print::note(format_args!("{message}; its last values stay, and every interval tries again"));
                }),
            }
        }
        if let Some(sender) = &self.sender {
            sender.send(snapshot.at_ns, &snapshot.job.host, &page.families);
        }
        if self.json {
            let line = serde_json::to_string(&Line::of(snapshot)).context("cannot write JSON")?;
            match writeln!(io::stdout().lock(), "{line}") {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.json = false,
                written => written.context("cannot write to stdout")?,
            }
        }
        if self.prints {
            print::exact(page.text(Format::Prometheus))?;
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
