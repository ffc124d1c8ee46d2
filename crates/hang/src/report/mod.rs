//! Makes the report from a judged job, and keeps it beside an archive.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::compare::Difference;
use crate::error::Error;
use crate::job::{Job, Process, state_name};
use crate::judge::{Finding, Judgement, Suspect, judge, unreceived};
use crate::lifetimes::{NoRecentEvents, find_no_recent_events};
use crate::report::ranks::comm_row;
use crate::report::rows::{CommRow, Kind, ProcessRow, Report, SuspectRow, Verdict};
use analysis::units::time;
use archive::part_directories;
use journal::host;
use journal::part::{part_name, read_process};
use model::job::{RecordingState, is_blank};

pub(crate) mod culprits;
pub(crate) mod deadlocks;
mod explain;
pub(crate) mod lines;
mod ranks;
pub(crate) mod rows;
mod sentences;
mod words;

/// Judges a job. Waits shorter than `after_ns` do not count as hanging.
pub(crate) fn report(directory: &str, job: &Job, after_ns: u64) -> Report {
    let judgement = judge(job, after_ns);
    let comms = job.comms.iter().enumerate();
    let communicators: Vec<CommRow> = comms.map(|(index, comm)| comm_row(job, index, comm, &judgement)).collect();
    let silence = find_no_recent_events(job, after_ns);
    let Headline { kind, text, evidence: mut lines, next } = headline(job, &judgement, silence.as_ref(), after_ns);
    let finding = match kind {
        Kind::Hang | Kind::Unknown => judgement.hang.as_ref(),
        Kind::Mismatch => judgement.mismatches.first(),
        Kind::PastHang => judgement.past.as_ref(),
        Kind::Unsafe => judgement.is_unsafe.as_ref(),
        Kind::Died | Kind::Quiet | Kind::Waiting | Kind::Nothing => None,
    };
    let suspects = finding
        .into_iter()
        .flat_map(|finding| finding.suspects.iter().map(|suspect| suspect_row(job, finding, suspect)));
    let mut ranks: Vec<u32> = finding
        .into_iter()
        .flat_map(|finding| &finding.suspects)
        .filter_map(|suspect| job.comm(suspect.member.0)?.job_rank(suspect.member.1))
        .collect();
    nccl_events::sort::sort(&mut ranks);
    ranks.dedup();
    lines.extend(evidence(job, &judgement, finding));
    let verdict = Verdict {
        found: !matches!(kind, Kind::Waiting | Kind::Nothing | Kind::Unknown | Kind::PastHang | Kind::Unsafe),
        kind,
        line: text,
        reason: finding.map(|finding| finding.reason.name().into()),
        ranks,
        evidence: lines,
        confidence: finding.map(|finding| finding.confidence.name().into()),
        next: finding.and_then(|finding| finding.next.clone()).or(next),
        command: finding.and_then(|finding| culprits::command(job, finding)),
    };
    let silence = silence.filter(|_| kind == Kind::Quiet);
    let mut report = Report {
        format: 2,
        directory: directory.to_owned(),
        time_ns: job.now_ns,
        after_ns,
        source: if job.is_archive { "archive" } else { "journals" }.into(),
        suspects: suspects.collect(),
        quiet: silence.map(|silence| ranks::report(job, &silence)),
        ranks: rows::rows(job),
        unknown: sentences::unknown(job, &judgement, kind),
        processes: job.processes.iter().map(process_row).collect(),
        communicators,
        archive_events: None,
        verdict,
    };
    report.show_names();
    report
}

/// What is wrong with a job's calls or settings, whether it hung or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Ranks gave a collective different reduction operations.
    Reduction(String),
    /// NCCL chose another algorithm, protocol or number of channels on some ranks.
    Tuning(String),
    /// Processes use different releases of NCCL.
    Releases(String),
    /// Only buffers, or kernels that ran at the same time, let the calls through.
    Order(String),
    /// A rank never received messages of another one.
    Unreceived { comm: String, from: u32, to: u32 },
}

pub(crate) fn remarks(job: &Job) -> Vec<Remark> {
    let judgement = judge(job, u64::MAX);
    let of_calls = judgement.progress.iter().flatten().filter_map(|(_, progress)| {
        let mismatch = progress.mismatch.as_ref()?;
        let line = || lines::mismatch(job, mismatch, None).line;
        match mismatch.difference {
            Difference::Reduction => Some(Remark::Reduction(line())),
            difference if difference.is_of_nccl() => Some(Remark::Tuning(line())),
            _ => None,
        }
    });
    let mut found: Vec<Remark> = of_calls.collect();
    found.extend(lines::releases(job).map(Remark::Releases));
    let unreceived = unreceived(job);
    found.extend(unreceived.iter().filter_map(|one| {
        Some(Remark::Unreceived { comm: job.comms.get(one.comm)?.name.clone(), from: one.from, to: one.to })
    }));
    found.extend(judgement.is_unsafe.filter(|_| unreceived.is_empty()).map(|finding| Remark::Order(finding.line)));
    found
}

/// What the verdict rests on, and what else was found.
fn evidence(job: &Job, judgement: &Judgement, finding: Option<&Finding>) -> Vec<String> {
    let mut lines = finding.map_or_else(Vec::new, |finding| finding.evidence.clone());
    let others = judgement.mismatches.iter().filter(|one| finding.is_none_or(|finding| !is_same(finding, one)));
    lines.extend(others.take(3).map(|one| format!("also: {}", one.line)));
    lines.extend(lines::releases(job).filter(|releases| !lines.contains(releases)));
    lines
}

/// Whether two findings are of the same difference: the waits are only in one line.
fn is_same(one: &Finding, other: &Finding) -> bool {
    one.reason == other.reason && one.evidence.starts_with(&other.evidence)
}

/// The first line of a report, and what follows from no finding.
struct Headline {
    kind: Kind,
    text: String,
    evidence: Vec<String>,
    next: Option<String>,
}

impl Headline {
    fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), evidence: Vec::new(), next: None }
    }

    fn with(mut self, evidence: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(evidence);
        self
    }
}

fn headline(job: &Job, judgement: &Judgement, silence: Option<&NoRecentEvents>, after_ns: u64) -> Headline {
    if let Some(found) = judgement.hang.as_ref().filter(|_| !judgement.is_unsure) {
        return Headline::new(Kind::Hang, format!("HANG: {}", found.line));
    }
    if let Some(found) = &judgement.past {
        return Headline::new(Kind::PastHang, format!("PAST HANG: {}", found.line));
    }
    if let Some(found) = judgement.mismatches.first() {
        return Headline::new(Kind::Mismatch, format!("MISMATCH: {}", found.line));
    }
    let gone: Vec<&Process> = job.processes.iter().filter(|one| one.state == RecordingState::Gone).collect();
    if let Some(first) = gone.first().filter(|_| !job.is_over()) {
        let [text, evidence] = sentences::died(job, first, gone.len());
        return Headline::new(Kind::Died, format!("DIED: {text}")).with([evidence]);
    }
    if let Some((text, evidence)) = &judgement.cut_short {
        return Headline::new(Kind::Unknown, words::cut(&format!("CANNOT TELL: {text}"))).with(evidence.clone());
    }
    let after = time(after_ns);
    match (&judgement.longest, silence) {
        (Some((waits, _)), _) if judgement.is_unsure => {
            let text = judgement.hang.as_ref().map_or(waits, |found| &found.line);
            let why = format!("less than {after} (--after): the job may have hung, or was killed while it was working");
            Headline::new(Kind::Unknown, words::cut(&format!("CANNOT TELL: {text}"))).with([why])
        }
        (Some(_), _) if job.is_over() && sentences::has_lost(job) => nobody_waits(job),
        (Some((waits, ns)), _) => {
            let why = if *ns >= after_ns {
                "NCCL may take a minute to create a communicator of many ranks".to_owned()
            } else {
                format!("less than {after} (--after)")
            };
            let word = if job.is_over() { "No hang" } else { "Not yet a hang" };
            Headline::new(Kind::Waiting, words::cut(&format!("{word}: {waits}"))).with([why])
        }
        // The missing records may show which rank holds up the job.
        (None, Some(_)) if job.is_over() && sentences::has_lost(job) => nobody_waits(job),
        (None, Some(silence)) => {
            let (kind, word) = if job.is_archive { (Kind::Unknown, "CANNOT TELL") } else { (Kind::Quiet, "QUIET") };
            let [text, evidence] = ranks::silence(job, silence);
            Headline::new(kind, format!("{word}: {text}")).with([evidence])
        }
        (None, None) => match &judgement.is_unsafe {
            Some(found) => Headline::new(Kind::Unsafe, format!("UNSAFE: {}", found.line)),
            None => nobody_waits(job),
        },
    }
}

/// The verdict if no rank is seen to wait for long. Missing records of a finished job could have shown a hang.
fn nobody_waits(job: &Job) -> Headline {
    let is_unclear = job.processes.iter().any(|process| process.state == RecordingState::Unknown);
    let doubts = if job.is_over() || is_unclear { sentences::limitations(job) } else { Vec::new() };
    let Some(first) = doubts.first() else {
        return Headline::new(Kind::Nothing, format!("No hang: {}", sentences::nothing(job)));
    };
    // The report lists all reasons.
    let text = words::cut(&format!("CANNOT TELL: {first}"));
    let why = "no rank is seen to wait for long, but the missing data could show one".to_owned();
    let next = Some(sentences::workaround(job).to_owned());
    Headline { next, ..Headline::new(Kind::Unknown, text).with([why]) }
}

fn suspect_row(job: &Job, finding: &Finding, suspect: &Suspect) -> SuspectRow {
    let (index, rank) = suspect.member;
    let comm = job.comm(index);
    SuspectRow {
        reason: suspect.reason.name().into(),
        communicator: comm.map(|comm| comm.name.clone()).unwrap_or_default(),
        rank,
        job_rank: comm.and_then(|comm| comm.job_rank(rank)),
        process: job.process_of_member(suspect.member).map(Process::address),
        ranks_blocked: suspect.blocked,
        text: suspect.text.clone(),
        advice: finding.next.clone(),
        chain: suspect.chain.clone(),
    }
}

fn process_row(process: &Process) -> ProcessRow {
    ProcessRow {
        part: process.part.clone(),
        host: process.host.clone(),
        pid: process.pid,
        launcher_rank: process.launcher_rank,
        process_state: state_name(process.state).into(),
        last_record_ns: process.last_record_ns,
        last_event_ns: process.last_event_ns,
        has_journal: process.has_journal,
        problems: process.problems.clone(),
    }
}

/// File name of a kept report, in the directory of the archive.
pub const FILE: &str = "hang.json";

/// Stores a report beside the archive in `directory`, because the journals that the verdict is based on are removed.
/// The archive's number of events identifies the archive.
pub fn keep(directory: &Path, report: &mut Report, archive_events: Option<u64>) -> Result<(), Error> {
    report.archive_events = archive_events;
    let path = directory.join(FILE);
    let staged = directory.join(format!(".{FILE}.{}", std::process::id()));
    let json = serde_json::to_vec_pretty(report).map_err(io::Error::from);
    let written = json.and_then(|json| host::write(&staged, &json)).and_then(|()| fs::rename(&staged, &path));
    written.map_err(Error::io("write", &path))
}

/// The report kept in `directory`; `None` if it is about another archive or another job.
pub fn saved(directory: &Path, archive_events: impl FnOnce() -> Option<u64>) -> Result<Option<Report>, Error> {
    let path = directory.join(FILE);
    let bytes = match regular_files::read(&path, regular_files::MOST_MANIFEST_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(Error::io("read", &path))?,
    };
    let mut report: Report = serde_json::from_slice(&bytes).map_err(|source| Error::NotAReport { path, source })?;
    report.show_names();
    // A report on an archive has no part names.
    let is_process = |part: &PathBuf, process: &ProcessRow| {
        let (info, _) = read_process(part);
        info.pid != 0 && (&info.host, info.pid) == (&process.host, process.pid)
    };
    let is_judged = |part: &PathBuf| {
        report.processes.iter().any(|row| row.part == part_name(part))
            || report.processes.iter().any(|row| is_process(part, row))
    };
    // A report judges no part in which nothing is recorded.
    let has_all =
        part_directories(directory).is_ok_and(|parts| parts.iter().all(|part| is_judged(part) || is_blank(part)));
    Ok((has_all && report.archive_events.is_some() && report.archive_events == archive_events()).then_some(report))
}
