//! `nccl-otf2 export`: converts archives to the formats of other programs.
//!
//! ```text
//!  exports::<format>::write              formats of their own: a file, or a folder of files
//!  exports::workloads::<format>::write   the same, of what the program asked for
//!  write                                 the callbacks of journals, by `print::stream`
//!  export_communicators                  for Scalasca: one archive per communicator, by `exports::scalasca`
//! ```

use std::fs;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::command_line::Exit;
use crate::finalize::{Staging, refuse_existing};
use crate::output::{Bar, Side, Table, TableColumn, Text};
use crate::print::process::{Filter as JournalFilter, Journals, Process, journals_of, present, share_beginning};
use crate::print::stream;
use crate::print::stream::Count;
use crate::select::{Select, without_size};
use crate::{archives, output};
use analysis::units::{count, plural};
use analysis::{Filter, Trace, in_parallel, is_merged, is_nccl, try_in_parallel};
use anyhow::{Context as _, Result, bail};
use archive::ANCHOR;
#[cfg(feature = "parquet")]
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use exports::scalasca::complete::LeftOut as IncompleteLeftOut;
use exports::scalasca::{Communicator, complete};
use exports::{LeftOut, Outcome, Source};
use nccl_events::Progress as _;
use otf2::{CommRef, LocationRef};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory, or anchor file of an archive
    #[arg(value_name = "DIR|traces.otf2")]
    path: PathBuf,

    /// Output format
    #[arg(long, value_enum)]
    format: Format,

    /// File or directory to create; it must not exist
    #[arg(short, long, visible_alias = "output", value_name = "PATH")]
    out: PathBuf,

    /// Add the events to copies of these traces of the same job by other profilers (kineto, xplane)
    #[arg(long, value_name = "TRACE", num_args = 1..)]
    into: Vec<PathBuf>,

    /// With perfetto: also draw bytes and bandwidth in flight for each rank and network connection
    #[arg(long)]
    counters: bool,

    /// With parquet: only these tables, such as operations,calls
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "TABLE", value_delimiter = ',', value_parser = tables())]
    table: Vec<exports::parquet::Table>,

    #[command(flatten)]
    select: Select,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Request {
    /// Whether certain tables are wanted.
    const fn has_tables(&self) -> bool {
        #[cfg(feature = "parquet")]
        let has_tables = !self.table.is_empty();
        #[cfg(not(feature = "parquet"))]
        let has_tables = false;
        has_tables
    }
}

#[cfg(feature = "parquet")]
fn tables() -> impl TypedValueParser<Value = exports::parquet::Table> {
    use exports::parquet::Table;
    PossibleValuesParser::new(Table::ALL.map(Table::name))
        .try_map(|name| Table::ALL.into_iter().find(|table| table.name() == name).ok_or("not a table"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Traces in the format of PyTorch's profiler, one per rank: for HTA, or to merge with PyTorch's own
    Kineto,
    /// A file for Perfetto's viewer (ui.perfetto.dev) and its trace processor
    Perfetto,
    /// The callbacks of each process as JSON Lines, from its journal: for replay
    Jsonl,
    /// Tables in Parquet files, one per process: for DuckDB, Dask, Spark, pandas, Polars
    #[cfg(feature = "parquet")]
    Parquet,
    /// A profile for TensorBoard and xprof (NAME.xplane.pb)
    Xplane,
    /// Archives for Scalasca's trace analyser and for Pipit, one per communicator
    Scalasca,
    /// Execution traces for ASTRA-sim and MLCommons' Chakra, one per rank
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
            Self::Parquet => "query it: docs/EXPORTS.md has examples for DuckDB, Dask and Spark",
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
        Format::Perfetto => Box::new(|source, out| exports::perfetto::write(source, out, request.counters)),
        Format::Chakra => Box::new(exports::workloads::chakra::write),
        Format::NcclTests => Box::new(exports::workloads::nccl_tests::write),
        #[cfg(feature = "parquet")]
        Format::Parquet => Box::new(|source, out| {
            let tables = &request.table;
            exports::parquet::write(source, out, if tables.is_empty() { &exports::parquet::Table::ALL } else { tables })
        }),
        Format::Xplane if !into.is_empty() => Box::new(|source, out| exports::xplane::into(source, into, out)),
        Format::Xplane => Box::new(exports::xplane::write),
        Format::Jsonl => {
            let filter = request.select.journal_filter()?;
            return staged(request, |out, bar| write(&request.path, &filter, out, bar));
        }
        Format::Scalasca => {
            let (trace, filter) = opened(request)?;
            return export_communicators(&trace, &filter, &request.out, request.json);
        }
    };
    let (trace, filter) = opened(request)?;
    staged(request, |out, bar| {
        let source = Source { trace: &trace, filter: &filter, progress: bar };
        let outcome = write(&source, out).with_context(|| format!("cannot export {}", trace.anchor.display()))?;
        if !request.has_tables() {
            request.select.refuse_nothing(&trace, outcome.matched())?;
        }
        // What another program recorded is in the file in any case.
        if outcome.events == 0 && into.is_empty() {
            let what = match request.format {
                Format::Chakra | Format::NcclTests => "no NCCL operation to export",
                _ if request.has_tables() => "the wanted tables have no rows, or the filters keep none",
                _ => "no event to export in this format",
            };
            let reasons =
                outcome.left_out.iter().map(|left_out| format!("{} {}", count(left_out.events), left_out.reason));
            let left_out = [String::new()].into_iter().chain(reasons).collect::<Vec<_>>().join("; left out: ");
            let anchor = trace.anchor.display();
            bail!("{anchor}: {what}{left_out}; `nccl-otf2 info` shows what was recorded");
        }
        Ok((outcome, Exit::Well))
    })
}

fn opened(request: &Request) -> Result<(Trace, Filter)> {
    let trace = archives::open(&request.path)?;
    let filter = request.select.filter(&trace)?;
    Ok((trace, filter))
}

/// What `export --json` prints; for Scalasca, [`CommunicatorsJson`].
#[derive(Serialize, JsonSchema)]
pub(crate) struct Json {
    format: u32,
    /// Path of the file or directory that was made.
    files: Vec<String>,
    /// As the format counts them: slices, rows, lines.
    events: u64,
    /// What the recording has and the export lacks, apart from what was not asked for.
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
    let files = outcome
        .files
        .iter()
        .map(|file| if file.as_os_str().is_empty() { request.out.clone() } else { request.out.join(file) });
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    if request.json {
        output::json(&Json { format: 1, files, events: outcome.events, left_out: outcome.left_out })?;
    } else {
        output::text(&text(request, &outcome))?;
    }
    Ok(exit)
}

fn refuse_wrong(request: &Request) -> Result<()> {
    if request.counters && request.format != Format::Perfetto {
        bail!("--counters: only for --format perfetto");
    }
    #[cfg(feature = "parquet")]
    if request.has_tables() && request.format != Format::Parquet {
        bail!("--table: only for --format parquet");
    }
    // Several profiles are copied into a directory, under their own names.
    let is_xplane = request.format == Format::Xplane && request.into.len() < 2;
    match request.format {
        Format::Kineto | Format::Xplane => {}
        _ if request.into.is_empty() => {}
        _ => bail!("--into: only for --format kineto and xplane"),
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

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Exported {
    name: String,
    ranks: usize,
    /// Null if the communicator was left out.
    archive: Option<String>,
    /// Why it was left out.
    reason: Option<String>,
    collectives: usize,
    messages: usize,
    collectives_left_out: u64,
    /// Of all ranks: each end of a message counts.
    messages_left_out: u64,
    left_out: Vec<IncompleteLeftOut>,
    /// Events that are later than recorded, so that no two of a rank have one time.
    events_moved: u64,
    /// By how much at most.
    moved_ns: u64,
    /// The process of each rank, in the order of ranks.
    processes: Vec<String>,
}

/// What `export --format scalasca --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CommunicatorsJson {
    format: u32,
    communicators: Vec<Exported>,
}

/// Exports one archive per communicator, for Scalasca's analyser.
pub(crate) fn export_communicators(trace: &Trace, filter: &Filter, out: &Path, is_json: bool) -> Result<Exit> {
    if !is_nccl(&trace.archive) || is_merged(&trace.archive) {
        bail!("{} is not an archive of NCCL alone", trace.anchor.display());
    }
    if !(filter.functions.is_empty() && filter.ranks.is_empty() && filter.from_ns.or(filter.to_ns).is_none()) {
        bail!(
            "--rank, --function, --from and --to: not for scalasca, whose analyser needs everything that all ranks \
            did; only --comm"
        );
    }
    let staging = Staging::create(out)?;
    let lacks = complete::incompleteness(trace);
    let bar = Bar::new();
    let comms = trace.definitions.comms.keys().copied().enumerate();
    let is_wanted = |comm: &CommRef| filter.communicators.is_empty() || filter.communicators.contains(comm);
    let comms: Vec<(usize, CommRef)> = comms.filter(|(_, comm)| is_wanted(comm)).collect();
    bar.begin("communicators", comms.len() as u64);
    let mut all = Vec::new();
    for (number, comm) in comms {
        all.push(export_communicator(trace, (comm, number), lacks.as_deref(), &staging, out)?);
        bar.step();
    }
    drop(bar);
    let left_out = all.iter().filter(|exported| exported.archive.is_none()).count();
    let is_any = left_out < all.len();
    if is_any {
        staging.put_in_place()?;
    }
    if is_json {
        output::json(&CommunicatorsJson { format: 1, communicators: all })?;
    } else {
        output::text(&communicators_text(&all))?;
    }
    Ok(match (is_any, left_out) {
        (true, 0) => Exit::Well,
        (true, _) => Exit::Problems,
        (false, _) => Exit::CannotDo,
    })
}

fn export_communicator(
    trace: &Trace,
    (comm, number): (CommRef, usize),
    lacks: Option<&str>,
    staging: &Staging,
    out: &Path,
) -> Result<Exported> {
    let members = trace.members(comm);
    let process = |location: &LocationRef| trace.group_name(trace.process(trace.group(*location))).to_owned();
    let mut exported = Exported {
        name: trace.comm_name(comm),
        ranks: members.len(),
        processes: members.iter().map(process).collect(),
        ..Exported::default()
    };
    exported.reason = match lacks {
        Some(lacks) => Some(lacks.to_owned()),
        None => complete::missing_ranks(trace, comm),
    };
    if exported.reason.is_some() {
        return Ok(exported);
    }
    let (ranks, left_out) = complete::read(trace, comm).context("cannot read the events of a rank")?;
    exported.collectives = ranks.first().map_or(0, |rank| rank.collectives.len());
    exported.messages = ranks.iter().map(|rank| rank.sends.len()).sum();
    exported.collectives_left_out = left_out.iter().map(|left_out| left_out.collectives).sum();
    exported.messages_left_out = left_out.iter().map(|left_out| left_out.messages).sum();
    exported.left_out = left_out;
    if exported.collectives + exported.messages == 0 {
        exported.reason = Some("nothing that all ranks have".to_owned());
        return Ok(exported);
    }
    let directory = format!("{number}-{}", file_name(without_size(&exported.name)));
    let places = members.iter().zip(&exported.processes).map(|(location, process)| {
        let host = trace.host(trace.group(*location));
        (host.and_then(|host| trace.node_name(host)).unwrap_or("host"), process.as_str())
    });
    let folder = staging.path().join(&directory);
    let communicator = Communicator {
        name: &exported.name,
        machine: machine(trace).unwrap_or("machine"),
        places: places.collect(),
        ranks: &ranks,
        ticks_per_second: trace.definitions.clock.map_or(1_000_000_000, |clock| clock.timer_resolution),
    };
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let written = communicator.write(&folder)?;
    exported.events_moved = written.moved;
    let most_ns = u128::from(written.most_moved) * 1_000_000_000 / u128::from(communicator.ticks_per_second.max(1));
    exported.moved_ns = u64::try_from(most_ns).unwrap_or(u64::MAX);
    exported.archive = Some(out.join(directory).join(ANCHOR).display().to_string());
    Ok(exported)
}

fn machine(trace: &Trace) -> Option<&str> {
    trace.definitions.string(trace.definitions.system_tree_nodes.values().find(|node| !node.parent.is_defined())?.name)
}

fn file_name(name: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => letter,
        _ => '_',
    };
    name.chars().take(64).map(plain).collect()
}

fn communicators_text(all: &[Exported]) -> Text {
    let columns: [TableColumn<'_, &Exported>; 6] = [
        ("communicator", Side::Left, |row| row.name.clone()),
        ("ranks", Side::Right, |row| row.ranks.to_string()),
        ("collectives", Side::Right, |row| row.collectives.to_string()),
        ("messages", Side::Right, |row| row.messages.to_string()),
        ("left out", Side::Right, |row| (row.collectives_left_out + row.messages_left_out).to_string()),
        ("archive", Side::Left, |row| {
            let reason = row.reason.as_ref().map(|reason| format!("none: {reason}"));
            row.archive.clone().or(reason).unwrap_or_default()
        }),
    ];
    let mut text = Text::default();
    Table::from_rows(all, &columns).print(&mut text);
    for (exported, left_out) in
        all.iter().flat_map(|exported| exported.left_out.iter().map(move |left_out| (exported, left_out)))
    {
        let collectives = plural(left_out.collectives, "collective", "collectives");
        let ends = plural(left_out.messages, "end of a message", "ends of messages");
        text.line(format_args!("{}: {collectives} and {ends} left out: {}", exported.name, left_out.reason));
    }
    for exported in all.iter().filter(|exported| exported.events_moved > 0) {
        let events = plural(exported.events_moved, "event", "events");
        let most_ns = exported.moved_ns;
        text.line(format_args!(
            "{}: {events} moved by up to {most_ns} ns, so that no two events of a rank share a time",
            exported.name
        ));
    }
    text.line("analyse one: mpirun -np RANKS scout.mpi ARCHIVE");
    text
}

/// Exports each process's callbacks from the journals, as one file of JSON Lines per process.
pub(crate) fn write(path: &Path, filter: &JournalFilter, out: &Path, bar: &Bar) -> Result<(Outcome, Exit)> {
    // A job's archive is in the directory that contains the journals.
    let job = archives::directory(path);
    let Journals { found: journals, mut unread } = journals_of(job)?;
    fs::create_dir(out).with_context(|| format!("cannot make {}", out.display()))?;
    bar.begin("processes", journals.len() as u64);
    let begins =
        if filter.is_about_time() || filter.is_about_events() { begins(&journals, filter)? } else { Vec::new() };
    let write_one = |(number, journal): (usize, &PathBuf)| {
        let mut process = match read(journal) {
            Ok(process) => process,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(begin_ns) = begins.get(number) {
            process.begin_ns = *begin_ns;
        }
        process.keep(filter);
        let file = PathBuf::from(format!("{}.jsonl", name_of(journal)?));
        let count = write_process(&process, filter, &out.join(&file))?;
        bar.step();
        Ok(Ok((file, count, process.summary())))
    };
    let written: Result<Vec<Result<WrittenProcess>>> = try_in_parallel(journals.iter().enumerate(), write_one);
    bar.end();
    let mut outcome = Outcome::default();
    let (mut lost, mut is_whole) = (0, true);
    for written in written? {
        let (file, count, process) = match written {
            Ok(written) => written,
            Err(error) => {
                unread.push(error);
                continue;
            }
        };
        process.remark(count.orphan_stops.iter().sum());
        is_whole &= process.is_whole();
        lost += process.outcome.losses.total();
        outcome.events += count.written;
        outcome.files.push(file);
    }
    if outcome.files.is_empty()
        && let Some(error) = unread.pop()
    {
        unread.iter().for_each(output::error);
        return Err(error);
    }
    unread.iter().for_each(output::error);
    outcome.leave_out(unread.len() as u64, "processes whose journals cannot be read");
    outcome.leave_out(lost, "callbacks were not recorded");
    Ok((outcome, if is_whole && unread.is_empty() { Exit::Well } else { Exit::Problems }))
}

type WrittenProcess = (PathBuf, Count, Process);

fn write_process(process: &Process, filter: &JournalFilter, to: &Path) -> Result<Count> {
    let writing = || format!("cannot write {}", to.display());
    let mut writer = BufWriter::with_capacity(1 << 20, File::create_new(to).with_context(writing)?);
    let count = stream::lines(std::slice::from_ref(process), filter, |line| {
        writer.write_all(line).and_then(|()| writer.write_all(b"\n")).with_context(writing)?;
        Ok(true)
    })?;
    writer.flush().with_context(writing)?;
    Ok(count)
}

fn read(journal: &Path) -> Result<Process> {
    Process::read(journal).with_context(|| journal.display().to_string())
}

/// The common start on the clock of each readable process. Fails if no process has anything that the filter selects.
fn begins(journals: &[PathBuf], filter: &JournalFilter) -> Result<Vec<u64>> {
    let summary = |journal: &PathBuf| read(journal).map(Process::summary).ok();
    let read: Vec<Option<Process>> = in_parallel(journals, summary);
    let is_read: Vec<bool> = read.iter().map(Option::is_some).collect();
    let mut processes: Vec<Process> = read.into_iter().flatten().collect();
    share_beginning(&mut processes);
    if !processes.is_empty() {
        present(&processes, filter)?;
    }
    let mut begins = processes.iter().map(|process| process.begin_ns);
    Ok(is_read.into_iter().map(|is_read| if is_read { begins.next().unwrap_or(0) } else { 0 }).collect())
}

/// The name of the part that contains the journal, or the name of the journal.
fn name_of(journal: &Path) -> Result<String> {
    let journal = fs::canonicalize(journal).with_context(|| journal.display().to_string())?;
    match journal.parent().filter(|_| journal.ends_with(journal::part::JOURNAL)).unwrap_or(&journal).file_name() {
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => bail!("{}: not the journal of a process", journal.display()),
    }
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  nccl-otf2 export --format perfetto trace -o trace.pftrace
  nccl-otf2 export --format perfetto trace -o start.pftrace --to 5s --rank 0,1 --counters
  nccl-otf2 export --format parquet trace -o tables
  nccl-otf2 export --format parquet trace -o tables --table operations,calls
  nccl-otf2 export --format kineto trace -o kineto
  nccl-otf2 export --format kineto trace -o both --into torch-traces/*.pt.trace.json.gz
  nccl-otf2 export --format xplane trace -o logdir/plugins/profile/run1/nccl.xplane.pb
  nccl-otf2 export --format xplane trace --into host.xplane.pb -o both.xplane.pb
  nccl-otf2 export --format xplane trace --into logdir/plugins/profile/run1/*.xplane.pb -o logdir/plugins/profile/both
  nccl-otf2 export --format scalasca trace -o scalasca
  nccl-otf2 export --format chakra trace -o chakra
  nccl-otf2 export --format nccl-tests trace -o baseline.sh
  nccl-otf2 export --format jsonl trace -o streams

perfetto: one file. Open it in https://ui.perfetto.dev (nothing is uploaded), or query it with SQL: \
`trace_processor_shell -q query.sql trace.pftrace`, or the Python package perfetto. Each process shows its threads, \
its GPUs with communicators, channels and streams, and the network; arrows lead from a call to the launch, the \
operation and its transfers, and from rank to rank of one collective. Times are ns since 1970. --counters adds \
counters of bytes and bandwidth in flight below the tracks of communicators and links.

parquet: a directory with the tables instances, ranks, operations, calls, ranges, transfers, steps and kernels, one \
file for each process: `table=operations/host=NODE/process=3/operations.parquet`. Host and process are columns for \
programs that support Hive partitions, such as DuckDB, Dask and Spark. `instance` joins the operations of one \
collective; `event` and `parent` join an event and its children. docs/REFERENCE.md describes the columns; \
docs/EXPORTS.md has sample queries for three programs. A table without rows has no file. With --table only these \
tables are written, and only what they need is read.

kineto: a directory with a file for each rank, as PyTorch's profiler writes them. HTA reads it: \
`TraceAnalysis(trace_dir=\"kineto\")`. Operations stand for kernels if no kernels were recorded; nccl.timing says how \
they were timed. The program's steps (`stats --by step`) are `ProfilerStep#N`, HTA's iterations. HTA leaves out the \
last step without `include_last_profiler_step=True`, and its run time grows with events times steps: export only a \
part of a long job (--from, --to). --into makes copies of traces that torch.profiler made of the same job. Their \
content is kept; NCCL's kernels get more arguments: algorithm, protocol, bandwidth, how long they waited for the last \
rank. A kernel that matches several operations is left as it is, and counted. Tracks for communicators and network \
are added, and the program's steps if a trace has none. A trace is refused if its clock cannot be related or it is of \
another job.

xplane: one file, NAME.xplane.pb, for TensorBoard (plugin profile) and xprof: the Trace Viewer shows a device \
`NCCL rank N` for each rank, with calls, operations of each communicator, network, and kernels. --into takes \
TensorFlow or JAX profiles of the same job: a new file begins with the bytes of the old one, followed by the planes \
of the ranks on its host, with times relative to the start of the profile (profile_start_time in its plane Task \
Environment) on that host's clock. With several profiles -o is a directory. Events that began before or after the \
profile are left out. A profile is refused if it does not say when it began, is of another time, or, for a job on \
several hosts, does not name its host, by its field hostnames or its file name HOST.xplane.pb.

scalasca: a directory. `mpirun -np 8 scout.mpi scalasca/0-world/traces.otf2` finds waiting and its causes. The \
analyser only knows MPI, so each communicator becomes an archive that uses MPI's terms: a rank is a process with one \
thread, and an NCCL operation is an MPI call, from when it began to run on the rank until it ended. Run the analyser \
with as many processes as the communicator has ranks. It waits forever if something is missing on one rank. Therefore \
only what all ranks have is exported: collectives up to the first that differs, and messages with both ends. A \
communicator with lost events or unrecorded ranks is left out. Pipit also reads these archives: \
`pipit.Trace.from_otf2(\"scalasca/0-world\")`. It sorts events by time, so no two events of a rank may share a time: \
where they do in the archive, the later ones are moved by the fewest ns that keep their order, and a note says how \
many and how far.

chakra: a directory with an execution trace for each rank, trace.RANK.et, and the communicators in comm_group.json. \
ASTRA-sim simulates them on another network, and Chakra's tools show them. A node is a collective, a send, a receive, \
or computation in between: the program's kernels if they were recorded, else the gaps between operations. An \
operation depends on the operations before it on its communicator and on the computation before it.

nccl-tests: a shell script with a command for each function, type, range of sizes and shape of communicator of the \
job, sorted by total time. `stats --baseline` compares the job with the script's output.

jsonl: a directory with a file for each process, one NCCL callback per line, in the order in which they completed. It \
is made from the journals, because the archive has no handles and not all states: the job must have kept its journals \
(NCCL_OTF2_KEEP_JOURNAL=1), or be running, or killed and not finalized. `print --json` prints the records of an archive.

--comm and --rank keep what belongs to these ranks, the threads of their processes and the streams of their GPUs, but \
not transfers that one process does for another (PXN), which have no rank there. --function keeps operations of these \
functions with their calls, transfers, channels and kernels. --from and --to keep what runs within this time, uncut. \
Scalasca supports only --comm.

Exit codes: 0 exported, 1 a communicator was left out (scalasca), or a journal is damaged or cannot be read (jsonl), \
2 nothing was exported, or wrong usage.";
