//! Clock offsets: the values that readers add to the times of a location's event file.
//!
//! Each offset applies at one timestamp. Between two timestamps readers interpolate, after the last one the line
//! continues, and before the first libotf2 adds nothing. The resulting clock must run forward, span the events, and be
//! the same wherever a clock is shared.

mod line;
mod statements;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::rc::Rc;

use analysis::{Trace, is_merged, is_nccl};
use otf2::{ClockOffset, LocationGroupRef, LocationRef};
use small_sort::Gather;

use crate::findings::Findings;
use crate::rules::Rule;
use line::{MOST_PPM, corrected, is_same, is_too_fast, pieces};
use statements::Clocks;

/// The clock offsets of a location. Their times increase: libotf2 reads no others.
type Clock = Rc<[ClockOffset]>;

pub(super) struct ClockOffsets<'a> {
    trace: &'a Trace,
    /// Whether processes, hosts and statements are checked; not in a merged archive, which keeps them unchanged.
    is_ours: bool,
    /// The file read last, which the locations of a process share. `None` for a clock with a fault.
    file: Option<((u64, u64), Option<Clock>)>,
    current: Option<Current>,
    /// The clock of each process, from the first of its locations that has events.
    processes: BTreeMap<LocationGroupRef, (LocationRef, Clock)>,
}

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

    pub(super) fn next_location(&mut self, location: LocationRef, findings: &mut Findings) {
        self.settle(findings);
        self.current = self.read(location, findings).map(|clock| Current { location, clock, span: None });
    }

    pub(super) fn event(&mut self, time: u64) {
        if let Some(current) = &mut self.current {
            current.span = Some((current.span.map_or(time, |span| span.0), time));
        }
    }

    pub(super) fn end(&mut self, findings: &mut Findings) {
        self.settle(findings);
        if self.is_ours {
            let clocks: Clocks<'_> = self.processes.iter().map(|(process, (_, clock))| (*process, &**clock)).gather();
            statements::check(self.trace, &clocks, findings);
        }
    }

    /// The clock of a location, if it is sound. An unreadable file is reported with its events.
    fn read(&mut self, location: LocationRef, findings: &mut Findings) -> Option<Clock> {
        let metadata = self.trace.archive.definition_file(location).metadata().ok()?;
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
            find(Rule::ClockForward, alone.time, format!("the only clock offset, {}: it has no effect", alone.offset));
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

    fn settle(&mut self, findings: &mut Findings) {
        let Some(Current { location, clock: own, span: Some((first, last)) }) =
            self.current.take().filter(|_| self.is_ours)
        else {
            return;
        };
        let place = (self.trace, location);
        if let [begin, .., end] = &*own {
            let (begin, end) = (corrected(begin), corrected(end));
            if i128::from(first) < begin || i128::from(last) > end {
                let message = format!("its events are from {first} to {last}, its clock offsets from {begin} to {end}");
                findings.at(place, None, Rule::ClockSpan, message);
            }
        }
        let process = self.trace.process(self.trace.group(location));
        let (of, clock) = self.processes.entry(process).or_insert_with(|| (location, Rc::clone(&own)));
        if !is_same(clock, &own) {
            let message = format!("its clock offsets are not those of location {} of the same process", of.get());
            findings.at(place, None, Rule::ClockShared, message);
        }
    }
}
