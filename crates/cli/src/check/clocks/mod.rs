//! Clock offsets: what readers add to the times of a location's event file.
//!
//! An offset is that of one time; between two it is on their line, after the last one the line goes on, and before the
//! first libotf2 adds nothing. What is judged is the clock that they make: one that runs forward, spans the
//! events, and is the same wherever a clock is shared.

mod line;
mod statements;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::rc::Rc;

use analysis::Trace;
use otf2::{ClockOffset, LocationGroupRef, LocationRef};

use super::findings::Findings;
use super::rules::Rule;
use crate::archive::{is_merged, is_nccl};

use line::{MOST_PPM, corrected, is_same, is_too_fast, pieces};
use statements::Clocks;

/// The clock offsets of a location. Their times increase, libotf2 reads no others.
type Clock = Rc<[ClockOffset]>;

/// The clocks of all locations.
pub(super) struct ClockOffsets<'a> {
    trace: &'a Trace,
    /// Whether processes, hosts and statements are judged. Not in a merged archive: merging keeps them as they were.
    is_ours: bool,
    /// The file that was read last: those of the locations of a process are links to one. No clock: it cannot be judged
    /// further.
    file: Option<((u64, u64), Option<Clock>)>,
    current: Option<Current>,
    /// The clock of each process, by the first of its locations that has events.
    processes: BTreeMap<LocationGroupRef, (LocationRef, Clock)>,
}

/// A location while its events go by.
struct Current {
    location: LocationRef,
    clock: Clock,
    span: Option<(u64, u64)>,
}

impl<'a> ClockOffsets<'a> {
    pub(super) fn of(trace: &'a Trace) -> Self {
        Self {
            trace,
            is_ours: is_nccl(&trace.archive) && !is_merged(&trace.archive),
            file: None,
            current: None,
            processes: BTreeMap::new(),
        }
    }

    /// The events of this location follow.
    pub(super) fn next_location(&mut self, location: LocationRef, findings: &mut Findings) {
        self.settle(findings);
        self.current = self.read(location, findings).map(|clock| Current { location, clock, span: None });
    }

    /// Takes in the time of an event.
    pub(super) fn event(&mut self, time: u64) {
        if let Some(current) = &mut self.current {
            let first = current.span.map_or(time, |span| span.0);
            current.span = Some((first, time));
        }
    }

    /// No more events.
    pub(super) fn end(&mut self, findings: &mut Findings) {
        self.settle(findings);
        if self.is_ours {
            let processes = self.processes.iter();
            let clocks: Clocks<'_> = processes.map(|(process, (_, clock))| (*process, &**clock)).collect();
            statements::check(self.trace, &clocks, findings);
        }
    }

    /// The clock of a location, unless it is none. That a file cannot be read is found with its events.
    fn read(&mut self, location: LocationRef, findings: &mut Findings) -> Option<Clock> {
        let path = self.trace.archive.definition_file(location);
        let metadata = path.metadata().ok()?;
        let identity = (metadata.dev(), metadata.ino());
        if let Some((_, clock)) = self.file.as_ref().filter(|(file, _)| *file == identity) {
            return clock.clone();
        }
        let local = self.trace.archive.local_definitions(location).ok()?;
        let clock = self.judge(location, local.clock_offsets.into(), findings);
        self.file = Some((identity, clock.clone()));
        clock
    }

    fn judge(&self, location: LocationRef, clock: Clock, findings: &mut Findings) -> Option<Clock> {
        let mut find = |rule, time, message: String| {
            findings.at((self.trace, location), Some(time), rule, message);
        };
        if let [alone] = &*clock
            && alone.offset != 0
        {
            let message = format!("the only clock offset, {}: it has no effect", alone.offset);
            find(Rule::ClockForward, alone.time, message);
            return None;
        }
        let mut is_clock = true;
        for (from, to) in pieces(&clock) {
            if corrected(to) < corrected(from) {
                let message =
                    format!("the clock offsets {} and {} from {} on turn time back", from.offset, to.offset, from.time);
                find(Rule::ClockForward, to.time, message);
                is_clock = false;
            } else if self.is_ours && is_too_fast(from, to) {
                let message = format!(
                    "{} ns of drift are corrected in {} ns, more than {MOST_PPM} ppm",
                    i128::from(to.offset) - i128::from(from.offset),
                    to.time.abs_diff(from.time)
                );
                find(Rule::ClockDrift, to.time, message);
            }
        }
        is_clock.then_some(clock)
    }

    /// The current location has no more events.
    fn settle(&mut self, findings: &mut Findings) {
        let Some(current) = self.current.take().filter(|_| self.is_ours) else {
            return;
        };
        let Some((first, last)) = current.span else {
            return;
        };
        let location = current.location;
        let place = (self.trace, location);
        if let [begin, .., end] = &*current.clock {
            // What is before the first offset is not corrected, what is after the last goes on with its line.
            let (begin, end) = (corrected(begin), corrected(end));
            if i128::from(first) < begin || i128::from(last) > end {
                let message = format!("its events are from {first} to {last}, its clock offsets from {begin} to {end}");
                findings.at(place, None, Rule::ClockSpan, message);
            }
        }
        let process = self.trace.process(self.trace.group(location));
        let (of, clock) = self.processes.entry(process).or_insert_with(|| (location, Rc::clone(&current.clock)));
        if !is_same(clock, &current.clock) {
            let message = format!("its clock offsets are not those of location {} of the same process", of.get());
            findings.at(place, None, Rule::ClockShared, message);
        }
    }
}
