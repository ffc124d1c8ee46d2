//! Controls what is recorded while the job runs: recording can be switched off and on, cut to fewer kinds of events,
//! and limited to step ranges (`docs/RECORDING.md`).
//!
//! A callback calls [`is_plain`], one relaxed load, and [`consider`] for the starts that are not plain. An unwanted
//! start gets no handle and is counted. The maintenance thread follows the control file and the toggle signal
//! ([`Control`]), and records every switch in the journal. The session reports when communicators begin and end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::control::steps::{STEPS, StepsOfThread, Verdict};
use crate::host::process;
use nccl_events::{Kind, Name, Start, Table, event};
use settings::config::StepRanges;

pub(crate) mod steps;

pub(crate) use self::take_refused_starts as take_refused;
pub(crate) use crate::control::steps::{Answer, LargestCommunicator};
pub use nccl_events::{Cause, EventSelection, StepSwitch, Switch};

/// The name of the control file.
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
    wanted: EventSelection,
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
        let _of_no_recording = take_refused_starts();
        let _of_no_recording = process::TOGGLE.take();
        STEPS.begin(table, &steps);
        let control = Self {
            path: out.join(FILE),
            asked: events,
            known: event::kinds(table),
            wanted: EventSelection { is_on: true, events },
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
        if process::TOGGLE.take() {
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
        for (number, line) in lines(&String::from_utf8_lossy(&content)) {
            match line {
                Ok(Line::Recording(is_on)) => self.wanted.is_on = is_on,
                Ok(Line::Events(events)) => self.wanted.events = events,
                Ok(Line::Steps(ranges)) => steps = usable_steps(ranges, &format!("{}:{number}", self.path.display())),
                Err(reason) => {
                    let path = self.path.display();
                    process::warn(&format!("{path}:{number}: {reason}; the line is ignored"));
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
                    process::warn(&format!("{path}: {error}; recording continues as before"));
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
    fn switch(&self, before: EventSelection, cause: Cause) -> Option<Switch> {
        let after = self.wanted;
        self.apply();
        (before != after).then_some(Switch { cause, before, after })
    }

    fn apply(&self) {
        STEPS.set_events(self.wanted.events);
        set_wanted_kinds(wanted_kinds(self.wanted, self.asked, process::is_mask_shared()));
        let counted = if self.steps.is_empty() { 0 } else { Kind::Coll.mask() | Kind::CollApi.mask() };
        self.raise(self.wanted.events | counted & self.known);
    }

    /// Makes NCCL call for more kinds. The mask never shrinks: from 2.28 on, NCCL stops the event of an earlier call
    /// again at every call that its mask leaves out.
    fn raise(&self, events: u32) {
        let before = RAISED.fetch_or(events, Ordering::Relaxed);
        if events & !(before | self.asked) != 0 {
            process::set_mask((self.asked | before | events) & self.known);
        }
    }
}

/// The step ranges that `origin` set; none, with a warning, if the program's NVTX ranges do not reach this library.
pub(crate) fn usable_steps(steps: StepRanges, origin: &str) -> StepRanges {
    let Some(name) = steps.name().filter(|_| !steps::has_ranges()) else {
        return steps;
    };
    process::warn(&format!(
        "{origin} names the range \"{name}\", but the program's NVTX ranges are not recorded: set \
        NVTX_INJECTION64_PATH to the path of this library and NCCL_OTF2_NVTX to auto or all (`nccl-otf2 run` does \
        both); everything is recorded"
    ));
    StepRanges::default()
}

/// All kinds. A set of kinds is a mask with a bit for the number of each [`Kind`].
pub(crate) const EVERY_KIND: u32 = u32::MAX;

/// The kinds to record. A job's initial set lets through what NCCL starts without being asked. A set that was changed
/// later does not, nor does a set that NCCL's mask unites with those of chained plugins.
pub(crate) const fn wanted_kinds(wanted: EventSelection, asked: u32, is_shared: bool) -> u32 {
    if !wanted.is_on {
        0
    } else if wanted.events == asked && !is_shared {
        EVERY_KIND
    } else {
        with_parents(wanted.events) | 1 << Kind::Unknown as u32
    }
}

/// Adds the kinds' parents: NCCL starts them too, and without them the children would have no place in the trace.
const fn with_parents(events: u32) -> u32 {
    let (mut all, mut before) = (events, 0);
    while all != before {
        before = all;
        let mut rest = Kind::ALL.as_slice();
        while let [kind, others @ ..] = rest {
            if before & kind.mask() != 0 {
                all |= parents(*kind);
            }
            rest = others;
        }
    }
    all
}

/// The parent kinds of a kind.
const fn parents(kind: Kind) -> u32 {
    const TASKS: u32 = Kind::Coll.mask() | Kind::P2p.mask();
    match kind {
        Kind::KernelPhase => Kind::KernelCh.mask(),
        Kind::NetPlugin => Kind::ProxyStep.mask(),
        Kind::ProxyStep => Kind::ProxyOp.mask(),
        Kind::KernelCh | Kind::ProxyOp => TASKS,
        Kind::CeSync | Kind::CeBatch => Kind::CeColl.mask(),
        Kind::Coll | Kind::CeColl => Kind::Group.mask() | Kind::GroupApi.mask() | Kind::CollApi.mask(),
        Kind::P2p => Kind::Group.mask() | Kind::GroupApi.mask() | Kind::P2pApi.mask(),
        Kind::CollApi | Kind::P2pApi | Kind::KernelLaunch => Kind::GroupApi.mask(),
        Kind::Group | Kind::GroupApi | Kind::ProxyCtrl | Kind::Unknown => 0,
    }
}

/// A line of the control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// `recording on`, `recording off`.
    Recording(bool),
    /// `events LIST`: NCCL's mask.
    Events(u32),
    /// `steps LIST`: step ranges, or `steps none`.
    Steps(StepRanges),
}

/// The lines with their numbers, from 1, without empty lines and comments (`#`).
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, Result<Line, String>)> {
    let numbered = text.lines().enumerate();
    numbered.filter_map(|(index, line)| {
        let text = line.split('#').next().unwrap_or("").trim();
        (!text.is_empty()).then(|| (index + 1, line_of(text)))
    })
}

fn line_of(text: &str) -> Result<Line, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match (word.to_ascii_lowercase().as_str(), rest.trim()) {
        ("recording", rest) if rest.eq_ignore_ascii_case("on") => Ok(Line::Recording(true)),
        ("recording", rest) if rest.eq_ignore_ascii_case("off") => Ok(Line::Recording(false)),
        ("recording", _) => Err(format!("\"{text}\" is not `recording on` or `recording off`")),
        ("events", "") => Err("`events` without a list".to_owned()),
        ("events", list) => settings::event_kinds(list).map(Line::Events),
        ("steps", list) => StepRanges::parse(list).map(Line::Steps),
        _ => Err(format!("\"{text}\" is not `recording on`, `recording off`, `events LIST` or `steps LIST`")),
    }
}

// Callbacks check at every start which kinds are recorded; the maintenance thread sets them.

/// The kinds that are recorded without further checks.
#[unsafe(link_section = ".data.hot")]
static PLAIN: AtomicU32 = AtomicU32::new(EVERY_KIND);
/// The wanted kinds; if there are step ranges, wanted only inside these.
static WANTED: AtomicU32 = AtomicU32::new(EVERY_KIND);

/// Whether starts of this kind are recorded without further checks.
#[inline]
pub(crate) fn is_plain(kind: Kind) -> bool {
    PLAIN.load(Ordering::Relaxed) & (1 << kind as u32) != 0
}

/// Decides on a start that is not [`is_plain`], on a thread with these named steps. Counts it if it is not recorded.
pub(crate) fn consider(event: &Start<Name<'_>>, thread: StepsOfThread) -> Verdict {
    let kind = event.body.kind();
    let is_wanted = WANTED.load(Ordering::Relaxed) & (1 << kind as u32) != 0;
    let verdict = STEPS.decide(event, is_wanted, thread);
    if matches!(verdict.answer, Answer::Refuse | Answer::StandIn) {
        count_refused_start(kind);
    }
    verdict
}

/// Sets the wanted kinds, and derives the kinds that need no further checks.
pub(crate) fn set_wanted_kinds(wanted: u32) {
    // Collectives are counted even if they are not recorded.
    let counted = 1 << STEPS.counted_kind() as u32;
    let plain = if STEPS.is_limited() { 0 } else { wanted & !counted };
    WANTED.store(wanted, Ordering::Relaxed);
    PLAIN.store(plain, Ordering::Relaxed);
}

/// Lets every start through: no recording is on, and starts are counted as late from now on.
pub(crate) fn let_all_starts_through() {
    PLAIN.store(EVERY_KIND, Ordering::Relaxed);
}

// While recording is off, many threads count unwanted starts at once. The threads spread over several lines of
// counters, so that they seldom wait for each other's cache lines.

const LINES: usize = 32;

#[repr(align(64))]
struct CacheLine([AtomicU64; Kind::COUNT]);

static COUNTERS: [CacheLine; LINES] = [const { CacheLine([const { AtomicU64::new(0) }; Kind::COUNT]) }; LINES];

pub(crate) fn count_refused_start(kind: Kind) {
    // Threads' addresses lie pages apart. A thread-local number would need memory.
    // SAFETY: no preconditions.
    let thread = unsafe { libc::pthread_self() };
    let line = usize::try_from(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59).unwrap_or(0) % LINES;
    let counter = COUNTERS.get(line).and_then(|line| line.0.get(kind as usize));
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counts since the last call; `None` if all are zero.
pub(crate) fn take_refused_starts() -> Option<[u64; Kind::COUNT]> {
    let mut counts = [0; Kind::COUNT];
    for CacheLine(line) in &COUNTERS {
        for (count, counter) in counts.iter_mut().zip(line) {
            // Usually a plain load is enough.
            if counter.load(Ordering::Relaxed) > 0 {
                *count += counter.swap(0, Ordering::Relaxed);
            }
        }
    }
    (counts != [0; Kind::COUNT]).then_some(counts)
}

#[cfg(test)]
mod tests {
    mod kinds {
        use crate::control::*;
        use nccl_events::{FULL, event_names};

        #[test]
        fn a_set_includes_the_parents_of_its_kinds() {
            let names = |mask| event_names(with_parents(mask)).join(",");
            assert_eq!(names(Kind::GroupApi.mask()), "GroupApi");
            assert_eq!(names(Kind::KernelLaunch.mask()), "GroupApi,KernelLaunch");
            assert_eq!(names(Kind::Coll.mask()), "Group,Coll,GroupApi,CollApi");
            assert_eq!(
                names(Kind::NetPlugin.mask()),
                "Group,Coll,P2p,ProxyOp,ProxyStep,NetPlugin,GroupApi,CollApi,P2pApi"
            );
            assert_eq!(names(FULL), event_names(FULL).join(","));
        }
    }

    mod file {
        use crate::control::*;

        #[test]
        fn lines_are_read_and_errors_explained() {
            let text = "recording off # for now\n\n# events none\nRecording ON\nevents light,-Coll\nrecording perhaps\nevents\nstop\nevents Col\nsteps 3-1\nsteps 7-9, 3\n";
            let read: Vec<_> = lines(text).collect();
            assert_eq!(read[0], (1, Ok(Line::Recording(false))));
            assert_eq!(read[1], (4, Ok(Line::Recording(true))));
            let light_without = settings::LIGHT & !Kind::Coll.mask();
            assert_eq!(read[2], (5, Ok(Line::Events(light_without))));
            let steps = StepRanges::parse("3,7-9").expect("two ranges");
            assert_eq!(read[8], (11, Ok(Line::Steps(steps))));
            let reasons: Vec<_> = read[3..8].iter().map(|(n, line)| (*n, line.clone().unwrap_err())).collect();
            assert_eq!(
                reasons,
                [
                    (6, "\"recording perhaps\" is not `recording on` or `recording off`".to_owned()),
                    (7, "`events` without a list".to_owned()),
                    (8, "\"stop\" is not `recording on`, `recording off`, `events LIST` or `steps LIST`".to_owned()),
                    (9, "Col is not a preset or event kind (nearest: Coll)".to_owned()),
                    (10, "\"3-1\" ends before it begins".to_owned()),
                ]
            );
        }
    }
}
