//! Code shared by `metrics` and `top` to follow a running job.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use live::{Live, ProcessState, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Exit;
use crate::units::{plural, time};

/// Pause between polls once all journals are read.
const PAUSE: Duration = Duration::from_millis(200);

/// Reads journals until `until`; with `settled`, stops earlier if nothing new has arrived for that long.
pub(crate) fn read(live: &mut Live, until: Option<Instant>, settled: Option<Duration>, stop: &AtomicBool) {
    let mut read_since = None;
    while !stop.load(Ordering::Relaxed) {
        let progress = live.poll();
        let now = Instant::now();
        read_since = if progress.is_behind { None } else { read_since.or(Some(now)) };
        let is_quiet = |settled| progress.processes == 0 || read_since.is_some_and(|since| now - since >= settled);
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(now));
        if left.is_zero() || settled.is_some_and(is_quiet) {
            return;
        }
        if !progress.is_behind {
            thread::sleep(left.min(if settled.is_some() { PAUSE / 10 } else { PAUSE }));
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Line<'s> {
    format: u32,
    #[serde(flatten)]
    snapshot: &'s Snapshot,
}

impl<'s> Line<'s> {
    pub(crate) const fn of(snapshot: &'s Snapshot) -> Self {
        Self { format: 1, snapshot }
    }
}

/// What cannot be read, and why; of each process the first.
pub(crate) fn problems(now: &Snapshot) -> impl Iterator<Item = String> {
    let of_processes = now.processes.iter().filter(|it| it.records > 0).filter_map(|it| it.problem.clone());
    let none_here = (now.processes.is_empty() && now.processes_elsewhere > 0).then(|| {
        let elsewhere = plural(now.processes_elsewhere, "process is", "processes are");
        format!(
            "no process of this host is followed: {elsewhere} on other hosts or of other boots, and followed only there"
        )
    });
    now.unreadable.iter().cloned().chain(of_processes).chain(none_here)
}

/// The exit code of a single look: there must be something that can be read.
pub(crate) fn exit(now: &Snapshot) -> Exit {
    let has_none = !now.unreadable.is_empty() && now.processes.iter().all(|it| it.records == 0);
    if has_none { Exit::CannotDo } else { Exit::Well }
}

/// A note for a job without running processes.
pub(crate) fn over(now: &Snapshot) -> Option<String> {
    let is_over = |it: &live::Process| matches!(it.state, ProcessState::Finished | ProcessState::Gone);
    let has_some = !now.processes.is_empty() || now.processes_missed > 0;
    if !has_some || !now.unreadable.is_empty() || !now.processes.iter().all(is_over) {
        return None;
    }
    let last_ns = now.processes.iter().filter_map(|it| it.last_record_ns).max();
    let since = last_ns.map_or_else(
        || "its recordings are removed".to_owned(),
        |last_ns| format!("its last record was made {} ago", time(now.at_ns.saturating_sub(last_ns))),
    );
    Some(format!(
        "the job is over, {since}: `nccl-otf2 hang` says whether it hung, `stats` and `report` say what it did; if there \
         is no archive yet, `finalize` makes it"
    ))
}
