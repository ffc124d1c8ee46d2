//! The verdict on a job whose recordings become an archive.
//!
//! ```text
//!  journals ─ judge ─► verdict ────────────────► beside the archive (hang.json)
//!     └ finalize ─► archive ─ judge ─► verdict ─┘   where the journals do not tell: they were written before
//! ```

use std::path::{Path, PathBuf};

use analysis::report::{Finding, Verdict};
use analysis::{Matching, Trace};
use anyhow::Result;
use journal::part::JOURNAL;
use schema::Statements;
use trace::{is_done, part_directories};

use super::job::ProcessState;
use super::judge::blockage::Reason;
use super::report::rows::{Kind, ProcessRow, Report, Verdict as Judged};
use super::{AFTER_SECONDS, look, of_archive, stored};
use crate::place;
use crate::print;
use crate::units::plural;

/// How a job stood when its archive was made.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The first line of the report of `hang`.
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// Whether it says that ranks call different things.
    pub(crate) names_mismatch: bool,
}

/// Makes the archive of a job by `finalize`, in `archive`, and says whether the job hangs, or hung, before that removes
/// the journals. None where nothing is wrong. `has_journals`: whether nobody else writes the job's parts meanwhile.
pub(crate) fn judged<T>(
    job: &Path,
    archive: &Path,
    has_journals: bool,
    finalize: impl FnOnce() -> Result<T>,
) -> Result<(T, Option<Ending>)> {
    let known = stored::read(archive).ok().flatten();
    let is_unwritten = |part: &PathBuf| !is_done(part) && part.join(JOURNAL).is_dir();
    let is_news = has_journals && part_directories(job).is_ok_and(|parts| parts.iter().any(is_unwritten));
    let before = is_news.then(|| look(job, AFTER_SECONDS).ok()).flatten();
    let made = finalize()?;
    if place::anchor(archive).is_err() {
        return Ok((made, None));
    }
    let of_killed = before.as_ref().and_then(killed);
    let report = before.filter(|report| report.verdict.found || report.verdict.kind == Kind::Unknown);
    if let Some(killed) = of_killed {
        print::note(killed);
    }
    let is_found = report.as_ref().is_some_and(|report| report.verdict.found);
    let by_archive = || (is_news || known.is_none()).then(|| found_in(archive)).flatten();
    let report = if is_found { report } else { by_archive().or(report) };
    let ending = report.map(|report| keep(archive, report));
    if let (None, Some(known)) = (&ending, known) {
        // The archive may have been written anew.
        keep(archive, known);
    }
    Ok((made, ending))
}

/// Puts the verdict that was kept beside an archive before what the archive itself says: it was judged from more. Where
/// nothing was kept, and something is wrong, the archive is judged.
pub(crate) fn put_first(trace: &Trace, verdict: &mut Verdict) {
    let (anchor, said) = (&trace.anchor, &trace.said);
    let is_unfinished = said.unfinished() > 0 || verdict.finding == Finding::Unfinished;
    let tells = |report: &Report| report.verdict.found || is_unfinished && report.verdict.kind == Kind::Unknown;
    let kept = anchor.parent().and_then(|directory| stored::read(directory).ok().flatten()).filter(tells);
    let is_to_judge = is_unfinished || is_wrong(said);
    let judged = || is_to_judge.then(|| of_archive(anchor, AFTER_SECONDS).ok()).flatten().filter(tells);
    if let Some(report) = kept.or_else(judged) {
        let own = std::mem::replace(&mut verdict.sentence, report.verdict.text);
        let advice = report.suspects.into_iter().next().and_then(|suspect| suspect.advice);
        verdict.basis.splice(0..0, [own].into_iter().chain(advice.map(sentence)));
        if is_unfinished || report.verdict.kind != Kind::Mismatch {
            verdict.finding = Finding::Unfinished;
        }
    }
}

/// Whether the counts of an archive say that something did not end, or that ranks differ.
fn is_wrong(said: &Statements) -> bool {
    let matching = Matching::of(said);
    said.unfinished() > 0 || matching.number() > 0 || matching.ranks_behind.number > 0
}

/// A remark as a sentence.
fn sentence(text: String) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// What the archive says, where its own counts say that something is wrong.
fn found_in(archive: &Path) -> Option<Report> {
    let trace = crate::archive::open(archive).ok()?;
    let report = is_wrong(&trace.said).then(|| of_archive(archive, AFTER_SECONDS).ok()).flatten()?;
    report.verdict.found.then_some(report)
}

/// That processes of a job did not end by themselves, where nothing is wrong but that.
fn killed(report: &Report) -> Option<String> {
    let is_gone = |process: &&ProcessRow| process.process_state == ProcessState::Gone.name();
    let gone = report.processes.iter().filter(is_gone).count() as u64;
    let is_well = !report.verdict.found && report.verdict.kind != Kind::Unknown;
    (is_well && gone > 0).then(|| {
        let processes = plural(gone, "process was", "processes were");
        format!("{processes} killed, crashed, or ended without telling NCCL. {}", report.verdict.text)
    })
}

fn keep(archive: &Path, mut report: Report) -> Ending {
    // Without the file the archive still tells, in less detail.
    if let Err(error) = stored::keep(archive, &mut report) {
        print::note(print::reasons(&error));
    }
    let by_mismatch = report.suspects.first().is_some_and(|suspect| suspect.reason == Reason::Mismatch.name());
    let Judged { text, kind, .. } = report.verdict;
    Ending { text, kind, names_mismatch: by_mismatch || kind == Kind::Mismatch }
}
