//! Detects collectives that have become slow, comparing each class with its own past. Also the arguments of `watch`,
//! and the outputs and commands for all its events.
//!
//! A class's value in an interval is the median over its ranks of the median algorithm bandwidth; only timings that
//! measure work have one. Its past is the last [`PAST`] intervals in which it was not slow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::output;
use crate::output::{Text, seconds};
use analysis::units::{bandwidth, bytes, plural, time};
use anyhow::{Context as _, Result};
use clap::Args;
use jiff::{Timestamp, Unit};
use live::{Operation, Snapshot};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use schemars::JsonSchema;
use serde::Serialize;
use tempfile::NamedTempFile;

/// Number of intervals kept: ten minutes at 10 s each.
const PAST: usize = 60;

const MOST_RANKS: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// A bandwidth is slow if it is lower than the median of the past by this factor.
    pub(crate) factor: f64,
    /// A class that is slow in this many consecutive intervals is reported.
    pub(crate) intervals: usize,
    pub(crate) past: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
struct Class {
    communicator: String,
    function: String,
    /// The smallest size of the class.
    size_class: u64,
    timing: &'static str,
    algorithm: String,
}

#[derive(Debug, Default)]
struct History {
    past: Vec<f64>,
    /// Values since the class may have become slow, or fast again.
    streak: Vec<f64>,
    is_slow: bool,
    row: Option<Row>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Row {
    #[serde(flatten)]
    class: Class,
    ranks: usize,
    count: u64,
    algbw: f64,
    usual_algbw: f64,
    /// How many intervals `usual_algbw` is the median of.
    intervals: usize,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LastRow {
    communicator: String,
    rank: u32,
    part: String,
    /// How often it was last in the interval.
    last: u64,
    caused_waiting_ns: u64,
}

/// The report of slow collectives.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    format: u32,
    directory: String,
    time_ns: u64,
    interval_ns: u64,
    pub(crate) verdict: Verdict,
    /// Slowest first.
    operations: Vec<Row>,
    /// Ranks that others waited for; longest first.
    last: Vec<LastRow>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Verdict {
    /// False: nothing is slow any more.
    pub(crate) found: bool,
    kind: &'static str,
    pub(crate) line: String,
}

pub(crate) struct Slow {
    limits: Limits,
    classes: BTreeMap<Class, History>,
    /// For each communicator and rank: how often it was last, and the waiting it caused, before the interval.
    before: BTreeMap<(usize, u32), (u64, u64)>,
}

impl Slow {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, classes: BTreeMap::new(), before: BTreeMap::new() }
    }

    pub(crate) fn change(&mut self, directory: &Path, snapshot: &Snapshot) -> Option<(Change, Report)> {
        let had_some = self.classes.values().any(|history| history.is_slow);
        let mut is_new = false;
        for (class, operations) in classes(snapshot) {
            let Some(algbw) = median(operations.iter().filter_map(|operation| operation.window.algbw).collect()) else {
                continue;
            };
            let history = self.classes.entry(class.clone()).or_default();
            is_new |= history.take(algbw, self.limits);
            let count = operations.iter().map(|operation| operation.window.count).sum();
            let usual_algbw = median(history.past.clone()).unwrap_or(algbw);
            let intervals = history.past.len();
            history.row = Some(Row { class, ranks: operations.len(), count, algbw, usual_algbw, intervals });
        }
        let last = self.last(snapshot);
        let slow = self.classes.values().filter(|history| history.is_slow).filter_map(|history| history.row.clone());
        let mut operations: Vec<Row> = slow.collect();
        nccl_events::sort::sort_by(&mut operations, |a, b| {
            (a.algbw / a.usual_algbw).total_cmp(&(b.algbw / b.usual_algbw))
        });
        let change = match operations.is_empty() {
            false if is_new => Change::Found,
            true if had_some => Change::Cleared,
            _ => return None,
        };
        let verdict = Verdict { found: !operations.is_empty(), kind: "slow", line: text(&operations, &last) };
        let directory = directory.display().to_string();
        let Snapshot { at_ns: time_ns, interval_ns, .. } = *snapshot;
        Some((change, Report { format: 1, directory, time_ns, interval_ns, verdict, operations, last }))
    }

    fn last(&mut self, snapshot: &Snapshot) -> Vec<LastRow> {
        let mut rows: Vec<LastRow> = Vec::new();
        for rank in &snapshot.ranks {
            let now = (rank.last, rank.caused_waiting_ns);
            let before = self.before.insert((rank.communicator, rank.rank), now).unwrap_or(now);
            let caused_waiting_ns = now.1.saturating_sub(before.1);
            if caused_waiting_ns > 0 {
                let communicator = snapshot.communicators.get(rank.communicator);
                let process = snapshot.processes.get(rank.process);
                rows.push(LastRow {
                    communicator: communicator.map(|communicator| communicator.name.clone()).unwrap_or_default(),
                    rank: rank.rank,
                    part: process.map(|process| process.part.clone()).unwrap_or_default(),
                    last: now.0.saturating_sub(before.0),
                    caused_waiting_ns,
                });
            }
        }
        nccl_events::sort::sort_by_key(&mut rows, |row| std::cmp::Reverse(row.caused_waiting_ns));
        rows.truncate(MOST_RANKS);
        rows
    }
}

impl History {
    /// Adds the value of an interval; returns whether it made the class slow.
    fn take(&mut self, value: f64, limits: Limits) -> bool {
        self.streak.push(value);
        let is_against = self.is_below(value, limits) != self.is_slow;
        let turns = is_against && self.streak.len() >= limits.intervals.max(1);
        if turns {
            self.is_slow = !self.is_slow;
        }
        if turns || !is_against {
            let streak = self.streak.drain(..);
            if !self.is_slow {
                self.past.extend(streak);
            }
        }
        self.past.drain(..self.past.len().saturating_sub(PAST));
        turns && self.is_slow
    }

    /// Whether a value is below the median of the past by the factor, and below nine in ten of the past values.
    fn is_below(&self, value: f64, limits: Limits) -> bool {
        let mut past = self.past.clone();
        nccl_events::sort::sort_by(&mut past, f64::total_cmp);
        let quantile = |divisor: usize| past.get(past.len() / divisor).copied();
        let is_below = |limit: Option<f64>| limit.is_some_and(|limit| value < limit);
        past.len() >= limits.past && is_below(quantile(10)) && is_below(quantile(2).map(|value| value / limits.factor))
    }
}

fn classes(snapshot: &Snapshot) -> BTreeMap<Class, Vec<&Operation>> {
    let mut classes: BTreeMap<Class, Vec<&Operation>> = BTreeMap::new();
    for operation in
        snapshot.operations.iter().filter(|operation| operation.window.algbw.is_some_and(|algbw| algbw > 0.0))
    {
        let communicator = snapshot.communicators.get(operation.communicator);
        let class = Class {
            communicator: communicator.map(|communicator| communicator.name.clone()).unwrap_or_default(),
            function: operation.function.clone(),
            size_class: operation.size_class,
            timing: operation.timing,
            algorithm: operation.algorithm.clone(),
        };
        classes.entry(class).or_default().push(operation);
    }
    classes
}

/// The lower median: with two ranks, one waits for the other.
fn median(mut values: Vec<f64>) -> Option<f64> {
    nccl_events::sort::sort_by(&mut values, f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

fn text(operations: &[Row], last: &[LastRow]) -> String {
    let Some(first) = operations.first() else {
        return "No longer slow: all classes of operations are about as fast as before".to_owned();
    };
    let Class { communicator, function, size_class, .. } = &first.class;
    let mut text = format!(
        "SLOW: {function} of {} to {} in communicator {communicator}: {}, before {} (median of {})",
        bytes(*size_class),
        bytes(size_class.saturating_mul(2)),
        bandwidth(first.algbw),
        bandwidth(first.usual_algbw),
        plural(first.intervals as u64, "interval", "intervals"),
    );
    if operations.len() > 1 {
        text += &format!("; and {} more", plural(operations.len() as u64 - 1, "class", "classes"));
    }
    if let Some(LastRow { communicator, rank, last, caused_waiting_ns, .. }) = last.first() {
        let (times, waiting) = (plural(*last, "collective", "collectives"), time(*caused_waiting_ns));
        text += &format!("; rank {rank} of {communicator} came last to {times}, others waited {waiting} for it");
    }
    text
}

/// How often signals and commands are checked.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// A variable in the environment of a command and of everything it starts. Processes that create their own group or
/// session, or whose parent has ended, still have it.
const MARK: &str = "OTF2_WATCH_COMMAND";

/// Runs a command for each event, with the report as stdin and a time limit.
pub(crate) struct Commands {
    running: Vec<RunningCommand>,
    limit: Duration,
    started: u64,
}

struct RunningCommand {
    child: Child,
    mark: String,
    event: &'static str,
    began: Instant,
    is_killed: bool,
}

impl Commands {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { running: Vec::new(), limit, started: 0 }
    }

    pub(crate) fn start(&mut self, event: &'static str, command: &str, report: &str) -> Result<()> {
        let cannot = || format!("cannot run the command for `{event}`");
        // A file instead of a pipe: a command that does not read it neither blocks nor kills the writer.
        let mut stdin = File::from(memfd_create("report", MemfdFlags::CLOEXEC).with_context(cannot)?);
        stdin.write_all(report.as_bytes()).and_then(|()| stdin.rewind()).with_context(cannot)?;
        let mut shell = Command::new("/bin/sh");
        self.started += 1;
        let mark = format!("{MARK}={}-{}", std::process::id(), self.started);
        // In its own process group, so that the shell's children are killed with it.
        shell.args(["-c", command]).stdin(stdin).process_group(0);
        shell.envs(mark.split_once('='));
        let child = shell.spawn().with_context(cannot)?;
        self.running.push(RunningCommand { child, mark, event, began: Instant::now(), is_killed: false });
        Ok(())
    }

    /// Reports commands that have ended, and kills those over the time limit. Returns whether any is still running.
    pub(crate) fn attend(&mut self) -> bool {
        let limit = self.limit;
        self.running.retain_mut(|running| !running.has_ended(limit));
        !self.running.is_empty()
    }

    /// Asks all commands to end, and kills those that do not within two seconds.
    pub(crate) fn end(&mut self) {
        let marks: Vec<String> = self.running.iter().map(|running| running.mark.clone()).collect();
        for running in &self.running {
            running.signal(Signal::TERM);
        }
        self.limit = self.running.iter().map(|running| running.began.elapsed()).max().unwrap_or_default();
        self.limit += Duration::from_secs(2);
        while self.attend() {
            std::thread::sleep(STEP);
        }
        // A shell may end before the processes it started.
        for mark in marks {
            signal_marked(&mark, Signal::KILL);
        }
    }
}

impl RunningCommand {
    fn has_ended(&mut self, limit: Duration) -> bool {
        let took = self.began.elapsed();
        match self.child.try_wait() {
            Ok(None) if took < limit || self.is_killed => false,
            Ok(None) => {
                output::note(format_args!("the command for `{}` was killed at its time limit", self.event));
                self.signal(Signal::KILL);
                self.is_killed = true;
                false
            }
            Ok(Some(status)) => {
                let took = time(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
                output::note(format_args!("the command for `{}` ended after {took}: {status}", self.event));
                true
            }
            Err(error) => {
                output::note(format_args!("cannot wait for the command for `{}`: {error}", self.event));
                true
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // The process may have just ended.
        let _already_over = kill_process_group(Pid::from_child(&self.child), signal);
        signal_marked(&self.mark, signal);
    }
}

/// Signals all processes with a mark; repeats if they start others meanwhile.
fn signal_marked(mark: &str, signal: Signal) {
    let mut signalled = BTreeSet::new();
    for _round in 0..10 {
        let found: Vec<i32> = marked(mark).filter(|process| signalled.insert(*process)).collect();
        if found.is_empty() {
            return;
        }
        for process in found.into_iter().filter_map(Pid::from_raw) {
            let _already_over = kill_process(process, signal);
        }
    }
}

/// The processes of this host with a mark. Other users' environments cannot be read.
fn marked(mark: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(move |process: &i32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    })
}

const EXAMPLES: &str = "\
Every --interval seconds, reads what the processes of a job have recorded, without contacting them, and reports each \
verdict of `nccl-otf2 hang` once, until it clears: as a line on stdout, and as --on-hang and --write ask for. With \
--on-slow or --slow it reports collectives that have become slow in the same way.

  nccl-otf2 watch trace --on-hang 'mail -s \"job hangs\" me@example.org'
  nccl-otf2 watch trace --on-hang 'scancel \"$SLURM_JOB_ID\"' --hang-after 300
  nccl-otf2 watch trace --on-hang ./page.sh --on-clear ./all-clear.sh --write /run/nccl-otf2/
  nccl-otf2 watch trace --on-slow 'curl -d @- https://example.org/slow' --slow-factor 1.5
  nccl-otf2 watch trace --once --on-hang ./page.sh      from cron

A command is run by /bin/sh with the report as JSON on its stdin, which it may ignore: the report of `nccl-otf2 hang \
--json`, or of slow collectives (`--json-schema`). After --command-limit seconds the command and the \
processes it started are killed, except those of other users and those that cleared their environment; watching \
continues meanwhile. stderr says how the command ended. A verdict is new if its kind, or the first suspect's reason \
or process, has not been reported since the job was last clear. A restarted watch reports a present hang again.

Collectives of a communicator, function, size (by powers of two), timing and algorithm are slow if their median \
algorithm bandwidth in an interval is lower than the median of the last 60 intervals by --slow-factor, and lower than \
nine in ten of these, in --slow-intervals consecutive intervals. Intervals without such collectives do not count, and \
neither does the timing `enqueue`, which does not measure work. The report names the rank that others waited for.

watch waits for the job to begin, and runs until SIGTERM or SIGINT, or with --until-end until all processes have \
ended. Run it on a host of the job: only there can it tell which processes are running. It spends at most a tenth of \
the time reading: checks of long recordings are further apart than --interval. docs/MONITORING.md has a systemd unit \
and a Kubernetes sidecar.

Exit codes: 0 ended by a signal, or nothing found, 1 with --once or --until-end: something is found at the end, 2 \
wrong usage; with --once also nothing readable, or CANNOT TELL.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// Job directory
    #[arg(value_name = "DIR", value_parser = crate::archives::job_argument)]
    pub(crate) directory: PathBuf,

    /// Run this when the job hangs or is bound to hang (exit code 1 of `hang`)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) on_hang: Option<String>,

    /// Run this when collectives become slow
    #[arg(long, value_name = "COMMAND", conflicts_with = "once")]
    pub(crate) on_slow: Option<String>,

    /// Run this when the job no longer hangs, and when collectives are no longer slow
    #[arg(long, value_name = "COMMAND")]
    pub(crate) on_clear: Option<String>,

    /// Write each report to this file, replacing it, or to a new file in this directory
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) write: Option<PathBuf>,

    /// Interval between checks
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub(crate) interval: f64,

    /// Count a rank as hanging only if it has waited this long
    #[arg(long, visible_alias = "after", value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub(crate) hang_after: f64,

    /// Save the suspects' stacks, as `hang --stacks` does
    #[arg(long)]
    pub(crate) stacks: bool,

    /// Report slow collectives, with or without --on-slow
    #[arg(long, conflicts_with = "once")]
    pub(crate) slow: bool,

    /// Report a bandwidth that is lower than usual by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0)]
    pub(crate) slow_factor: f64,

    /// Report only what is slow in this many consecutive intervals
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) slow_intervals: usize,

    /// Number of intervals needed to know the usual bandwidth
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) slow_past: usize,

    /// Kill a command that runs longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    pub(crate) command_limit: f64,

    /// Exit when all processes of the job have ended
    #[arg(long, conflicts_with = "once")]
    pub(crate) until_end: bool,

    /// Check once, and exit when the commands have ended
    #[arg(long)]
    pub(crate) once: bool,

    /// Print reports as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Request {
    pub(crate) fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.interval.max(0.1))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Found,
    Cleared,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Hang,
    Slow,
}

/// Outputs for reports: stdout, a file, a command.
pub(crate) struct Outputs<'a> {
    request: &'a Request,
    pub(crate) commands: Commands,
}

impl<'a> Outputs<'a> {
    pub(crate) fn new(request: &'a Request) -> Self {
        Self { request, commands: Commands::new(Duration::from_secs_f64(request.command_limit)) }
    }

    /// Passes a report on. A failure is printed but does not end the watch: the next report may succeed.
    pub(crate) fn report(&mut self, change: Change, event: Event, report: &impl Serialize, text: &str) {
        let pretty = match serde_json::to_string_pretty(report).context("cannot write JSON") {
            Ok(json) => json + "\n",
            Err(error) => return output::error(&error),
        };
        let (name, command) = match (change, event) {
            (Change::Cleared, _) => ("clear", &self.request.on_clear),
            (_, Event::Hang) => ("hang", &self.request.on_hang),
            (_, Event::Slow) => ("slow", &self.request.on_slow),
        };
        let now = Timestamp::now();
        let printed = print_event(self.request.json, now, report, text);
        let written = self.request.write.as_ref().map_or(Ok(()), |path| {
            write(path, name, now, &pretty).with_context(|| format!("cannot write to {}", path.display()))
        });
        let started = command.as_ref().map_or(Ok(()), |command| self.commands.start(name, command, &pretty));
        for error in [printed, written, started].into_iter().filter_map(Result::err) {
            output::error(&error);
        }
    }
}

fn print_event(is_json: bool, now: Timestamp, report: &impl Serialize, text: &str) -> Result<()> {
    if is_json {
        return output::exact(&(serde_json::to_string(report).context("cannot write JSON")? + "\n"));
    }
    let mut line = Text::default();
    line.line(format_args!("{} {text}", now.round(Unit::Second).unwrap_or(now)));
    output::text(&line)
}

/// Writes a file atomically, so that it is always complete.
fn write(path: &Path, name: &str, now: Timestamp, text: &str) -> Result<()> {
    let (directory, file) = match path.parent() {
        _ if path.is_dir() => (path, path.join(format!("{name}-{}.json", now.as_nanosecond()))),
        Some(parent) if parent != Path::new("") => (parent, path.to_owned()),
        _ => (Path::new("."), path.to_owned()),
    };
    let mut temporary = NamedTempFile::new_in(directory)?;
    temporary.write_all(text.as_bytes())?;
    temporary.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use live::Window;

    use super::*;

    const LIMITS: Limits = Limits { factor: 2.0, intervals: 3, past: 5 };

    /// When the state changes, given bandwidths per interval; timings without a bandwidth do not count.
    fn changes(bandwidths: &[f64]) -> Vec<(usize, Change)> {
        let mut slow = Slow::new(LIMITS);
        let mut change = |(at, algbw): (usize, &f64)| {
            let timed = |algbw| Operation { window: Window { algbw, ..Window::default() }, ..Operation::default() };
            let operations = vec![timed(Some(*algbw)), timed(None)];
            let (change, _) = slow.change(Path::new("dir"), &Snapshot { operations, ..Snapshot::default() })?;
            Some((at, change))
        };
        bandwidths.iter().enumerate().filter_map(&mut change).collect()
    }

    #[test]
    fn slow_is_said_once_and_so_is_its_end() {
        let bandwidths = [1.0, 1.0, 1.1, 0.9, 1.0, 0.4, 0.4, 0.4, 0.4, 1.0, 0.4, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(changes(&bandwidths), [(7, Change::Found), (13, Change::Cleared)]);
    }

    #[test]
    fn what_varies_or_is_short_or_has_no_past_is_not_slow() {
        assert_eq!(changes(&[1.0, 0.3, 1.0, 0.3, 1.0, 0.3, 1.0, 0.3, 0.3, 0.3, 0.3, 0.3]), []);
        assert_eq!(changes(&[1.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.1, 1.0, 0.1, 0.1, 1.0]), []);
        assert_eq!(changes(&[1.0, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]), []);
    }
}
