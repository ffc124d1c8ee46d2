//! A followed process, identified by its part.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use journal::clock::ClockPair;
use journal::follow::{Follower, Polled};
use journal::format::Record;
use journal::host::Life;
use journal::part::ProcessInfo;
use journal::part::{DONE, JOURNAL, part_name};
use journal::reader;

use crate::process::{OpenEvents, Recorder, Until, ticks_now};
use crate::snapshot::{Process, ProcessState, Rank};
use crate::sums::Sums;

#[derive(Debug)]
struct Reading {
    follower: Follower,
    /// `None` before the first record.
    events: Option<OpenEvents>,
    settled: Instant,
}

#[derive(Debug)]
pub(crate) struct Part {
    path: PathBuf,
    number: usize,
    info: ProcessInfo,
    reading: Option<Reading>,
    process: Process,
    ranks: Vec<Rank>,
}

impl Part {
    /// Follows the process of a part; an error if the part has no journal.
    pub(crate) fn open(path: &Path, number: usize, info: ProcessInfo) -> Result<Self, reader::Error> {
        let follower = Follower::open(&path.join(JOURNAL))?;
        let reading = Reading { follower, events: None, settled: Instant::now() };
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
        self.process.state = match self.info.life() {
            Life::Running => ProcessState::Running,
            Life::Stopped => ProcessState::Stopped,
            Life::Gone if self.path.join(DONE).exists() || !self.path.join(JOURNAL).exists() => ProcessState::Finished,
            Life::Gone => ProcessState::Gone,
            Life::Unknown => ProcessState::Unknown,
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
        if let Some(events) = &reading.events {
            process.behind_ns = polled.oldest_unread_ticks.map_or(0, |ticks| events.age_ns(ticks));
            process.late_events = events.late();
            process.last_record_ns = events.last_record_ns();
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
        if let Some(Reading { follower, events: Some(mut events), .. }) = self.reading.take() {
            events.settle(Until::End, sums, follower.symbols(), (self.number, &self.process.part));
            self.ranks = events.ranks(self.number, follower.symbols());
            self.process.late_events = events.late();
        }
        (self.process.behind_bytes, self.process.behind_ns) = (0, 0);
    }

    pub(crate) fn report(&self) -> (Process, Vec<Rank>) {
        let reading = self.reading.as_ref().and_then(|it| Some((it.events.as_ref()?, it.follower.symbols())));
        let ranks = match reading {
            Some((events, symbols)) => events.ranks(self.number, symbols),
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
    ) -> Result<Polled, reader::Error> {
        let Some(events) = &mut self.events else {
            let polled = self.follower.poll(&mut |_: Record| {}, 0)?;
            let tag = self.follower.process_tag();
            if tag != 0 {
                let recorder = Recorder {
                    tag,
                    pid: self.follower.process_id(),
                    tick_source: self.follower.tick_source(),
                    event_mask: info.event_mask,
                };
                self.events = Some(OpenEvents::new(recorder, Some(since), settle));
            }
            return Ok(polled);
        };
        // Everything committed by now is either read or reported as unread.
        let now = ticks_now(self.follower.tick_source());
        let polled = self.follower.poll(events, most_bytes)?;
        let symbols = self.follower.symbols();
        let now = polled.oldest_unread_ticks.into_iter().chain(now).min().unwrap_or(events.last());
        let until = Until::Ticks(now);
        if polled.behind_bytes == 0 && self.settled.elapsed() < settle / 4 {
            events.take_in(until, sums, symbols, owner);
        } else {
            self.settled = Instant::now();
            events.settle(until, sums, symbols, owner);
        }
        Ok(polled)
    }
}
