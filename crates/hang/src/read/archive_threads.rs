//! What the threads of an archive show: calls and their groups, launches, and the call and ranges that each is in.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::{NcclCall, OpenRange, Step, StepsTaken, ThreadActivity};
use crate::read::archive::Reading;
use analysis::{InstanceOf, RegionInfo};
use nccl_events::archive::RegionClass;
use nccl_events::collective::{Collective, Function, ends_communicator};
use nccl_events::ids::{ContextId, index_u32};
use nccl_events::range::{RangeField, RangeFields};
use nccl_events::{Kind, archive};
use otf2::{LocationGroupRef, LocationRef};

nccl_events::fields! {
    pub(super) struct CallFields {
        event: Event,
        parent: Parent,
        group: Group,
        comm: Comm,
        comm_id: CommId,
        rank: Rank,
        ranks: Ranks,
        peer: Peer,
        count: Count,
        datatype: Datatype,
        bytes: Bytes,
        root: Root,
        reduction: Reduction,
        stream: Stream,
        is_captured: Captured,
        is_unfinished: Unfinished,
        is_closed: Closed,
        split_color: SplitColor,
        number: RangeNumber,
        domain: RangeDomain,
    }
}

/// A call of a collective, a send or a receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called<'a> {
    pub(super) thread: u32,
    pub(super) function: Function,
    pub(super) start_ns: u64,
    pub(super) is_open: bool,
    /// Whether the interface reported it, not only NCCL's range.
    pub(super) is_reported: bool,
    pub(super) fields: CallFields<'a>,
}

/// The communicator rank that a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CalledFor {
    Member(u32, u32),
    /// NCCL's ranges name the communicator by its id: of two ranks of a process they do not say which.
    Id(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Launched {
    pub(super) start_ns: u64,
    pub(super) is_open: bool,
    pub(super) stream: Option<u64>,
}

/// A group of the program that had not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenGroup {
    /// The program had not called its end.
    Open,
    Ending,
}

/// What the threads of a process show.
#[derive(Debug, Default)]
pub(super) struct ProcessCalls<'a> {
    pub(super) inits: u64,
    pub(super) ends: u64,
    pub(super) calls: BTreeMap<CalledFor, Vec<Called<'a>>>,
    /// By id of the event.
    pub(super) launches: BTreeMap<u64, Launched>,
    /// The first launch of each group.
    pub(super) launches_of_groups: BTreeMap<u64, Launched>,
    pub(super) open_groups: BTreeMap<u64, OpenGroup>,
    /// On which thread and when operations were enqueued, by id of the event.
    pub(super) enqueued: BTreeMap<u64, (u32, u64)>,
    /// When communicators were ended, by NCCL's id and rank, and whether by `ncclCommAbort`.
    pub(super) ended: BTreeMap<(u64, u32), (u64, bool)>,
    pub(super) aborts_ns: Vec<u64>,
    /// When calls that make a communicator returned, and whether without one.
    made_ns: Vec<(u64, bool)>,
    pub(super) first_ns: Option<u64>,
    pub(super) last_ns: u64,
    /// The same without the program's own ranges.
    pub(super) last_nccl_ns: u64,
    pub(super) threads: BTreeMap<u32, ThreadCalls>,
}

/// What one thread is in.
#[derive(Debug, Default)]
pub(super) struct ThreadCalls {
    /// The communicator ranks that it called for.
    pub(super) members: BTreeSet<(u32, u32)>,
    pub(super) activity: ThreadActivity,
    pub(super) last_call_ns: u64,
    /// When it called the end of its group.
    ending_since_ns: Option<u64>,
}

impl<'a> Reading<'a> {
    /// The calls of each process.
    pub(super) fn calls(&self) -> otf2::Result<BTreeMap<LocationGroupRef, ProcessCalls<'a>>> {
        let kinds = [archive::LocationKind::ApiThread, archive::LocationKind::CallbackThread];
        let mut found: BTreeMap<LocationGroupRef, ProcessCalls<'a>> = BTreeMap::new();
        for (number, location) in self.trace.definitions.locations.keys().copied().enumerate() {
            if self.trace.location_kind(location).is_some_and(|kind| kinds.contains(&kind)) {
                let process = found.entry(self.trace.process(self.trace.group(location))).or_default();
                self.thread(location, index_u32(number), process)?;
            }
        }
        Ok(found)
    }

    fn thread(&self, location: LocationRef, thread: u32, process: &mut ProcessCalls<'a>) -> otf2::Result<()> {
        if !self.trace.has_events(location) {
            return Ok(());
        }
        self.trace.instances_with(location, |left: &InstanceOf<CallFields<'a>>| {
            let region = self.trace.region(left.region);
            let name = self.trace.function_name(left.region);
            let times = (self.ns(left.start), self.ns(left.end));
            process.instance(thread, (region, &name), times, &left.fields);
        })
    }
}

impl<'a> ProcessCalls<'a> {
    fn instance(
        &mut self,
        thread: u32,
        (region, name): (Option<RegionInfo<'_>>, &str),
        (start_ns, end_ns): (u64, u64),
        fields: &CallFields<'a>,
    ) {
        let is_open = fields.is_unfinished == Some(true);
        self.first_ns = Some(self.first_ns.map_or(start_ns, |first_ns| first_ns.min(start_ns)));
        let Some(region) = region else {
            return;
        };
        match (region.class, region.kind) {
            (RegionClass::User, _) if is_open => self.open_range(thread, name, start_ns, fields),
            (RegionClass::Enqueue, _) => {
                self.enqueued.extend(fields.event.map(|event| (event, (thread, start_ns))));
            }
            (RegionClass::Launch, Some(Kind::KernelLaunch)) => {
                let launched = Launched { start_ns, is_open, stream: fields.stream };
                self.launches.extend(fields.event.map(|event| (event, launched)));
                if let Some(group) = fields.parent {
                    let first = self.launches_of_groups.entry(group).or_insert(launched);
                    first.is_open |= is_open;
                }
            }
            (RegionClass::Api, kind) => self.call(thread, (kind, name), (start_ns, end_ns), fields),
            _ => {}
        }
        // What had not ended is shown up to the end of the recording, and is no sign of life there.
        let last_ns = if is_open { start_ns } else { end_ns };
        self.last_ns = self.last_ns.max(last_ns);
        if region.class != RegionClass::User {
            self.last_nccl_ns = self.last_nccl_ns.max(last_ns);
        }
    }

    fn call(
        &mut self,
        thread: u32,
        (kind, name): (Option<Kind>, &str),
        (start_ns, end_ns): (u64, u64),
        fields: &CallFields<'a>,
    ) {
        let is_open = fields.is_unfinished == Some(true);
        let of_thread = self.threads.entry(thread).or_default();
        of_thread.last_call_ns = of_thread.last_call_ns.max(start_ns);
        // Inside of its group, which is left after it.
        if name == "ncclGroupEnd" {
            of_thread.ending_since_ns = Some(start_ns);
        } else if kind == Some(Kind::GroupApi) && name != "ncclGroupStart" {
            let ending_since_ns = of_thread.ending_since_ns.take();
            let group = if ending_since_ns.is_some() { OpenGroup::Ending } else { OpenGroup::Open };
            self.open_groups.extend(fields.event.filter(|_| is_open).map(|event| (event, group)));
            let call = &mut of_thread.activity.call;
            if let Some(since_ns) =
                ending_since_ns.filter(|_| is_open && fields.is_closed != Some(true) && call.is_none())
            {
                *call = Some(NcclCall { name: "ncclGroupEnd".to_owned(), since_ns, fields: RangeFields::default() });
            }
            return;
        }
        // Init and finalize have the id of their context, and the name of the call around them, if known.
        if fields.event.is_some_and(|id| ContextId::from_raw(id).is_context()) {
            if ends_communicator(name) {
                self.ends += 1
            } else {
                self.inits += 1
            }
            if let (true, Some(id), Some(rank)) = (ends_communicator(name), fields.comm_id, fields.rank) {
                self.ended.insert((id, rank), (start_ns, name == "ncclCommAbort"));
            }
        }
        if name == "ncclCommAbort" {
            self.aborts_ns.push(start_ns);
        }
        let short = name.strip_prefix("nccl").unwrap_or(name);
        let function = Function::named(if short == "Bcast" { "Broadcast" } else { short });
        let is_reported = fields.event.is_some() && matches!(kind, Some(Kind::CollApi | Kind::P2pApi));
        if let Some(function) = function.filter(|function| is_reported || !is_derived(*function)) {
            of_thread.members.extend(fields.comm.zip(fields.rank));
            let of = match (fields.comm.zip(fields.rank), fields.comm_id) {
                (Some((comm, rank)), _) => Some(CalledFor::Member(comm, rank)),
                (None, Some(id)) if !is_reported && id != 0 => Some(CalledFor::Id(id)),
                _ => None,
            };
            let called = Called { thread, function, start_ns, is_open, is_reported, fields: *fields };
            if let Some(of) = of {
                self.calls.entry(of).or_default().push(called);
            }
        }
        let closed = fields.is_closed == Some(true);
        if is_open && !closed {
            let numbers = numbers(fields);
            of_thread.activity.call = Some(NcclCall { name: name.to_owned(), since_ns: start_ns, fields: numbers });
        } else if let Some(step) = Step::from_call(name) {
            let taken: &mut StepsTaken = of_thread.activity.taken.entry(step).or_default();
            taken.times += 1;
            taken.last_ns = taken.last_ns.max(end_ns);
            // A split without a color makes none.
            if step != Step::End && fields.split_color != Some(-1) {
                self.made_ns.push((end_ns, fields.event.is_none()));
            }
        }
    }

    /// When calls that make a communicator returned without one.
    pub(super) fn unmade_since_ns(&self) -> Vec<u64> {
        // One call may make several, which are then not shown as that call.
        let is_missing_some = self.made_ns.len() as u64 > self.inits;
        let mut without: Vec<u64> =
            self.made_ns.iter().filter(|(_, is_without)| *is_without && is_missing_some).map(|(ns, _)| *ns).collect();
        without.sort_unstable();
        without
    }

    /// Ranges are left from the inside out: an outer one comes later.
    fn open_range(&mut self, thread: u32, name: &str, since_ns: u64, fields: &CallFields<'_>) {
        let name = match (name.rsplit_once('#'), fields.number) {
            (Some((before, after)), Some(number)) => format!("{before}{number}{after}"),
            _ => name.to_owned(),
        };
        let domain = fields.domain.unwrap_or_default().to_owned();
        let ranges = &mut self.threads.entry(thread).or_default().activity.ranges;
        ranges.insert(0, OpenRange { domain, name, since_ns });
    }

    /// What a rank of the job is in: by the threads that called for it, and those that called for nobody.
    pub(super) fn activity(&self, members: &BTreeSet<(u32, u32)>, is_only_rank: bool) -> ThreadActivity {
        let serves = |thread: &&ThreadCalls| {
            thread.members.iter().any(|member| members.contains(member)) || is_only_rank && thread.members.is_empty()
        };
        let threads: Vec<&ThreadCalls> = self.threads.values().filter(serves).collect();
        let best = threads.iter().max_by_key(|thread| {
            let call = thread.activity.call.as_ref().map(|call| (call.step().is_some(), u64::MAX - call.since_ns));
            (call, !thread.activity.ranges.is_empty(), thread.last_call_ns)
        });
        let mut activity = best.map_or_else(ThreadActivity::default, |thread| thread.activity.clone());
        activity.taken = BTreeMap::new();
        for (step, taken) in threads.iter().flat_map(|thread| &thread.activity.taken) {
            let sum = activity.taken.entry(*step).or_default();
            sum.times += taken.times;
            sum.last_ns = sum.last_ns.max(taken.last_ns);
        }
        activity
    }
}

/// What NCCL turns into sends and receives is known by these.
const fn is_derived(function: Function) -> bool {
    matches!(
        function,
        Function::Collective(Collective::AlltoAll | Collective::Gather | Collective::Scatter) | Function::SendRecv
    )
}

fn numbers(fields: &CallFields<'_>) -> RangeFields {
    let mut numbers = RangeFields::default();
    let stated = [
        (RangeField::CommId, fields.comm_id),
        (RangeField::Rank, fields.rank.map(u64::from)),
        (RangeField::Ranks, fields.ranks.map(u64::from)),
        (RangeField::SplitColor, fields.split_color.map(|color| i64::from(color).cast_unsigned())),
    ];
    for (field, value) in stated {
        if let Some(value) = value {
            numbers.add(field, value);
        }
    }
    numbers
}
