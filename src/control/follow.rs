//! Follows the control file and the toggle signal. Runs on the maintenance thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::file::{self, Line};
use super::kinds::wanted_kinds;
use super::steps::STEPS;
use super::{filter, named, refused};
use crate::host::{logger, mask, signals};
use nccl_events::{Cause, StepSwitch, Switch, Wanted};
use nccl_events::{Kind, Table, event};
use settings::config::StepRanges;

pub const FILE: &str = "control";
/// How often the maintenance thread checks the file.
const INTERVAL: Duration = Duration::from_secs(1);
/// The size limit; a larger file is not a control file.
const MOST_BYTES: u64 = 64 << 10;

/// All kinds ever requested in addition to the job's first set: NCCL must keep calling for them.
static RAISED: AtomicU32 = AtomicU32::new(0);

/// The kinds that NCCL must call for in addition to the job's first set.
pub(crate) fn raised() -> u32 {
    RAISED.load(Ordering::Relaxed)
}

#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    asked: u32,
    known: u32,
    wanted: Wanted,
    steps: StepRanges,
    due: Instant,
    content: Vec<u8>,
    has_looked: bool,
    has_failed: bool,
}

impl Control {
    /// For the job in `out`, which was started to record `events` within `steps`. NCCL calls through `table`.
    pub(crate) fn new(out: &Path, events: u32, steps: StepRanges, table: Table) -> Self {
        RAISED.store(0, Ordering::Relaxed);
        let _of_no_recording = refused::take();
        let _of_no_recording = signals::TOGGLE.take();
        STEPS.begin(table, &steps);
        let control = Self {
            path: out.join(FILE),
            asked: events,
            known: event::kinds(table),
            wanted: Wanted { is_on: true, events },
            steps,
            due: Instant::now(),
            content: Vec::new(),
            has_looked: false,
            has_failed: false,
        };
        control.apply();
        control
    }

    /// Obeys the signal and, once a second, the file. Returns the switches for the caller to record.
    pub(crate) fn poll(&mut self) -> Vec<Switch> {
        let before = self.wanted;
        if signals::TOGGLE.take() {
            self.wanted.is_on = !before.is_on;
            return self.switch(before, Cause::Signal).into_iter().collect();
        }
        let now = Instant::now();
        if now < self.due {
            return Vec::new();
        }
        self.due = now + INTERVAL;
        let has_looked = std::mem::replace(&mut self.has_looked, true);
        let Some(content) = self.changed_content() else {
            return Vec::new();
        };
        let mut steps = self.steps.clone();
        for (number, line) in file::lines(&String::from_utf8_lossy(&content)) {
            match line {
                Ok(Line::Recording(is_on)) => self.wanted.is_on = is_on,
                Ok(Line::Events(events)) => self.wanted.events = events,
                Ok(Line::Steps(ranges)) => steps = heard(ranges, &format!("{}:{number}", self.path.display())),
                Err(reason) => {
                    let path = self.path.display();
                    logger::warn(&format!("{path}:{number}: {reason}; the line is ignored"));
                }
            }
        }
        self.content = content;
        let changed = (steps != self.steps).then(|| self.set_steps(steps));
        let switch = self.switch(before, Cause::File);
        // Before there are communicators, the job behaves as if it had been started with these ranges.
        switch.into_iter().chain(changed.filter(|_| has_looked)).collect()
    }

    /// The file's content, if it has changed. Removing the file changes nothing.
    fn changed_content(&mut self) -> Option<Vec<u8>> {
        match regular_files::read(&self.path, MOST_BYTES) {
            Ok(content) => (content != self.content).then_some(content),
            Err(error) => {
                let is_absent = error.kind() == io::ErrorKind::NotFound;
                if !is_absent && !std::mem::replace(&mut self.has_failed, true) {
                    let path = self.path.display();
                    logger::warn(&format!("{path}: {error}; recording continues as before"));
                }
                None
            }
        }
    }

    fn set_steps(&mut self, steps: StepRanges) -> Switch {
        self.steps = steps;
        STEPS.set_ranges(&self.steps);
        Switch {
            cause: Cause::Steps(StepSwitch {
                range: self.steps.ranges().first().copied(),
                started: 0,
                is_exact: false,
                is_named: false,
            }),
            before: self.wanted,
            after: self.wanted,
        }
    }

    /// Applies the wanted settings; returns the switch if they have changed.
    fn switch(&self, before: Wanted, cause: Cause) -> Option<Switch> {
        let after = self.wanted;
        self.apply();
        (before != after).then_some(Switch { cause, before, after })
    }

    fn apply(&self) {
        STEPS.set_events(self.wanted.events);
        filter::set(wanted_kinds(self.wanted, self.asked, mask::is_shared()));
        let counted = if self.steps.is_empty() { 0 } else { Kind::Coll.mask() | Kind::CollApi.mask() };
        self.raise(self.wanted.events | counted & self.known);
    }

    /// Makes NCCL call for more kinds. The mask never shrinks: from 2.28 on, NCCL stops the event of an earlier call
    /// again at every call that its mask leaves out.
    fn raise(&self, events: u32) {
        let before = RAISED.fetch_or(events, Ordering::Relaxed);
        if events & !(before | self.asked) != 0 {
            mask::set_mask((self.asked | before | events) & self.known);
        }
    }
}

/// The step ranges that `origin` set; none, with a warning, if the program's NVTX ranges do not reach this library.
pub(crate) fn heard(steps: StepRanges, origin: &str) -> StepRanges {
    let Some(name) = steps.name().filter(|_| !named::is_heard()) else {
        return steps;
    };
    logger::warn(&format!(
        "{origin} names the range \"{name}\", but the program's NVTX ranges are not recorded: NVTX_INJECTION64_PATH has to \
         be the path of this library, and NCCL_OTF2_NVTX auto or all (`nccl-otf2 run` sets both); all is recorded"
    ));
    StepRanges::default()
}
