//! `nccl-otf2 export`: converts archives to the formats of other programs.
//!
//! ```text
//!  exports::<format>::write       formats of their own: a file, or a folder of files
//!  workloads::<format>::write     the same, of what the program asked for
//!  streams                        the callbacks of `journals`
//!  communicators                  for Scalasca: one archive per communicator, by `exports::scalasca`
//! ```

pub(crate) mod communicators;
mod help;
mod streams;

use std::path::{Path, PathBuf};

use analysis::{Filter, Trace};
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use exports::{LeftOut, Outcome, Source};
use schemars::JsonSchema;
use serde::Serialize;

use crate::archive;
use crate::exit::Exit;
use crate::journals::stream::Schema;
use crate::print::{self, Text};
use crate::progress::Bar;
use crate::select::Select;
use crate::staging::{Staging, refuse_existing};
use crate::units::{count, plural};

#[derive(Debug, Args)]
#[command(after_long_help = help::EXAMPLES)]
pub(crate) struct Request {
    /// A job's directory or the anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// For which program
    #[arg(long, value_enum)]
    format: Format,

    /// The file or directory to make; it must not exist
    #[arg(short, long, visible_alias = "output", value_name = "PATH")]
    out: PathBuf,

    /// Put the events into copies of these traces, which other profilers made of the same job (kineto, xplane)
    #[arg(long, value_name = "TRACE", num_args = 1..)]
    into: Vec<PathBuf>,

    #[command(flatten)]
    select: Select,

    /// With jsonl: whose fields the lines have
    #[arg(long, value_enum)]
    schema: Option<Schema>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Files as PyTorch's profiler writes them, one for each rank: for HTA, and beside PyTorch's own
    Kineto,
    /// A file for Perfetto's viewer (ui.perfetto.dev) and its trace processor
    Perfetto,
    /// The callbacks of each process as JSON Lines, of journals: they can be replayed
    Jsonl,
    /// A directory of Parquet files, a table each process: for DuckDB, Dask, Spark, pandas, Polars
    #[cfg(feature = "parquet")]
    Parquet,
    /// A profile for TensorBoard and xprof (NAME.xplane.pb)
    Xplane,
    /// Archives for Scalasca's trace analyser and for Pipit, one for each communicator
    Scalasca,
    /// Execution traces for ASTRA-sim and MLCommons' Chakra, one for each rank
    Chakra,
    /// A shell script that measures the job's operations with nccl-tests
    NcclTests,
}

impl Format {
    const fn next(self) -> &'static str {
        match self {
            Self::Kineto => "analyse them: TraceAnalysis(trace_dir=DIR) of HTA; open one: https://ui.perfetto.dev",
            Self::Perfetto => "open it: https://ui.perfetto.dev, which reads it in the browser and uploads nothing",
            Self::Jsonl => "one callback a line: docs/REFERENCE.md, \"Printed streams\"",
            #[cfg(feature = "parquet")]
            Self::Parquet => "ask it: docs/EXPORTS.md has questions for DuckDB, Dask and Spark",
            Self::Xplane => "show it: put it into LOGDIR/plugins/profile/RUN/, then tensorboard --logdir LOGDIR",
            Self::Scalasca => "analyse one: mpirun -np RANKS scout.mpi ARCHIVE",
            Self::Chakra => {
                "simulate it: ASTRA-sim with --workload-configuration=DIR/trace \
                 --comm-group-configuration=DIR/comm_group.json"
            }
            Self::NcclTests => "measure: NCCL_TESTS=nccl-tests/build sh FILE > baseline.txt, on the nodes of the job",
        }
    }
}

type Write<'a> = dyn FnOnce(&Source<'_>, &Path) -> exports::Result<Outcome> + 'a;

pub(crate) fn export(request: &Request) -> Result<Exit> {
    refuse_wrong(request)?;
    refuse_existing(&request.out)?;
    let into = &request.into;
    let write: Box<Write<'_>> = match request.format {
        Format::Kineto if !into.is_empty() => Box::new(|source, out| exports::kineto::into(source, into, out)),
        Format::Kineto => Box::new(exports::kineto::write),
        Format::Perfetto => Box::new(exports::perfetto::write),
        Format::Chakra => Box::new(exports::workloads::chakra::write),
        Format::NcclTests => Box::new(exports::workloads::nccl_tests::write),
        #[cfg(feature = "parquet")]
        Format::Parquet => Box::new(exports::parquet::write),
        Format::Xplane if !into.is_empty() => Box::new(|source, out| exports::xplane::into(source, into, out)),
        Format::Xplane => Box::new(exports::xplane::write),
        Format::Jsonl => {
            let filter = request.select.of_journals()?;
            let schema = request.schema.unwrap_or_default();
            return staged(request, |out, bar| streams::write(&request.path, &filter, schema, out, bar));
        }
        Format::Scalasca => {
            let (trace, filter) = opened(request)?;
            return communicators::export(&trace, &filter, &request.out, request.json);
        }
    };
    let (trace, filter) = opened(request)?;
    staged(request, |out, bar| {
        let source = Source { trace: &trace, filter: &filter, progress: bar };
        let outcome = write(&source, out).with_context(|| format!("cannot export {}", trace.anchor.display()))?;
        request.select.refuse_nothing(&trace, outcome.matched())?;
        // What another program recorded is in the file in any case.
        if outcome.events == 0 && into.is_empty() {
            let what = match request.format {
                Format::Chakra | Format::NcclTests => "no operation of NCCL to export",
                _ => "no event to export in this format",
            };
            let reasons = outcome.left_out.iter().map(|it| format!("{} {}", count(it.events), it.reason));
            let left_out = [String::new()].into_iter().chain(reasons).collect::<Vec<_>>().join("; left out: ");
            let anchor = trace.anchor.display();
            bail!("{anchor}: {what}{left_out}; `nccl-otf2 info` says what was recorded");
        }
        Ok((outcome, Exit::Well))
    })
}

fn opened(request: &Request) -> Result<(Trace, Filter)> {
    let trace = archive::open(&request.path)?;
    let filter = request.select.filter(&trace)?;
    Ok((trace, filter))
}

/// What `export --json` prints; for Scalasca, [`communicators::Json`].
#[derive(Serialize, JsonSchema)]
pub(crate) struct Json {
    format: u32,
    files: Vec<String>,
    /// As the format counts them: slices, rows, lines.
    events: u64,
    left_out: Vec<LeftOut>,
}

/// Writes into a staging folder beside the destination, so that no partial export is visible, and prints the result.
fn staged(request: &Request, write: impl FnOnce(&Path, &Bar) -> Result<(Outcome, Exit)>) -> Result<Exit> {
    let staging = Staging::create(&request.out)?;
    let bar = Bar::new();
    let outcome = write(&staging.path().join(WRITTEN), &bar);
    drop(bar);
    let (outcome, exit) = outcome?;
    staging.put_in_place_of(WRITTEN)?;
    let files = outcome.files.iter().map(|file| match file.as_os_str().is_empty() {
        true => request.out.clone(),
        false => request.out.join(file),
    });
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    if request.json {
        print::json(&Json { format: 1, files, events: outcome.events, left_out: outcome.left_out })?;
    } else {
        print::text(&text(request, &outcome))?;
    }
    Ok(exit)
}

fn refuse_wrong(request: &Request) -> Result<()> {
    if request.schema.is_some() && request.format != Format::Jsonl {
        bail!("--schema: only --format jsonl has one");
    }
    // Several profiles are copied into a directory, under their own names.
    let is_xplane = request.format == Format::Xplane && request.into.len() < 2;
    match request.format {
        Format::Kineto | Format::Xplane => {}
        _ if request.into.is_empty() => {}
        _ => bail!("--into: only --format kineto and xplane take traces"),
    }
    if is_xplane && !request.out.to_string_lossy().ends_with(XPLANE) {
        let name = request.out.display();
        bail!("{name}: TensorBoard reads files whose names end in {XPLANE}: -o {name}{XPLANE}");
    }
    Ok(())
}

const XPLANE: &str = ".xplane.pb";

const WRITTEN: &str = "written";

fn text(request: &Request, outcome: &Outcome) -> Text {
    let files = plural(outcome.files.len() as u64, "file", "files");
    let mut text = Text::default();
    let counted = match request.format {
        Format::Chakra => plural(outcome.events, "node", "nodes"),
        Format::NcclTests => plural(outcome.events, "command", "commands"),
        _ => plural(outcome.events, "event", "events"),
    };
    text.line(format_args!("{}: {files}, {counted}", request.out.display()));
    for left_out in &outcome.left_out {
        text.line(format_args!("left out: {} {}", count(left_out.events), left_out.reason));
    }
    text.line(request.format.next());
    text
}
