//! Writes the copy of a trace, in which each event keeps its text.

use std::collections::BTreeMap;
use std::path::Path;

use analysis::{Filter, Role};
use nccl_events::archive::LocationKind;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::matching::Matching;
use super::read::Foreign;
use super::stream::{self, Reader};
use crate::error::{Error, Result};
use crate::foreign;
use crate::kineto::job::{FIRST_OWN_PID, Job};
use crate::kineto::json::{Args, Events, Track, quoted};
use crate::kineto::locations::{add_track, track, tracks};
use crate::line::Line;
use crate::output::Output;
use crate::selection::Selection;
use crate::source::Source;

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::kineto) struct Written {
    pub(in crate::kineto) events: u64,
    /// NCCL kernels in the trace, and how many of them match the archive's.
    pub(in crate::kineto) kernels: u64,
    pub(in crate::kineto) matched: u64,
    /// Kernels that can be any of several of the archive's.
    pub(in crate::kineto) uncertain: u64,
    /// The archive's operations within the trace's time span that match none of its kernels.
    pub(in crate::kineto) operations: u64,
}

impl Foreign {
    pub(in crate::kineto) fn write(&self, job: &Job<'_>, out: &Path) -> Result<Written> {
        let rank = self.rank_in(job)?;
        let clock = self.clock(job, rank)?;
        let [from_ns, to_ns] = self.span_ns.map(|at_ns| u64::try_from(clock.at(at_ns)).unwrap_or(0));
        let mut matching = Matching::of(job, rank);
        let matched = matching.matched(self, &clock);
        let wanted = job.source.filter;
        let filter = Filter {
            from_ns: Some(wanted.from_ns.map_or(from_ns, |wanted_ns| wanted_ns.max(from_ns))),
            to_ns: Some(wanted.to_ns.map_or(to_ns, |wanted_ns| wanted_ns.min(to_ns))),
            ..wanted.clone()
        };
        let selection = Selection::of(Source { filter: &filter, ..job.source })?;
        let arguments = arguments(job, rank, &selection, &matched.pairs)?;
        let enriched = arguments.len() as u64;
        let mut writing = Writing {
            output: Output::create(out)?,
            trace: self,
            arguments,
            job,
            rank,
            times: clock.inverse().less(self.base_ns),
            selection: &selection,
            read: 0,
            events: 0,
            members: 0,
        };
        stream::read(&self.path, &mut writing)?;
        writing.output.append("\n}\n")?;
        let events = writing.read + writing.events;
        writing.output.finish()?;
        Ok(Written {
            events,
            kernels: self.kernels.len() as u64,
            matched: enriched,
            uncertain: matched.uncertain,
            operations: matching.unmatched(from_ns.into(), to_ns.into()),
        })
    }

    fn rank_in(&self, job: &Job<'_>) -> Result<u32> {
        let name = self.path.display();
        let found = (0..).zip(&job.ranks).find(|(_, number)| **number == self.rank).map(|(rank, _)| rank);
        let Some(rank) = found else {
            let count = job.ranks.len();
            let why = format!("{name} is of rank {}, but the archive has {count} ranks", self.rank);
            return Err(Error::Refused(why));
        };
        let process = job.process_id(job.process(rank));
        if let Some(own) = process.filter(|own| !self.processes.contains(own)) {
            let others: Vec<String> = self.processes.iter().map(u64::to_string).collect();
            let (rank, others) = (self.rank, others.join(", "));
            return Err(Error::Refused(format!(
                "{name} is of another run or host: its process is {others}, and rank {rank} of the archive was process \
                 {own}"
            )));
        }
        Ok(rank)
    }

    fn clock(&self, job: &Job<'_>, rank: u32) -> Result<Line> {
        let location = job.locations_of(rank).next().unwrap_or_default();
        let clock = foreign::clock(&job.source, location, &self.path, self.span_ns)?;
        foreign::refuse_apart(&job.source, &clock, &self.path, self.span_ns)?;
        Ok(clock)
    }
}

/// For kernels by index of their event, the arguments of the matching operations.
fn arguments(
    job: &Job<'_>,
    rank: u32,
    selection: &Selection<'_>,
    matched: &[(u64, u32)],
) -> Result<BTreeMap<u64, String>> {
    let trace = job.source.trace;
    let events: BTreeMap<u32, u64> =
        matched.iter().map(|(event, number)| (job.kernels.get(*number).operation, *event)).collect();
    let mut found = BTreeMap::new();
    let is_communicator = |it: &_| trace.location_kind(*it) == Some(LocationKind::Communicator);
    for location in job.locations_of(rank).filter(is_communicator).filter(|it| trace.has_events(*it)) {
        selection.slices(location, |slice| {
            let operation = job.row_of(slice).filter(|_| matches!(slice.role, Some(Role::Operation(_))));
            let Some((row, event)) = operation.and_then(|row| Some((row, events.get(&row)?))) else {
                return;
            };
            let mut args = Args::default();
            args.attributes(trace, &job.attributes, &slice.attributes);
            if let Some((comm, rank)) = trace.rank_of(location) {
                args.text("nccl.communicator", &trace.comm_name(comm));
                args.number("nccl.communicator_rank", rank);
            }
            let operations = job.kernels.of_operation(row).map_or(1, |it| job.kernels.get(it).operations);
            if operations > 1 {
                args.number("nccl.operations_in_kernel", operations);
            }
            job.add_waiting(row, &mut args);
            found.insert(*event, args.as_str().to_owned());
        })?;
    }
    Ok(found)
}

struct Writing<'a> {
    output: Output,
    trace: &'a Foreign,
    arguments: BTreeMap<u64, String>,
    job: &'a Job<'a>,
    rank: u32,
    times: Line,
    selection: &'a Selection<'a>,
    /// Number of events read from the trace, and of those added.
    read: u64,
    events: u64,
    members: u64,
}

impl Writing<'_> {
    fn begin_member(&mut self, name: &str) -> Result<()> {
        let before = if self.members == 0 { "{\n" } else { ",\n" };
        self.members += 1;
        self.output.append(format!("{before}  {}: ", quoted(name)))
    }

    /// Adds what the trace itself does not show, as a separate process.
    fn add_tracks(&mut self) -> Result<()> {
        let job = self.job;
        let pid = self.trace.largest_pid.max(FIRST_OWN_PID) + 1;
        let mut events = Events::new(&self.output, Some(&self.times));
        let name = format!("NCCL of rank {} (nccl-profiler-otf2)", self.trace.rank);
        events.name("process", Track { pid, tid: 0 }, &name, FIRST_OWN_PID);
        for location in tracks(job, self.rank) {
            let track = track(job, self.rank, location, pid);
            events.name("thread", track, &job.source.trace.location_name(location), track.tid);
            self.selection.slices(location, |slice| add_track(job, slice, track, &mut events))?;
        }
        self.events = events.finish()?;
        Ok(())
    }
}

impl Reader for Writing<'_> {
    fn member(&mut self, name: &str, value: &RawValue) -> Result<()> {
        self.begin_member(name)?;
        self.output.append(value.get())
    }

    fn begin_events(&mut self) -> Result<()> {
        self.begin_member("traceEvents")?;
        self.output.append("[\n")?;
        self.add_tracks()
    }

    fn event(&mut self, event: &RawValue) -> Result<()> {
        let more = self.arguments.get(&self.read);
        let comma = if self.read == 0 { "" } else { ",\n" };
        self.read += 1;
        self.output.append(comma)?;
        match more {
            None => self.output.append(event.get()),
            Some(more) => self.output.append(enriched(event.get(), more)),
        }
    }

    fn end_events(&mut self) -> Result<()> {
        self.output.append("\n]")
    }
}

/// An event with more arguments, inserted before the closing brace of its own.
fn enriched(event: &str, more: &str) -> String {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow, default)]
        args: Option<&'a RawValue>,
    }
    let args = serde_json::from_str::<Arguments<'_>>(event).ok().and_then(|event| event.args);
    let Some(args) = args.map(RawValue::get).filter(|args| args.ends_with('}')) else {
        let before = event.strip_suffix('}').unwrap_or(event).trim_end();
        return format!("{before}, \"args\": {{{more}}}}}");
    };
    let end = args.as_ptr().addr() - event.as_ptr().addr() + args.len() - 1;
    let is_empty = args[1..args.len() - 1].trim().is_empty();
    let comma = if is_empty || more.is_empty() { "" } else { ", " };
    format!("{}{comma}{more}{}", &event[..end].trim_end(), &event[end..])
}

#[cfg(test)]
mod tests {
    use super::enriched;

    #[test]
    fn what_was_there_stays_as_it_was() {
        let event = r#"{"name": "a}", "args": {"x": {"y": 1.50}, "z": "}" }, "ts": 1.230}"#;
        let wanted = r#"{"name": "a}", "args": {"x": {"y": 1.50}, "z": "}", "nccl.seq": 5}, "ts": 1.230}"#;
        assert_eq!(enriched(event, "\"nccl.seq\": 5"), wanted);
        assert_eq!(enriched(r#"{"args": {}}"#, "\"a\": 1"), r#"{"args": {"a": 1}}"#);
        assert_eq!(enriched(r#"{"ts": 1}"#, "\"a\": 1"), r#"{"ts": 1, "args": {"a": 1}}"#);
    }
}
