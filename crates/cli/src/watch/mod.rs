//! `nccl-otf2 watch`: reports a running job's hangs and slow operations as events.
//!
//! ```text
//!  finalize::judge ► Report ► Hangs: is it new? ─┬─► Outputs: stdout, a file, a command
//!  live::Live ─► Snapshot ─► Slow: is it new? ───┘
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::command_line::Exit;
use crate::finalize::judge_job;
use crate::watch::slow::{Change, Event, Limits, Outputs, STEP, Slow};
use crate::{output, stacks};
use anyhow::{Context as _, Result};
use hang::{Kind, Report};
use live::{Live, Options};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

mod slow;

pub(crate) use crate::watch::slow::{Report as SlowReport, Request};

const OVER: &str =
    "no process of the job is running here; waiting for new ones until SIGINT or SIGTERM (--until-end exits instead)";

pub(crate) fn watch(request: &Request) -> Result<Exit> {
    if let Some(path) = request.write.as_deref().filter(|path| !path.is_dir()) {
        regular_files::refuse_other_than_file(path)
            .with_context(|| format!("cannot replace {}; name another one with --write", path.display()))?;
    }
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_over)).context("cannot catch signals")?;
    }
    let (hangs, outputs, noted) = (Hangs::default(), Outputs::new(request), String::new());
    let mut watcher = Watcher { request, is_over, hangs, follower: Follower::new(request), outputs, noted };
    if request.once {
        let report = watcher.look()?;
        watcher.wait_for_commands();
        if report.verdict.kind == Kind::Unknown {
            output::note(&report.verdict.line);
            report.unknown.iter().for_each(output::note);
            return Ok(Exit::CannotDo);
        }
        // Print problems even without a finding: they mean that the recording could only be judged in part.
        for process in &report.processes {
            process.problems.iter().for_each(|problem| output::note(format_args!("{}: {problem}", process.part)));
        }
        return Ok(exit(&report));
    }
    loop {
        let began = Instant::now();
        match watcher.look() {
            Ok(report) if request.until_end && !report.runs() => {
                watcher.wait_for_commands();
                return Ok(exit(&report));
            }
            Ok(report) if !report.runs() => watcher.note_once(OVER),
            Ok(_) => {}
            Err(error) => watcher.note_once(&format!("{} (looking again)", output::reasons(&error))),
        }
        let took = began.elapsed();
        // Whole journals are read: limit that to a tenth of the time.
        let pause = request.interval().saturating_sub(took).max(took * 9);
        if !watcher.wait_until(Instant::now() + pause) {
            watcher.outputs.commands.end();
            return Ok(Exit::Well);
        }
    }
}

struct Follower {
    live: Live,
    slow: Slow,
    began: Instant,
}

impl Follower {
    fn new(request: &Request) -> Option<Self> {
        let Request { slow_factor: factor, slow_intervals: intervals, slow_past: past, .. } = *request;
        (request.slow || request.on_slow.is_some()).then(|| Self {
            live: Live::new(&request.directory, Options::default()),
            slow: Slow::new(Limits { factor, intervals, past }),
            began: Instant::now(),
        })
    }
}

fn exit(report: &Report) -> Exit {
    if report.verdict.found { Exit::Problems } else { Exit::Well }
}

struct Watcher<'a> {
    request: &'a Request,
    is_over: Arc<AtomicBool>,
    hangs: Hangs,
    follower: Option<Follower>,
    outputs: Outputs<'a>,
    noted: String,
}

impl Watcher<'_> {
    fn look(&mut self) -> Result<Report> {
        let mut report = judge_job(&self.request.directory, self.request.hang_after)?;
        if let Some(change) = self.hangs.change(&report) {
            if self.request.stacks && report.verdict.found {
                stacks::collect(&self.request.directory, &mut report);
            }
            self.outputs.report(change, Event::Hang, &report, &report.verdict.line);
        }
        Ok(report)
    }

    /// Reads new records, and judges the interval once it is over. Returns whether more can be read.
    fn follow(&mut self) -> bool {
        let Some(follower) = &mut self.follower else { return false };
        let is_behind = follower.live.poll().is_behind;
        if follower.began.elapsed() >= self.request.interval() {
            follower.began = Instant::now();
            let change = follower.slow.change(&self.request.directory, &follower.live.snapshot());
            if let Some((change, report)) = change {
                self.outputs.report(change, Event::Slow, &report, &report.verdict.line);
            }
        }
        is_behind
    }

    /// Prints why there is nothing to watch, once for each reason.
    fn note_once(&mut self, reason: &str) {
        if self.noted != reason {
            output::note(reason);
            reason.clone_into(&mut self.noted);
        }
    }

    /// Returns `false` if a signal ends the wait.
    fn wait_until(&mut self, then: Instant) -> bool {
        while !self.is_over.load(Ordering::SeqCst) {
            let _some_run = self.outputs.commands.attend();
            let is_behind = self.follow();
            let left = then.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            if !is_behind {
                std::thread::sleep(left.min(STEP));
            }
        }
        false
    }

    fn wait_for_commands(&mut self) {
        while self.outputs.commands.attend() {
            if self.is_over.load(Ordering::SeqCst) {
                return self.outputs.commands.end();
            }
            std::thread::sleep(STEP);
        }
    }
}

/// Identifies a verdict; the verdict's text contains times, so it cannot.
type Verdict = (Kind, String, String);

/// Determines which verdicts of `hang` are new: the verdicts already reported, cleared when a report finds nothing.
#[derive(Default)]
pub(crate) struct Hangs {
    reported: Vec<Verdict>,
}

impl Hangs {
    /// The change a report makes; `None` if its verdict was already reported.
    pub(crate) fn change(&mut self, report: &Report) -> Option<Change> {
        if !report.verdict.found {
            let had_some = !std::mem::take(&mut self.reported).is_empty();
            return had_some.then_some(Change::Cleared);
        }
        let verdict = verdict(report);
        if self.reported.contains(&verdict) {
            return None;
        }
        self.reported.push(verdict);
        Some(Change::Found)
    }
}

/// The kind, and the reason and process of the first suspect.
fn verdict(report: &Report) -> Verdict {
    let kind = report.verdict.kind;
    if let Some(suspect) = report.suspects.first() {
        let unrecorded = || format!("{} {}", suspect.communicator, suspect.rank);
        return (kind, suspect.reason.to_string(), suspect.process.clone().unwrap_or_else(unrecorded));
    }
    let gone = report.gone().filter(|_| kind == Kind::Died).map(|process| process.part.as_str());
    (kind, String::new(), gone.collect::<Vec<_>>().join(" "))
}
