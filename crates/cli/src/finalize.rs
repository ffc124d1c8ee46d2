//! `nccl-otf2 finalize`: adds to the archive what processes recorded but could not write. Also what verbs share about
//! archives: the verdict on a job, the analysis of `stats`, `diff` and `report`, the temporary directory of an output,
//! and the summary of an archive.

use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use crate::command_line::Exit;
use crate::output::{Bar, Text};
use crate::select::Select;
use crate::{archives, output};
use analysis::baseline::Baseline;
use analysis::results::{Comparison, Finding, Report as StatisticsReport, Verdict};
use analysis::units::{capital, count, plural};
use analysis::{Analysis, Filter, Matching, RunSamples, Trace, compare};
use anyhow::{Context as _, Error, Result, anyhow, bail, ensure};
use archive::{FinalizeOptions, FinalizeSummary, FinalizedPart, PartState, part_directories};
use clap::Args;
use hang::{Error as HangError, Kind, Report as HangReport};
use journal::part::environment::Level;
use journal::part::{JOURNAL, PARTS, is_done};
use nccl_events::schema::Statements;
use schemars::JsonSchema;
use serde::Serialize;
use settings::shell_word;

const EXAMPLES: &str = "\
A process that ends normally writes its part of the archive, and the last one puts the archive together. After a \
crash, a kill or a hang, what was recorded until then is in DIR/parts, and

  nccl-otf2 finalize trace

writes the missing parts and makes the archive. It can be repeated: complete parts stay as they are. If processes may \
still be running, run it on their host; on other hosts they count as dead.

--level changes how much is in the archive, without another run. This needs the journals, which are removed after \
they are written unless they are damaged or NCCL_OTF2_KEEP_JOURNAL=1 or --keep-journal keeps them. Without the \
journals, nothing is changed.

  nccl-otf2 finalize --level light trace

On a large job many hosts can write the parts, and then one makes the archive:

  srun sh -c 'nccl-otf2 finalize --shard $SLURM_PROCID/$SLURM_STEP_NUM_TASKS trace'
  nccl-otf2 finalize trace

Journals in another directory (NCCL_OTF2_JOURNAL_DIR) are written on the host that has them:

  srun --ntasks-per-node=1 nccl-otf2 finalize --shard 0/1 trace
  nccl-otf2 finalize trace

Exit codes: 0 everything recorded is in the archive, 1 something is missing from it (a part, or what could not be read of a \
damaged one), 2 no archive could be made. With --shard: 0 its parts are written, 1 some are not.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory
    #[arg(value_name = "DIR", value_parser = archives::job_argument)]
    directory: PathBuf,

    /// Keep the journals after the archive is written, so that another version can write it again
    #[arg(long)]
    keep_journal: bool,

    /// Also write what running processes have recorded so far; they keep running
    #[arg(long)]
    include_live: bool,

    /// Write only every N-th part, beginning with the I-th (from 0), and make no archive
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,

    /// Number of parts to write at once [default: one per core; fewer if memory is short]
    #[arg(long, value_name = "N", value_parser = from_1)]
    jobs: Option<NonZeroUsize>,

    /// How much of the recording goes into the archive: light, standard or full
    #[arg(long, value_name = "LEVEL")]
    level: Option<Level>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn from_1(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "not a number of 1 or more")
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    parsed.filter(|(number, of)| number < of).ok_or_else(|| "is I/N with I from 0 to N-1, such as 0/4".to_owned())
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Part {
    name: String,
    /// `written`, `done`, `live`, `empty`, `elsewhere` or `failed`.
    state: &'static str,
    /// Why it could not be written; only of `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Only of a part that was written now, like `records`.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    /// Unusable pieces of its journal, `process.json` and `late.json`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    format: u32,
    /// Whether everything recorded is in the archive.
    complete: bool,
    /// Whether anything was done.
    changed: bool,
    /// One for each process that recorded.
    parts: Vec<Part>,
    /// Null if there is none.
    archive: Option<Summary>,
    /// Only if something hung or might have, or the verdict is CANNOT TELL: what `hang.json` keeps.
    hang: Option<Ending>,
}

pub(crate) fn finalize(request: &Request) -> Result<Exit> {
    let directory = &request.directory;
    archives::job(directory)?;
    let options = FinalizeOptions {
        include_live: request.include_live,
        keep_journal: request.keep_journal,
        shard: request.shard,
        jobs: request.jobs,
        level: request.level,
    };
    let bar = Bar::new();
    // A shard covers only part of the job, and judging a job takes as long as writing it.
    let (summary, hang) = judged(directory, directory, request.shard.is_none(), || {
        archive::finalize(directory, &options, &bar).with_context(|| format!("cannot finalize {}", directory.display()))
    })?;
    drop(bar);
    let report = Report::new(&summary, directory, hang)?;
    if request.json {
        output::json(&report)?;
    } else {
        output::text(&report.text(directory, request.shard.is_some()))?;
    }
    // A shard is complete when its own parts are.
    let is_well = match request.shard {
        Some(_) => report.parts.iter().all(|part| part.state != "failed" && part.problems.is_empty()),
        None => report.complete,
    };
    let is_without_archive = request.shard.is_none() && report.archive.is_none();
    Ok(match is_well {
        _ if is_without_archive => Exit::CannotDo,
        true => Exit::Well,
        false => Exit::Problems,
    })
}

impl Report {
    fn new(summary: &FinalizeSummary, directory: &Path, hang: Option<Ending>) -> Result<Self> {
        let mut parts: Vec<Part> = summary.parts.iter().map(Part::from_finalized).collect();
        let left_out = summary.archive.as_ref().map_or(&[][..], |archive| &archive.left_out);
        for line in left_out {
            let is_of = |part: &&mut Part| {
                let rest = line.strip_prefix(&part.name);
                rest.is_some_and(|rest| rest.starts_with([':', ' ']))
                    || line.contains(&format!("/{PARTS}/{}/", part.name))
            };
            if let Some(part) = parts.iter_mut().filter(|part| part.state != "failed").find(is_of) {
                let reason = line.strip_prefix(&format!("{}: ", part.name)).unwrap_or(line);
                (part.state, part.reason) = ("failed", Some(reason.to_owned()));
            }
        }
        let has_archive = archives::anchor(directory).is_ok();
        Ok(Self {
            format: 1,
            complete: summary.complete && left_out.is_empty() && has_archive,
            changed: summary.archive.is_some() || parts.iter().any(|part| part.state == "written"),
            parts,
            archive: has_archive.then(|| Summary::read(directory)).transpose()?,
            hang,
        })
    }

    fn text(&self, directory: &Path, is_shard: bool) -> Text {
        let mut text = Text::default();
        for part in &self.parts {
            let name = &part.name;
            match part.state {
                "written" => {
                    let events = part.events.unwrap_or(0);
                    text.line(format_args!("{name}: written, {}", plural(events, "event", "events")));
                }
                "live" => text.line(format_args!(
                    "{name}: still running, skipped (--include-live writes what it has recorded so \
                        far)"
                )),
                "empty" => text.line(format_args!("{name}: recorded nothing")),
                "failed" => {
                    let reason = part.reason.as_deref().unwrap_or_default();
                    text.line(format_args!("{name}: cannot be written into the archive: {reason}"));
                }
                _ => {}
            }
            for problem in &part.problems {
                text.line(format_args!("{name}: {problem}"));
            }
            let journal = directory.join(PARTS).join(name).join(JOURNAL);
            if !part.problems.is_empty() && journal.is_dir() {
                text.line(format_args!("{name}: the journal is kept, so that a newer version can read more of it"));
            }
        }
        if self.parts.is_empty() {
            text.line(format_args!("{}: no process recorded anything", directory.display()));
        }
        match &self.archive {
            _ if is_shard => {
                let number = |state: &str| self.parts.iter().filter(|part| part.state == state).count() as u64;
                text.line(format_args!(
                    "{} of this shard written, {} before; no archive yet: `nccl-otf2 finalize {}` makes it when all shards are done",
                    plural(number("written"), "part", "parts"),
                    count(number("done")),
                    shell_word(directory)
                ));
            }
            Some(summary) if !self.changed => {
                summary.print(&mut text);
                text.line("nothing to do");
            }
            Some(summary) => summary.print(&mut text),
            None => text.line("no archive: no part has been written"),
        }
        if let Some(hang) = &self.hang {
            text.line(&hang.text);
        }
        text
    }
}

impl Part {
    fn from_finalized(part: &FinalizedPart) -> Self {
        let (mut reason, mut written) = (None, None);
        let state = match &part.state {
            PartState::Written(summary) => {
                written = Some(summary);
                "written"
            }
            PartState::Done => "done",
            PartState::Live => "live",
            PartState::Empty => "empty",
            PartState::Elsewhere => "elsewhere",
            PartState::Failed(why) => {
                reason = Some(why.clone());
                "failed"
            }
        };
        Self {
            name: part.name.clone(),
            state,
            reason,
            events: written.map(|summary| summary.events),
            records: written.map(|summary| summary.records),
            problems: part.problems.clone(),
        }
    }
}

/// Default minimum duration of a wait that counts as a hang.
pub(crate) const AFTER_SECONDS: f64 = 10.0;

pub(crate) fn ns(seconds: f64) -> u64 {
    u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap_or(u64::MAX)
}

/// The verdict on a job: from its journals, else the saved verdict, else from the archive.
///
/// ```text
///  journals ─ judge ─► verdict ────────────────► beside the archive (hang.json)
///     └ finalize ─► archive ─ judge ─► verdict ─┘   if the journals were written before and show nothing
/// ```
pub(crate) fn judge_job(path: &Path, after: f64) -> Result<HangReport> {
    if path.is_file() {
        return judge_archive(path, after);
    }
    let path = archives::directory(path);
    let has_archive = archives::anchor(path).is_ok();
    if has_archive && !archives::has_parts(path)? {
        return judge_archive(path, after);
    }
    let directory = archives::job(path)?;
    let parts = part_directories(directory)?;
    let has_journal = |part: &PathBuf| part.join(JOURNAL).is_dir();
    let kept_or_judged = || saved_report_or_note(directory).map_or_else(|| judge_archive(directory, after), Ok);
    if has_archive && !parts.iter().any(has_journal) {
        return kept_or_judged();
    }
    let report = judge_journals(directory, after)?;
    // If some journals were removed, only the archive contains those processes; the other journals were damaged.
    if has_archive && !report.runs() && !parts.iter().all(has_journal) {
        return kept_or_judged();
    }
    Ok(report)
}

fn judge_journals(directory: &Path, after: f64) -> Result<HangReport> {
    Ok(hang::judge_journals(directory, ns(after), &Bar::new())?)
}

fn judge_archive(path: &Path, after: f64) -> Result<HangReport> {
    Ok(hang::judge_archive(&archives::open_with_kinds(path)?, path, ns(after), &Bar::new())?)
}

fn saved_report(directory: &Path) -> Result<Option<HangReport>, HangError> {
    hang::saved(directory, || Some(archives::open(directory).ok()?.events()))
}

/// The saved report. If it cannot be read, a note is printed, and the archive can still be judged.
fn saved_report_or_note(directory: &Path) -> Option<HangReport> {
    saved_report(directory).unwrap_or_else(|error| {
        output::note(output::reasons(&error.into()));
        None
    })
}

/// The state of a job when its archive was made.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Ending {
    pub(crate) kind: Kind,
    /// The first line of the report of `hang`.
    pub(crate) text: String,
    #[serde(skip)]
    pub(crate) names_mismatch: bool,
}

/// Makes a job's archive in `archive` by calling `finalize`. Also returns whether the job hangs, hung, or might have;
/// `None` if not.
/// Judges the journals first, because `finalize` removes them. `has_journals`: no other process writes the job's parts.
pub(crate) fn judged<T>(
    job: &Path,
    archive: &Path,
    has_journals: bool,
    finalize: impl FnOnce() -> Result<T>,
) -> Result<(T, Option<Ending>)> {
    let known = saved_report(archive).ok().flatten();
    let is_unwritten = |part: &PathBuf| !is_done(part) && part.join(JOURNAL).is_dir();
    let has_unwritten = has_journals && part_directories(job).is_ok_and(|parts| parts.iter().any(is_unwritten));
    let before = has_unwritten.then(|| judge_journals(job, AFTER_SECONDS).ok()).flatten();
    let made = finalize()?;
    if archives::anchor(archive).is_err() {
        return Ok((made, None));
    }
    if let Some(killed) = before.as_ref().and_then(killed) {
        output::note(killed);
    }
    let tells = |report: &HangReport| {
        report.verdict.found || matches!(report.verdict.kind, Kind::Unknown | Kind::PastHang | Kind::Unsafe)
    };
    let report = before.filter(tells);
    let is_found = report.as_ref().is_some_and(|report| report.verdict.found);
    let by_archive = || (has_unwritten || known.is_none()).then(|| found_in(archive)).flatten();
    let report = if is_found { report } else { by_archive().or(report) };
    let ending = report.map(|report| keep(archive, report));
    if let (None, Some(known)) = (&ending, known) {
        // The archive may have been rewritten.
        keep(archive, known);
    }
    Ok((made, ending))
}

/// Puts first how the job hung, and returns that report: the one saved beside the archive, which was judged from more
/// data; if none was and something is wrong, the archive's own.
fn put_first(trace: &Trace, verdict: &mut Verdict) -> Option<HangReport> {
    let is_unfinished = trace.statements.unfinished() > 0;
    let kept = trace.anchor.parent().and_then(|directory| saved_report(directory).ok().flatten());
    if let Some(report) = kept.as_ref().filter(|report| matches!(report.verdict.kind, Kind::PastHang | Kind::Unsafe)) {
        verdict.basis.insert(0, report.verdict.line.clone());
    }
    let tells = |report: &HangReport| report.verdict.found || is_unfinished && report.verdict.kind == Kind::Unknown;
    let judged = || {
        let is_to_judge = is_unfinished || is_wrong(&trace.statements);
        is_to_judge.then(|| judge_archive(&trace.anchor, AFTER_SECONDS).ok()).flatten().filter(tells)
    };
    let found = kept.filter(tells).or_else(judged);
    if let Some(HangReport { verdict: found, .. }) = &found {
        verdict.line.clone_from(&found.line);
        let advice = found.next.as_ref().map(|advice| format!("{}.", capital(advice)));
        let tables = is_unfinished.then(|| "Times of unfinished operations are in none of the tables.".to_owned());
        verdict.basis.splice(0..0, found.evidence.iter().cloned().chain(advice).chain(tables));
        if is_unfinished || found.kind != Kind::Mismatch {
            verdict.finding = Finding::Unfinished;
        }
    }
    found
}

/// Whether an archive's counts show that an operation did not end or that ranks differ.
fn is_wrong(statements: &Statements) -> bool {
    let matching = Matching::from_statements(statements);
    statements.unfinished() > 0 || matching.number() > 0 || matching.ranks_behind.number > 0
}

fn found_in(archive: &Path) -> Option<HangReport> {
    let trace = archives::open(archive).ok()?;
    let is_to_judge = is_wrong(&trace.statements) || hang::is_judged_unasked(&trace);
    let report = is_to_judge.then(|| judge_archive(archive, AFTER_SECONDS).ok()).flatten()?;
    (report.verdict.found || report.verdict.kind == Kind::Unsafe).then_some(report)
}

/// A note on processes that were killed; `None` if anything else is wrong.
fn killed(report: &HangReport) -> Option<String> {
    let gone = report.gone().count() as u64;
    let is_well = !report.verdict.found && report.verdict.kind != Kind::Unknown;
    (is_well && gone > 0).then(|| {
        let processes = plural(gone, "process was", "processes were");
        format!("{processes} killed, crashed, or ended without telling NCCL. {}", report.verdict.line)
    })
}

fn keep(archive: &Path, mut report: HangReport) -> Ending {
    let events = archives::open(archive).ok().map(|trace| trace.events());
    // Without the file the archive can still be judged, in less detail.
    if let Err(error) = hang::keep(archive, &mut report, events) {
        output::note(output::reasons(&error.into()));
    }
    Ending { names_mismatch: report.names_mismatch(), text: report.verdict.line, kind: report.verdict.kind }
}

/// What a selection of ranks means.
pub(crate) const OF_ALL_RANKS: &str = "--rank selects rows, counts and durations; the verdict, causes, channels, \
    anomalies, phases, steps and the waiting and skew in operations are those of all ranks.";

/// The error for an archive that opens but cannot be analysed.
pub(crate) fn unreadable(error: otf2::Error) -> Error {
    let is_refused = |source: &io::Error| source.kind() == io::ErrorKind::PermissionDenied;
    let context = match &error {
        otf2::Error::Io { source, .. } if is_refused(source) => "cannot read the archive",
        _ => "the archive is damaged; run `nccl-otf2 check` for details",
    };
    Error::new(error).context(context)
}

/// Analyses an archive. A verdict on a hang, if there is one, comes first.
pub(crate) fn analyse(trace: &Trace, filter: &Filter, bar: &Bar) -> Result<Analysis> {
    Ok(analyse_with(trace, filter, bar, analysis::reasons::why::add_reasons)?.0)
}

/// Like [`analyse`], with the critical path, for which calls and launches are read, and how the job hung.
pub(crate) fn with_path(trace: &Trace, filter: &Filter, bar: &Bar) -> Result<(Analysis, Option<HangReport>)> {
    analyse_with(trace, filter, bar, |trace, analysis| {
        analysis::reasons::why::add_reasons_and_path(trace, analysis, filter)
    })
}

fn analyse_with(
    trace: &Trace,
    filter: &Filter,
    bar: &Bar,
    explain: impl FnOnce(&Trace, &mut Analysis) -> otf2::Result<()>,
) -> Result<(Analysis, Option<HangReport>)> {
    let mut analysis = analysis::links::interfaces::analyse(trace, filter, bar).map_err(unreadable)?;
    explain(trace, &mut analysis).map_err(unreadable)?;
    let hang = put_first(trace, &mut analysis.report.verdict);
    Ok((analysis, hang))
}

/// Adds the bus bandwidths of a baseline: an archive, or the output of nccl-tests.
pub(crate) fn add_baseline(report: &mut StatisticsReport, path: &Path) -> Result<()> {
    const MOST_BYTES: u64 = 256 << 20;
    let shown = || path.display().to_string();
    let baseline = if path.is_dir() || archives::is_archive(path) {
        let trace = archives::open_with_kinds(path)?;
        Baseline::from_report(&analyse(&trace, &Filter::default(), &Bar::new()).with_context(shown)?.report)
    } else {
        let text = path.canonicalize().and_then(|path| regular_files::read_to_string(&path, MOST_BYTES));
        let text = text.with_context(|| format!("cannot read {}", shown()))?;
        let refused = |why| anyhow!("{}: {why}; --baseline takes an archive or the output of nccl-tests", shown());
        Baseline::from_text(&text).map_err(refused)?
    };
    baseline.add_to_report(report, &shown());
    if report.operations.iter().all(|class| class.baseline.is_none()) {
        let sentence = report.verdict.basis.last().map_or("", String::as_str);
        output::note(format_args!("the baseline has nothing to compare with: {sentence}"));
    }
    Ok(())
}

/// The number of operations that match the filter; 1 if the archive has none at all.
pub(crate) fn matched(report: &StatisticsReport) -> u64 {
    if report.run.operations == 0 { 1 } else { report.operations.iter().map(|class| class.count).sum() }
}

/// Compares two archives. They are read one after the other, so memory holds the tables of only one.
pub(crate) fn comparison(a: &Path, b: &Path, select: &Select) -> Result<Comparison> {
    let same = |path: &Path| {
        let anchor = archives::anchor(path)?;
        anchor.canonicalize().with_context(|| format!("cannot follow {}", anchor.display()))
    };
    ensure!(same(a)? != same(b)?, "{} and {} are the same archive: name two runs", a.display(), b.display());
    Ok(compare(&observe(a, select)?, &observe(b, select)?))
}

fn observe(path: &Path, select: &Select) -> Result<RunSamples> {
    let trace = archives::open_with_kinds(path)?;
    let shown = || path.display().to_string();
    let filter = select.filter(&trace).with_context(shown)?;
    let analysis = analyse(&trace, &filter, &Bar::new()).with_context(shown)?;
    select.refuse_nothing(&trace, matched(&analysis.report)).with_context(shown)?;
    Ok(RunSamples::new(&trace, &analysis.tables, &analysis.instances, &analysis.report, &filter))
}

/// A temporary directory next to the wanted one, in which an output is made; removed unless its content is moved into
/// place.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    wanted: PathBuf,
    is_in_place: bool,
}

impl Staging {
    pub(crate) fn create(wanted: &Path) -> Result<Self> {
        refuse_existing(wanted)?;
        let name = wanted.file_name().map(|name| name.to_string_lossy());
        let Some(name) = name else {
            bail!("{}: not the name of a directory", wanted.display());
        };
        let path = make_parent(wanted)?.join(format!(".{name}.{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path, wanted: wanted.to_owned(), is_in_place: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn put_in_place(mut self) -> Result<()> {
        self.rename(&self.path)?;
        self.is_in_place = true;
        Ok(())
    }

    /// Renames a file or directory inside to the wanted name.
    pub(crate) fn put_in_place_of(self, made: &str) -> Result<()> {
        self.rename(&self.path.join(made))
    }

    fn rename(&self, made: &Path) -> Result<()> {
        refuse_existing(&self.wanted)?;
        fs::rename(made, &self.wanted).with_context(|| format!("cannot put {} in place", self.wanted.display()))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_in_place {
            // Leftovers are harmless, and the reason for the failure matters more.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Makes the directory that an output is to lie in.
pub(crate) fn make_parent(wanted: &Path) -> Result<&Path> {
    let parent = match wanted.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent)
        .with_context(|| format!("cannot create {}; name another path with -o", parent.display()))?;
    Ok(parent)
}

/// Only a page may be replaced: no other file, no device, and no target of a link.
pub(crate) fn refuse_irreplaceable(wanted: &Path) -> Result<()> {
    refuse_dash(wanted)?;
    let is_of_archive = wanted.extension().is_some_and(|text| otf2::FILE_EXTENSIONS.iter().any(|own| text == *own));
    ensure!(
        !is_of_archive || !wanted.exists(),
        "{} is a file of an archive; name another file with -o",
        wanted.display()
    );
    regular_files::refuse_other_than_file(wanted)
        .with_context(|| format!("cannot replace {}; name another file with -o", wanted.display()))?;
    ensure!(
        !wanted.exists() || is_page(wanted),
        "{} exists and is not a page; name another file with -o, or remove it",
        wanted.display()
    );
    Ok(())
}

/// Whether a file is empty, or begins like a page of HTML.
fn is_page(path: &Path) -> bool {
    const BEGIN: &[u8] = b"<!doctype html";
    let mut begin = Vec::new();
    let read =
        regular_files::open(path, u64::MAX).and_then(|file| file.take(BEGIN.len() as u64).read_to_end(&mut begin));
    read.is_ok() && (begin.is_empty() || begin.eq_ignore_ascii_case(BEGIN))
}

/// Elsewhere, `-` means stdout.
fn refuse_dash(wanted: &Path) -> Result<()> {
    ensure!(wanted != Path::new("-"), "-: cannot write to stdout; use ./- for a file of that name");
    Ok(())
}

/// Fails if the output exists: nothing is overwritten.
pub(crate) fn refuse_existing(wanted: &Path) -> Result<()> {
    refuse_dash(wanted)?;
    if fs::symlink_metadata(wanted).is_ok() {
        bail!("{} exists already; name another path with -o, or remove it", wanted.display());
    }
    Ok(())
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Summary {
    pub(crate) anchor: String,
    pub(crate) processes: u64,
    pub(crate) locations: u64,
    pub(crate) events: u64,
    pub(crate) communicators: u64,
    pub(crate) ranks_missing: u64,
    pub(crate) unfinished: u64,
    /// Callbacks that could not be recorded.
    pub(crate) lost: u64,
    pub(crate) problems: u64,
    /// NCCL's dumps of hosts' topology that could not be used. Graphs, often of small communicators, do not count.
    pub(crate) topology_unused: u64,
    /// Places where ranks of a communicator call something other than the rest.
    pub(crate) mismatches: u64,
    /// Ranks that called fewer collectives than others of their communicator.
    pub(crate) ranks_behind: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_mismatch: Option<String>,
}

impl Summary {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let trace = archives::open(path)?;
        let (statements, matching) = (&trace.statements, Matching::from_statements(&trace.statements));
        Ok(Self {
            anchor: trace.anchor.display().to_string(),
            processes: trace.processes().count() as u64,
            locations: trace.definitions.locations.len() as u64,
            events: trace.events(),
            communicators: trace.definitions.comms.len() as u64,
            ranks_missing: statements.ranks_missing.get(),
            unfinished: statements.unfinished(),
            lost: statements.counts.lost(),
            problems: statements.problems.number.get(),
            topology_unused: statements.topology_unused.number.get(),
            mismatches: matching.number(),
            ranks_behind: matching.ranks_behind.number,
            first_mismatch: matching.lines().next(),
        })
    }

    pub(crate) fn print(&self, into: &mut Text) {
        let mut line = format!(
            "{}: {}, {}, {}, {}",
            self.anchor,
            plural(self.processes, "process", "processes"),
            plural(self.communicators, "communicator", "communicators"),
            plural(self.locations, "location", "locations"),
            plural(self.events, "event", "events"),
        );
        for (number, one, many) in [
            (self.lost, "lost", "lost"),
            (self.unfinished, "unfinished", "unfinished"),
            (self.ranks_missing, "rank not recorded", "ranks not recorded"),
            (self.problems, "problem in journals", "problems in journals"),
            (self.topology_unused, "unusable dump of the topology", "unusable dumps of the topology"),
        ] {
            if number > 0 {
                line += &format!(", {}", plural(number, one, many));
            }
        }
        into.line(line);
        if let Some(first) = &self.first_mismatch {
            let more = match self.mismatches {
                0 | 1 => String::new(),
                number => format!(" (and {} more, see nccl-otf2 check)", number - 1),
            };
            into.line(format_args!("MISMATCH between ranks: {first}{more}"));
        }
    }
}
