//! Follows the processes of this node that record into a directory.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::process::{FollowedProcess, Recorder};
use crate::snapshot::{JobLabels, Options, Process, ProcessState, Rank, Snapshot};
use crate::sums::Sums;
use clocks::running::ticks_now;
use journal::clock::{ClockPair, realtime_ns, select};
use journal::follow::{Follower, PollResult};
use journal::format::Record;
use journal::host;
use journal::part::{DONE, JOURNAL, PARTS, ProcessInfo, part_name, read_process};
use journal::reader::Error;
use model::job::{Evidence, RecordingState, is_blank};

/// Time between the two clock readings that give the length of a tick.
const CALIBRATION: Duration = Duration::from_millis(10);

/// Limit on the bytes read from a process before its operations enter the sums: open operations take memory.
const MOST_SHARE: u64 = 512 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub records: u64,
    pub bytes: u64,
    pub processes: usize,
    /// Whether there is more to read and this poll read some. Polling until this is false terminates.
    pub is_behind: bool,
}

#[derive(Debug)]
enum PartStatus {
    Followed,
    /// A snapshot of another part. It does not grow, so it is not followed.
    Snapshot,
    /// A process of another node.
    Elsewhere,
    Missed,
    /// The process has not recorded anything yet, and may never.
    Blank,
    /// Why the part cannot be followed (yet).
    Unreadable(String),
}

/// Follows the processes of this node that record into a directory, and sums up their records.
#[derive(Debug)]
pub struct Live {
    directory: PathBuf,
    options: Options,
    boot_id: String,
    since: ClockPair,
    found: BTreeMap<PathBuf, PartStatus>,
    parts: Vec<FollowedPart>,
    sums: Sums,
    scanned: Option<Instant>,
    turn: usize,
    /// `None` before the first snapshot, which covers everything.
    interval_began_ns: Option<u64>,
}

impl Live {
    /// Follows the processes that record into `directory`, which need not exist yet. Blocks for 10 ms.
    pub fn new(directory: &Path, options: Options) -> Self {
        select();
        let since = ClockPair::read();
        std::thread::sleep(CALIBRATION);
        Self {
            directory: directory.to_owned(),
            options,
            boot_id: host::boot_id(),
            since,
            found: BTreeMap::new(),
            parts: Vec::new(),
            sums: Sums::new(&options),
            scanned: None,
            turn: 0,
            interval_began_ns: None,
        }
    }

    /// Reads a bounded amount of the records since the last poll.
    pub fn poll(&mut self) -> Progress {
        if self.scanned.is_none_or(|scanned| scanned.elapsed() >= self.options.scan) {
            self.scan();
            self.scanned = Some(Instant::now());
        }
        let followed = self.parts.iter().filter(|part| part.is_followed()).count();
        let share = (self.options.poll_bytes / (followed as u64).max(1)).clamp(1, MOST_SHARE);
        let mut progress = Progress { processes: followed, ..Progress::default() };
        let count = self.parts.len();
        for offset in 0..count {
            let Some(part) = self.parts.get_mut((self.turn + offset) % count) else {
                continue;
            };
            let (records, bytes) = part.poll(share, (&mut self.sums, self.options.settle, self.since));
            progress.records += records;
            progress.bytes += bytes;
            // A part that cannot be read never catches up: polling until `is_behind` is false must not wait for it.
            progress.is_behind |= part.is_behind() && bytes > 0;
            if progress.bytes >= self.options.poll_bytes {
                progress.is_behind = true;
                self.turn = (self.turn + offset + 1) % count;
                break;
            }
        }
        progress
    }

    fn scan(&mut self) {
        self.parts.iter_mut().for_each(FollowedPart::update_state);
        let parts = self.directory.join(PARTS);
        let entries = match fs::read_dir(&parts) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                let why = format!("{}: {error}", parts.display());
                self.found.insert(parts, PartStatus::Unreadable(why));
                return;
            }
        };
        self.found.remove(&parts);
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        nccl_events::sort::sort(&mut paths);
        for path in paths {
            let is_open = matches!(self.found.get(&path), None | Some(PartStatus::Blank | PartStatus::Unreadable(_)));
            if is_open && path.is_dir() && !path.is_symlink() {
                let found = self.find(&path);
                self.found.insert(path, found);
            }
        }
    }

    fn find(&mut self, path: &Path) -> PartStatus {
        let (info, problem) = read_process(path);
        if !problem.is_empty() {
            // Check only if the part was blank before, because `is_blank` may have to read the whole journal.
            let was_blank = matches!(self.found.get(path), None | Some(PartStatus::Blank));
            return if was_blank && is_blank(path) {
                PartStatus::Blank
            } else {
                PartStatus::Unreadable(format!("{}: {problem}", path.display()))
            };
        }
        if info.snapshot_realtime_ns != 0 {
            return PartStatus::Snapshot;
        }
        if info.boot_id != self.boot_id {
            return PartStatus::Elsewhere;
        }
        let lives = info.life().is_there();
        match FollowedPart::open(path, self.parts.len(), info) {
            Ok(mut part) => {
                part.update_state();
                self.parts.push(part);
                PartStatus::Followed
            }
            // The process may be about to create its journal.
            Err(error) if lives && !path.join(DONE).exists() => PartStatus::Unreadable(error.to_string()),
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => PartStatus::Missed,
            Err(error) => PartStatus::Unreadable(error.to_string()),
        }
    }

    pub fn snapshot(&mut self) -> Snapshot {
        let at_ns = realtime_ns();
        let count = |is: fn(&PartStatus) -> bool| self.found.values().filter(|found| is(found)).count() as u64;
        let mut snapshot = Snapshot {
            at_ns,
            interval_ns: self.interval_began_ns.map_or(0, |began_ns| at_ns.saturating_sub(began_ns)),
            job: self.job(),
            processes_missed: count(|found| matches!(found, PartStatus::Missed)),
            processes_elsewhere: count(|found| matches!(found, PartStatus::Elsewhere)),
            ..Snapshot::default()
        };
        let unreadable = self.found.values().filter_map(|found| match found {
            PartStatus::Unreadable(why) => Some(why.clone()),
            _ => None,
        });
        snapshot.unreadable = unreadable.chain(self.parts.iter().filter_map(FollowedPart::why_unreadable)).collect();
        self.interval_began_ns = Some(at_ns);
        for part in &self.parts {
            let (process, ranks) = part.report();
            snapshot.processes.push(process);
            snapshot.ranks.extend(ranks);
        }
        self.sums.report(&mut snapshot);
        snapshot
    }

    /// The labels of the process that was found last.
    fn job(&self) -> JobLabels {
        let Some(info) = self.parts.last().map(FollowedPart::info) else {
            return JobLabels { host: host::host_name(), ..JobLabels::default() };
        };
        let environment = &info.environment;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        JobLabels {
            host: info.host.clone(),
            job: text(&environment.job),
            launcher: text(&environment.launcher),
            cluster: text(&environment.cluster),
        }
    }
}

#[derive(Debug)]
struct Reading {
    follower: Follower,
    /// `None` before the first record.
    process: Option<FollowedProcess>,
}

/// A followed process, identified by its part.
#[derive(Debug)]
pub(crate) struct FollowedPart {
    path: PathBuf,
    number: usize,
    info: ProcessInfo,
    reading: Option<Reading>,
    process: Process,
    ranks: Vec<Rank>,
}

impl FollowedPart {
    /// Follows the process of a part; an error if the part has no journal.
    pub(crate) fn open(path: &Path, number: usize, info: ProcessInfo) -> Result<Self, Error> {
        let follower = Follower::open(&path.join(JOURNAL))?;
        let reading = Reading { follower, process: None };
        let process = Process { part: part_name(path), pid: info.pid, ..Process::default() };
        Ok(Self { path: path.to_owned(), number, info, reading: Some(reading), process, ranks: Vec::new() })
    }

    pub(crate) const fn info(&self) -> &ProcessInfo {
        &self.info
    }

    pub(crate) const fn is_followed(&self) -> bool {
        self.reading.is_some()
    }

    /// The problem of a process of which nothing could be read.
    pub(crate) fn why_unreadable(&self) -> Option<String> {
        self.process.problem.clone().filter(|_| self.process.records == 0)
    }

    pub(crate) const fn is_behind(&self) -> bool {
        self.process.behind_bytes > 0
    }

    pub(crate) fn update_state(&mut self) {
        if self.reading.is_none() {
            return;
        }
        let process = self.reading.as_ref().and_then(|reading| reading.process.as_ref());
        let evidence = Evidence {
            host: self.info.life(),
            now_ns: realtime_ns(),
            last_record_ns: self.process.last_record_ns.unwrap_or(0),
            is_described: true,
            is_finalized: process.is_some_and(FollowedProcess::is_finalized),
            shows_end: true,
        };
        let is_written = || self.path.join(DONE).exists() || !self.path.join(JOURNAL).exists();
        self.process.state = match evidence.life() {
            RecordingState::Running => ProcessState::Running,
            RecordingState::Stopped => ProcessState::Stopped,
            RecordingState::Ended => ProcessState::Finished,
            _ if is_written() => ProcessState::Finished,
            RecordingState::Gone => ProcessState::Gone,
            RecordingState::Silent | RecordingState::Unknown => ProcessState::Unknown,
        };
    }

    /// Reads about `most_bytes`; returns the number of records and bytes.
    pub(crate) fn poll(
        &mut self,
        most_bytes: u64,
        (sums, settle, since): (&mut Sums, Duration, ClockPair),
    ) -> (u64, u64) {
        let Some(reading) = &mut self.reading else {
            return (0, 0);
        };
        let owner = (self.number, self.process.part.as_str());
        let polled = match reading.poll(most_bytes, &self.info, (&mut *sums, settle, since), owner) {
            Ok(polled) => polled,
            Err(error) => {
                self.process.problem = Some(error.to_string());
                self.end(sums);
                return (0, 0);
            }
        };
        let process = &mut self.process;
        process.records += polled.records;
        process.behind_bytes = polled.behind_bytes;
        process.discarded_bytes = polled.discarded.bytes;
        process.lost_events = polled.losses.total();
        process.damaged += polled.problems.len() as u64;
        process.damaged_bytes = polled.damaged_bytes;
        if let (None, Some(first)) = (&process.problem, polled.problems.first()) {
            process.problem = Some(first.to_string());
        }
        if let Some(followed) = &reading.process {
            process.behind_ns = polled.oldest_unread_ticks.map_or(0, |ticks| followed.age_ns(ticks));
            process.late_events = followed.late();
            process.last_record_ns = followed.last_record_ns();
        }
        let is_read = polled.behind_bytes == 0 && polled.records == 0;
        if is_read && (polled.is_removed || matches!(process.state, ProcessState::Finished | ProcessState::Gone)) {
            if polled.is_removed {
                process.state = ProcessState::Finished;
            }
            self.end(sums);
        }
        (polled.records, polled.bytes)
    }

    fn end(&mut self, sums: &mut Sums) {
        if let Some(Reading { follower, process: Some(mut process) }) = self.reading.take() {
            process.finish(sums, follower.symbols(), (self.number, &self.process.part));
            self.ranks = process.ranks(self.number, follower.symbols());
            self.process.late_events = process.late();
        }
        (self.process.behind_bytes, self.process.behind_ns) = (0, 0);
    }

    pub(crate) fn report(&self) -> (Process, Vec<Rank>) {
        let reading =
            self.reading.as_ref().and_then(|reading| Some((reading.process.as_ref()?, reading.follower.symbols())));
        let ranks = match reading {
            Some((process, symbols)) => process.ranks(self.number, symbols),
            None => self.ranks.clone(),
        };
        (self.process.clone(), ranks)
    }
}

impl Reading {
    fn poll(
        &mut self,
        most_bytes: u64,
        info: &ProcessInfo,
        (sums, settle, since): (&mut Sums, Duration, ClockPair),
        owner: (usize, &str),
    ) -> Result<PollResult, Error> {
        let Some(process) = &mut self.process else {
            let polled = self.follower.poll(&mut |_: Record| {}, 0)?;
            let tag = self.follower.process_tag();
            if tag != 0 {
                let recorder = Recorder {
                    tag,
                    pid: self.follower.process_id(),
                    tick_source: self.follower.tick_source(),
                    event_mask: info.event_mask,
                };
                self.process = Some(FollowedProcess::new(recorder, Some(since), settle));
            }
            return Ok(polled);
        };
        // Everything committed by now is either read or reported as unread.
        let now = ticks_now(self.follower.tick_source());
        let polled = self.follower.poll(process, most_bytes)?;
        let now = polled.oldest_unread_ticks.into_iter().chain(now).min().unwrap_or(process.last());
        process.settle(now, sums, self.follower.symbols(), owner);
        Ok(polled)
    }
}
