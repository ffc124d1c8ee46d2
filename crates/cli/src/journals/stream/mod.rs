//! Journals as streams of callbacks (`docs/REFERENCE.md` §10): JSON Lines that `plugin-host replay` reads.
//!
//! Lines are not kept in memory: events are read one by one ([`events`]) and merged with the rest by time.

mod callbacks;
mod events;
mod minimal;
mod minimal_lines;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::vec;

use anyhow::Result;
use clap::ValueEnum;

use super::filter::Filter;
use super::process::Process;
use super::value::Json;
use callbacks::Line;
pub(crate) use events::{Callback, Event, Events, State};
use minimal::Minimal;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Schema {
    /// All that was recorded, as `nccl-otf2 print --json` prints it
    #[default]
    Callbacks,
    /// Those of TU Dresden's minimal profiler (version 5 of NCCL's interface), for tools that read them
    Minimal,
}

#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) written: u64,
    pub(crate) left_out: u64,
    /// For each process: stops of events that it lacks.
    pub(crate) orphan_stops: Vec<u64>,
}

/// Passes the lines of processes to `each`, in time order across processes, until it returns `false`.
pub(crate) fn lines(
    processes: &[Process],
    filter: &Filter,
    schema: Schema,
    mut each: impl FnMut(&[u8]) -> Result<bool>,
) -> Result<Count> {
    let mut count = Count::default();
    let mut streams: Vec<Stream<'_>> = processes.iter().map(|process| Stream::of(process, filter, schema)).collect();
    let mut due: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (index, stream) in streams.iter_mut().enumerate() {
        due.extend(stream.advance().map(|after_ns| Reverse((after_ns, index))));
    }
    let mut json = Json::default();
    'all: while let Some(Reverse((_, index))) = due.pop() {
        let Some(stream) = streams.get_mut(index) else { continue };
        for line in &stream.lines {
            if !stream.write(line, &mut json) {
                count.left_out += 1;
                continue;
            }
            count.written += 1;
            if !each(json.text())? {
                break 'all;
            }
        }
        due.extend(stream.advance().map(|after_ns| Reverse((after_ns, index))));
    }
    count.orphan_stops = streams.iter().map(|stream| stream.events.orphan_stops).collect();
    Ok(count)
}

struct Stream<'a> {
    process: &'a Process,
    minimal: Option<Minimal<'a>>,
    events: Events<'a>,
    event: Option<Line<'a>>,
    rest: vec::IntoIter<Line<'a>>,
    lines: Vec<Line<'a>>,
}

impl<'a> Stream<'a> {
    fn of(process: &'a Process, filter: &'a Filter, schema: Schema) -> Self {
        let comms = process.comms.iter().filter(|comm| comm.is_wanted).map(Line::Init);
        let rest = comms.chain(process.finalizes.iter().map(Line::Finalize)).chain(process.gpu.iter().map(Line::Gpu));
        let rest = rest.chain(process.ranges.iter().map(Line::Range));
        let mut rest: Vec<Line<'_>> = rest.collect();
        rest.sort_by_key(Line::written_ns);
        let mut events = Events::new(process, filter);
        Self {
            process,
            minimal: (schema == Schema::Minimal).then(|| Minimal::of(process)),
            event: events.next().map(Line::of),
            events,
            rest: rest.into_iter(),
            lines: Vec::new(),
        }
    }

    /// Advances to the next lines. Returns when they are written, in ns from the start.
    fn advance(&mut self) -> Option<u64> {
        self.lines.clear();
        let next = [self.event.as_ref(), self.rest.as_slice().first()];
        let ns = next.into_iter().flatten().map(Line::written_ns).min()?;
        let is_due = |line: &Line<'_>| line.written_ns() == ns;
        while self.rest.as_slice().first().is_some_and(is_due) {
            self.lines.extend(self.rest.next());
        }
        if ns == u64::MAX {
            // Unstopped events can be very many: take one at a time.
            let event = self.take_event();
            self.lines.extend(event);
            return Some(ns);
        }
        while self.event.as_ref().is_some_and(is_due) {
            let event = self.take_event();
            self.lines.extend(event);
        }
        self.lines.sort_by_key(Line::place);
        Some(ns.saturating_sub(self.process.begin_ns))
    }

    fn take_event(&mut self) -> Option<Line<'a>> {
        std::mem::replace(&mut self.event, self.events.next().map(Line::of))
    }

    /// Writes a line; `false` if the schema does not include it.
    fn write(&self, line: &Line<'_>, json: &mut Json) -> bool {
        match &self.minimal {
            Some(minimal) => minimal.write(line, json),
            None => {
                json.line(|json| line.write(self.process, json));
                true
            }
        }
    }
}
