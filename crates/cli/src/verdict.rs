//! The verdict on a job: from its journals, else the saved verdict, else from the archive.
//!
//! ```text
//!  journals ─ judge ─► verdict ────────────────► beside the archive (hang.json)
//!     └ finalize ─► archive ─ judge ─► verdict ─┘   if the journals were written before and show nothing
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::archive::part_directories;
use analysis::results::{Finding, Verdict};
use analysis::units::capital;
use analysis::{Matching, Trace};
use anyhow::Result;
use hang::{Error, Kind, Report};
use journal::part::JOURNAL;
use journal::part::is_done;
use nccl_events::schema::Statements;
use schemars::JsonSchema;
use serde::Serialize;

use crate::archive;
use crate::place;
use crate::print;
use crate::progress::Bar;
use crate::units::plural;

/// Default minimum duration of a wait that counts as a hang.
pub(crate) const AFTER_SECONDS: f64 = 10.0;

pub(crate) fn ns(seconds: f64) -> u64 {
    u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn judge(path: &Path, after: f64) -> Result<Report> {
    if path.is_file() {
        return of_archive(path, after);
    }
    let path = place::directory(path);
    let has_archive = place::anchor(path).is_ok();
    if has_archive && !place::has_parts(path)? {
        return of_archive(path, after);
    }
    let directory = place::job(path)?;
    let parts = part_directories(directory)?;
    let has_journal = |part: &PathBuf| part.join(JOURNAL).is_dir();
    let kept_or_judged = || kept_or_noted(directory).map_or_else(|| of_archive(directory, after), Ok);
    if has_archive && !parts.iter().any(has_journal) {
        return kept_or_judged();
    }
    let report = of_journals(directory, after)?;
    // If some journals were removed, only the archive contains those processes; the other journals were damaged.
    if has_archive && report.is_over() && !parts.iter().all(has_journal) {
        return kept_or_judged();
    }
    Ok(report)
}

fn of_journals(directory: &Path, after: f64) -> Result<Report> {
    Ok(hang::judge_journals(directory, ns(after), &Bar::new())?)
}

fn of_archive(path: &Path, after: f64) -> Result<Report> {
    Ok(hang::judge_archive(&archive::open_with_kinds(path)?, path, ns(after), &Bar::new())?)
}

fn kept(directory: &Path) -> Result<Option<Report>, Error> {
    hang::kept(directory, || Some(archive::open(directory).ok()?.events()))
}

/// The saved report. If it cannot be read, a note is printed, and the archive can still be judged.
fn kept_or_noted(directory: &Path) -> Option<Report> {
    kept(directory).unwrap_or_else(|error| {
        print::note(print::reasons(&error.into()));
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

/// Makes a job's archive in `archive` by `finalize`, which removes the journals, and returns whether the job hangs or
/// hung, judged before that; `None` if nothing is wrong. `has_journals`: no other process writes the job's parts.
pub(crate) fn judged<T>(
    job: &Path,
    archive: &Path,
    has_journals: bool,
    finalize: impl FnOnce() -> Result<T>,
) -> Result<(T, Option<Ending>)> {
    let known = kept(archive).ok().flatten();
    let is_unwritten = |part: &PathBuf| !is_done(part) && part.join(JOURNAL).is_dir();
    let has_unwritten = has_journals && part_directories(job).is_ok_and(|parts| parts.iter().any(is_unwritten));
    let before = has_unwritten.then(|| of_journals(job, AFTER_SECONDS).ok()).flatten();
    let made = finalize()?;
    if place::anchor(archive).is_err() {
        return Ok((made, None));
    }
    if let Some(killed) = before.as_ref().and_then(killed) {
        print::note(killed);
    }
    let report = before.filter(|report| report.verdict.found || report.verdict.kind == Kind::Unknown);
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

/// The verdict saved beside an archive, judged from more data; if none was and something is wrong, the archive's own.
pub(crate) fn put_first(trace: &Trace, verdict: &mut Verdict) {
    let is_unfinished = trace.statements.unfinished() > 0 || verdict.finding == Finding::Unfinished;
    let tells = |report: &Report| report.verdict.found || is_unfinished && report.verdict.kind == Kind::Unknown;
    let directory = trace.anchor.parent();
    let kept = directory.and_then(|directory| kept(directory).ok().flatten()).filter(tells);
    let judged = || {
        let is_to_judge = is_unfinished || is_wrong(&trace.statements);
        is_to_judge.then(|| of_archive(&trace.anchor, AFTER_SECONDS).ok()).flatten().filter(tells)
    };
    if let Some(report) = kept.or_else(judged) {
        let own = std::mem::replace(&mut verdict.sentence, report.verdict.text);
        let advice = report.suspects.into_iter().next().and_then(|suspect| suspect.advice);
        verdict.basis.splice(0..0, [own].into_iter().chain(advice.map(|advice| format!("{}.", capital(&advice)))));
        if is_unfinished || report.verdict.kind != Kind::Mismatch {
            verdict.finding = Finding::Unfinished;
        }
    }
}

/// Whether an archive's counts show that something did not end or that ranks differ.
fn is_wrong(statements: &Statements) -> bool {
    let matching = Matching::of(statements);
    statements.unfinished() > 0 || matching.number() > 0 || matching.ranks_behind.number > 0
}

fn found_in(archive: &Path) -> Option<Report> {
    let trace = archive::open(archive).ok()?;
    let report = is_wrong(&trace.statements).then(|| of_archive(archive, AFTER_SECONDS).ok()).flatten()?;
    report.verdict.found.then_some(report)
}

/// A note on processes that were killed; `None` if anything else is wrong.
fn killed(report: &Report) -> Option<String> {
    let gone = report.gone().count() as u64;
    let is_well = !report.verdict.found && report.verdict.kind != Kind::Unknown;
    (is_well && gone > 0).then(|| {
        let processes = plural(gone, "process was", "processes were");
        format!("{processes} killed, crashed, or ended without telling NCCL. {}", report.verdict.text)
    })
}

fn keep(archive: &Path, mut report: Report) -> Ending {
    let events = archive::open(archive).ok().map(|trace| trace.events());
    // Without the file the archive can still be judged, in less detail.
    if let Err(error) = hang::keep(archive, &mut report, events) {
        print::note(print::reasons(&error.into()));
    }
    Ending { names_mismatch: report.names_mismatch(), text: report.verdict.text, kind: report.verdict.kind }
}
