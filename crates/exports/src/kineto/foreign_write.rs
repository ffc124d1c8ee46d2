//! Matches the kernels of a torch.profiler trace with the archive's, and writes a copy of the trace that is enriched
//! with the archive's data.
//!
//! ```text
//!  foreign_read   the file, event by event, without keeping it in memory; first pass: rank, clock, processes, kernels
//!   └► Matching    pairs the trace's kernels with the archive's
//!       └► Written    second pass: copies every event; matched kernels get more arguments; the archive's tracks follow
//! ```
//!
//! Each event keeps its text.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::kineto::foreign_read::{Kernel, Reader};
use crate::kineto::job::{FIRST_OWN_PID, Job};
use crate::kineto::json::{Args, Events, Track, quoted};
use crate::kineto::locations::{Lanes, add_track, track, tracks};
use crate::kineto::{foreign_read, json};
use crate::source;
use crate::source::{Output, Selection, Source};
use crate::values::Line;
use analysis::{Filter, ProgramStep, Role};
use nccl_events::archive::LocationKind;
use nccl_events::collective::Function;
use nccl_events::ids::index;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use crate::kineto::foreign_read::Foreign;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteCounts {
    pub(crate) events: u64,
    /// NCCL kernels in the trace, and how many of them match the archive's.
    pub(crate) kernels: u64,
    pub(crate) matched: u64,
    /// Kernels that can be any of several of the archive's.
    pub(crate) uncertain: u64,
    /// The archive's operations within the trace's time span that match none of its kernels.
    pub(crate) operations: u64,
}

impl Foreign {
    pub(crate) fn write(&self, job: &Job<'_>, out: &Path) -> Result<WriteCounts> {
        let rank = self.rank_in(job)?;
        let clock = self.clock(job, rank)?;
        let [from_ns, to_ns] = self.span_ns.map(|at_ns| u64::try_from(clock.at(at_ns)).unwrap_or(0));
        let mut matching = Matching::new(job, rank);
        let matched = matching.matched(self, &clock);
        let wanted = job.source.filter;
        let filter = Filter {
            from_ns: Some(wanted.from_ns.map_or(from_ns, |wanted_ns| wanted_ns.max(from_ns))),
            to_ns: Some(wanted.to_ns.map_or(to_ns, |wanted_ns| wanted_ns.min(to_ns))),
            ..wanted.clone()
        };
        let selection = Selection::new(Source { filter: &filter, ..job.source })?;
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
        foreign_read::read(&self.path, &mut writing)?;
        writing.output.append("\n}\n")?;
        let events = writing.read + writing.events;
        writing.output.finish()?;
        Ok(WriteCounts {
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
                "{name} is of another run or host: its process is {others}, but rank {rank} of the archive was \
                process {own}"
            )));
        }
        Ok(rank)
    }

    fn clock(&self, job: &Job<'_>, rank: u32) -> Result<Line> {
        let location = job.locations_of(rank).next().unwrap_or_default();
        let clock = source::clock(&job.source, location, &self.path, self.span_ns)?;
        source::refuse_apart(&job.source, &clock, &self.path, self.span_ns)?;
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
    let is_communicator = |location: &_| trace.location_kind(*location) == Some(LocationKind::Communicator);
    for location in job.locations_of(rank).filter(is_communicator).filter(|location| trace.has_events(*location)) {
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
            let operations =
                job.kernels.kernel_of_operation(row).map_or(1, |kernel| job.kernels.get(kernel).operations);
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

    /// Adds the program's steps to a trace without steps: those of torch.profiler stay the only ones.
    fn add_steps(&self, pid: u64, events: &mut Events<'_>) {
        let is_wanted = |step: &&ProgramStep| self.selection.wants_time(step.start_ns, step.stop_ns);
        let mut steps = self.job.steps(self.rank).iter().filter(|_| !self.trace.has_steps).filter(is_wanted).peekable();
        let track = Track { pid, tid: 0 };
        if steps.peek().is_some() {
            events.name("thread", track, "steps of the program", 0);
        }
        steps.for_each(|step| events.step(self.job.source.trace, step, track));
    }

    /// Adds what the trace itself does not show, as a separate process.
    fn add_tracks(&mut self) -> Result<()> {
        let job = self.job;
        let pid = self.trace.largest_pid.max(FIRST_OWN_PID) + 1;
        let mut events = Events::new(&self.output, Some(&self.times));
        let name = format!("NCCL of rank {} (nccl-profiler-otf2)", self.trace.rank);
        events.name("process", Track { pid, tid: 0 }, &name, FIRST_OWN_PID);
        self.add_steps(pid, &mut events);
        for location in tracks(job, self.rank) {
            let track = track(job, self.rank, location, pid);
            let is_own = job.owners.get(&location) == Some(&self.rank);
            if is_own {
                events.name("thread", track, &job.source.trace.location_name(location), track.tid);
            }
            let mut lanes = Lanes::new(job, self.rank, location, pid);
            self.selection.slices(location, |slice| match slice.lane {
                Some(lane) if job.rank_of_lane(lane) == self.rank => lanes.add(job, (lane, slice), &mut events),
                None if is_own => add_track(job, slice, track, &mut events),
                _ => {}
            })?;
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

/// How far apart two recorders' times of one kernel can be, in addition to the host clock's error: recording takes time
/// around a kernel, and clocks are read one after the other.
const SLACK_NS: i128 = 50_000;
/// Maximum time from a launch to the enqueueing of its operation.
const ENQUEUED_NS: i128 = 1_000_000;

/// Matches the kernels of a foreign trace with the archive's.
pub(super) struct Matching<'a> {
    job: &'a Job<'a>,
    /// By member of a communicator: measured kernels sorted by start, the others by launch.
    members: Vec<Member>,
    is_taken: Vec<bool>,
    slack_ns: i128,
}

struct Member {
    size: usize,
    ranks: Option<Vec<u32>>,
    measured: Vec<u32>,
    enqueued: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct KernelMatches {
    /// Pairs of the index of a foreign event and the number of the archive's kernel.
    pub(super) pairs: Vec<(u64, u32)>,
    /// The number of the trace's kernels for which several pairs are possible.
    pub(super) uncertain: u64,
}

/// A kernel of the trace and one of the archive that can be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelPair {
    event: u64,
    number: u32,
    is_other_size: bool,
    /// Whether they ran at the same time.
    is_together: bool,
    distance_ns: i128,
}

impl KernelPair {
    /// Whether it is so much better than another one that this cannot be it.
    fn beats(&self, other: &Self) -> bool {
        let size = other.is_other_size.cmp(&self.is_other_size);
        let time = self.is_together.cmp(&other.is_together);
        match (size, time) {
            (Ordering::Equal, Ordering::Equal) => !self.is_together && 2 * self.distance_ns < other.distance_ns,
            (size, time) => size.is_ge() && time.is_ge(),
        }
    }
}

struct WantedKernel<'k> {
    kernel: &'k Kernel,
    start_ns: i128,
    stop_ns: i128,
    launched_ns: i128,
}

impl<'a> Matching<'a> {
    pub(super) fn new(job: &'a Job<'a>, rank: u32) -> Self {
        let kernels = &job.kernels;
        let job_rank = &job.tables.members.job_ranks[index(rank)];
        let slack_ns = SLACK_NS + i128::from(job_rank.clock_uncertainty_ns().unwrap_or(0));
        let members = job_rank.members.iter().map(|row| {
            let communicator = job.tables.members.row(*row).communicator;
            let numbers = kernels.kernels_of_member(*row).filter_map(|at| u32::try_from(at).ok());
            let (measured, mut enqueued): (Vec<u32>, Vec<u32>) =
                numbers.partition(|number| kernels.get(*number).is_measured);
            enqueued.sort_by_key(|number| kernels.get(*number).launched_ns);
            let ranks = job.members_of(communicator);
            Member { size: job.tables.members.size(communicator), ranks, measured, enqueued }
        });
        Self { job, members: members.collect(), is_taken: vec![false; kernels.all.len()], slack_ns }
    }

    /// Finds the archive's kernel for each of the trace's. One of which several can be it is left out.
    pub(super) fn matched(&mut self, foreign: &Foreign, clock: &Line) -> KernelMatches {
        let mut pairs: Vec<KernelPair> = Vec::new();
        for kernel in &foreign.kernels {
            let [start_ns, stop_ns] = kernel.times_ns.map(|at_ns| clock.at(at_ns));
            let launched_ns = kernel.launched_ns.map_or(start_ns, |at_ns| clock.at(at_ns));
            self.add_pairs(&WantedKernel { kernel, start_ns, stop_ns, launched_ns }, &mut pairs);
        }
        let mut by_number: BTreeMap<u32, Vec<KernelPair>> = BTreeMap::new();
        for pair in &pairs {
            by_number.entry(pair.number).or_default().push(*pair);
        }
        let mut found = KernelMatches::default();
        for kernel_pairs in pairs.chunk_by(|a, b| a.event == b.event) {
            // One that beats all others is the least.
            let best = kernel_pairs.iter().min_by_key(|pair| (pair.is_other_size, !pair.is_together, pair.distance_ns));
            let certain = best.filter(|best| {
                let others = kernel_pairs.iter().chain(by_number.get(&best.number).into_iter().flatten());
                others.filter(|other| other != best).all(|other| best.beats(other))
            });
            let taken = match certain {
                Some(pair) => {
                    found.pairs.push((pair.event, pair.number));
                    std::slice::from_ref(pair)
                }
                None => {
                    found.uncertain += 1;
                    kernel_pairs
                }
            };
            taken.iter().for_each(|pair| self.is_taken[index(pair.number)] = true);
        }
        found.pairs.sort_unstable();
        found
    }

    /// The number of a rank's operations within a time span that no kernel can be.
    pub(super) fn unmatched(&self, from_ns: i128, to_ns: i128) -> u64 {
        let measured = self.members.iter().flat_map(|member| &member.measured);
        let left =
            measured.filter(|number| !self.is_taken[index(**number)]).map(|kernel| self.job.kernels.get(*kernel));
        let within =
            left.filter(|kernel| i128::from(kernel.start_ns) >= from_ns && i128::from(kernel.stop_ns) <= to_ns);
        within.map(|kernel| u64::from(kernel.operations)).sum()
    }

    fn add_pairs(&self, wanted: &WantedKernel<'_>, pairs: &mut Vec<KernelPair>) {
        let kernels = &self.job.kernels;
        for member in self.members.iter().filter(|member| member.can_be(wanted.kernel)) {
            let begun = |kernel: &u32| i128::from(kernels.get(*kernel).start_ns) <= wanted.stop_ns + self.slack_ns;
            let running = |kernel: &&u32| i128::from(kernels.get(**kernel).stop_ns) + self.slack_ns >= wanted.start_ns;
            let measured = member.measured[..member.measured.partition_point(begun)].iter().rev().take_while(running);
            let launch = |kernel: &u32| i128::from(kernels.get(*kernel).launched_ns.unwrap_or(0));
            let before = member.enqueued.partition_point(|kernel| launch(kernel) < wanted.launched_ns - ENQUEUED_NS);
            let near = |kernel: &&u32| launch(kernel) <= wanted.launched_ns + ENQUEUED_NS;
            let enqueued = member.enqueued[before..].iter().take_while(near);
            for number in measured.chain(enqueued).copied() {
                let Some(is_other_size) = self.differs(number, wanted.kernel) else {
                    continue;
                };
                let (distance_ns, is_together) = self.distance(number, wanted);
                pairs.push(KernelPair { event: wanted.kernel.event, number, is_other_size, is_together, distance_ns });
            }
        }
    }

    /// How far apart they are, and whether most of the shorter one is within the other.
    fn distance(&self, number: u32, wanted: &WantedKernel<'_>) -> (i128, bool) {
        let kernel = self.job.kernels.get(number);
        if !kernel.is_measured {
            return ((i128::from(kernel.launched_ns.unwrap_or(0)) - wanted.launched_ns).abs(), false);
        }
        let (start_ns, stop_ns) = (i128::from(kernel.start_ns), i128::from(kernel.stop_ns));
        let common_ns = stop_ns.min(wanted.stop_ns) - start_ns.max(wanted.start_ns) + 1;
        let shorter_ns = (stop_ns - start_ns).min(wanted.stop_ns - wanted.start_ns) + 1;
        ((start_ns - wanted.start_ns).abs() + (stop_ns - wanted.stop_ns).abs(), 2 * common_ns > shorter_ns)
    }

    /// Whether the size differs; `None` if the function differs.
    fn differs(&self, number: u32, wanted: &Kernel) -> Option<bool> {
        let kernel = self.job.kernels.get(number);
        let operation = self.job.tables.operations.row(index(kernel.operation));
        let name = self.job.source.trace.function_name(operation.function);
        let is_other = wanted.family.is_some() && json::family(&name) != wanted.family;
        // A kernel of several functions is named after any one of them.
        if is_other && kernel.operations == 1 {
            return None;
        }
        let member = self.job.tables.members.row(kernel.member);
        let size = self.job.tables.members.size(member.communicator) as u64;
        let (bytes, is_root) = (operation.bytes, operation.partner == member.rank);
        let own =
            Function::from_region(&name).map_or((bytes, bytes), |function| function.elements(bytes, size, is_root));
        let is_size = wanted.bytes.is_none_or(|bytes| kernel.operations > 1 || bytes == [own.0, own.1]);
        Some(is_other || !is_size)
    }
}

impl Member {
    fn can_be(&self, wanted: &Kernel) -> bool {
        let is_size = wanted.group_size.is_none_or(|size| usize::try_from(size) == Ok(self.size));
        let are_ranks = match &self.ranks {
            Some(ranks) if !wanted.ranks.is_empty() => ranks.starts_with(&wanted.ranks),
            _ => true,
        };
        is_size && are_ranks
    }
}

#[cfg(test)]
mod tests {
    mod write {
        use crate::kineto::foreign_write::enriched;

        #[test]
        fn what_was_there_stays_as_it_was() {
            let event = r#"{"name": "a}", "args": {"x": {"y": 1.50}, "z": "}" }, "ts": 1.230}"#;
            let wanted = r#"{"name": "a}", "args": {"x": {"y": 1.50}, "z": "}", "nccl.seq": 5}, "ts": 1.230}"#;
            assert_eq!(enriched(event, "\"nccl.seq\": 5"), wanted);
            assert_eq!(enriched(r#"{"args": {}}"#, "\"a\": 1"), r#"{"args": {"a": 1}}"#);
            assert_eq!(enriched(r#"{"ts": 1}"#, "\"a\": 1"), r#"{"ts": 1, "args": {"a": 1}}"#);
        }
    }

    mod matching {
        use crate::kineto::foreign_write::KernelPair;

        #[test]
        fn ambiguous_kernels_are_not_matched() {
            let pair = |is_other_size, is_together, distance_ns| KernelPair {
                event: 0,
                number: 0,
                is_other_size,
                is_together,
                distance_ns,
            };
            for (a, b, wanted) in [
                (pair(false, true, 900), pair(false, false, 10_000), true),
                (pair(false, true, 900), pair(true, true, 100), true),
                (pair(true, true, 900), pair(false, false, 10_000), false),
                (pair(false, true, 10), pair(false, true, 10_000), false),
                (pair(false, false, 4_000), pair(false, false, 9_000), true),
                (pair(false, false, 4_000), pair(false, false, 7_000), false),
            ] {
                assert_eq!(a.beats(&b), wanted, "{a:?} {b:?}");
                assert!(!b.beats(&a), "{b:?} {a:?}");
            }
        }
    }
}
