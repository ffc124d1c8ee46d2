//! Builds a [`Job`] from an archive whose journals are removed: from its operations, calls and properties.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::job::{
    Actor, Call, Comm, Job, Message, OpenCall, Place, Positions, Process, Progress as Reached, Rank, Signature, Stage,
    Tail,
};
use crate::read::align::align;
use crate::read::part::Limitations;
use analysis::read::{Member, Members};
use analysis::{Clock, Instance, Role, Trace, is_nccl, stated, try_in_parallel};
use model::job::RecordingState;
use nccl_events::archive::{LocationKind, RegionClass, Timing};
use nccl_events::collective::{Function, ends_communicator};
use nccl_events::ids::{ContextId, EventId};
use nccl_events::schema::definition::{ClockAnchors, LauncherRank, ProcessId};
use nccl_events::{Kind, Progress};
use otf2::{CommRef, LocationGroupRef, LocationRef};

pub(crate) fn job(trace: &Trace, progress: &dyn Progress) -> Result<Job, Error> {
    if !is_nccl(&trace.archive) {
        return Err(Error::NotNccl(trace.anchor.clone()));
    }
    let members = Members::from_trace(trace);
    let doubts = Limitations::of(trace);
    let reading = Reading { trace, clock: Clock::from_trace(trace), start_ns: trace.start_ns().unwrap_or(0) };
    progress.begin("operations", members.all.len() as u64);
    let ranks = try_in_parallel(&members.all, |member| {
        let rank = reading.rank(member.location);
        progress.step();
        rank
    });
    let ranks: Vec<FoundRank> = ranks?;
    progress.end();
    let mut processes = reading.processes(&doubts)?;
    for (member, found) in members.all.iter().zip(&ranks) {
        processes.add(&members, member, found);
    }
    let mut job = Job { is_archive: true, ..Job::default() };
    job.comms = members.communicators.iter().map(|comm| reading.comm(*comm)).collect();
    for (member, FoundRank { mut rank, .. }) in members.all.iter().zip(ranks) {
        // A rank without a process is left out rather than assigned to another process.
        let Some(number) = processes.number(&members, member) else {
            continue;
        };
        rank.actor = Actor { process: number, gpu: member.job_rank };
        rank.finalized = processes.all.get(number).is_some_and(|process| process.state == RecordingState::Ended);
        if doubts.is_flight {
            rank.calls.positions = Positions::Unknown;
            rank.replays.positions = Positions::Unknown;
        }
        rank.open_calls = processes.open_calls(number, member.job_rank);
        let comm = usize::try_from(member.communicator).ok().and_then(|at| job.comms.get_mut(at));
        if let Some(comm) = comm {
            comm.ranks.insert(member.rank, rank);
        }
    }
    job.comms.retain(|comm| !comm.ranks.is_empty());
    job.comms.iter_mut().for_each(align);
    job.processes = processes.all;
    job.number();
    job.now_ns = job.processes.iter().map(|process| process.until_ns).max().unwrap_or(reading.start_ns);
    (job.missing, job.signs, job.open_below) = (doubts.missing, doubts.signs, doubts.open_below);
    Ok(job)
}

/// The archive being read. Times become CLOCK_REALTIME ns.
struct Reading<'a> {
    trace: &'a Trace,
    clock: Clock,
    start_ns: u64,
}

#[derive(Default)]
struct Processes {
    all: Vec<Process>,
    numbers: BTreeMap<LocationGroupRef, usize>,
    /// By process: calls that have not returned, with the slots of their threads.
    open_calls: Vec<Vec<(Option<u16>, OpenCall)>>,
    /// By process: ranks of the job by slot of the threads that called their operations; `None` has all ranks.
    callers: BTreeMap<usize, BTreeMap<Option<u16>, BTreeSet<u32>>>,
}

impl Processes {
    fn number(&self, members: &Members, member: &Member) -> Option<usize> {
        let of_job = members.job_ranks.get(usize::try_from(member.job_rank).ok()?)?;
        self.numbers.get(&of_job.process).copied()
    }

    fn add(&mut self, members: &Members, member: &Member, found: &FoundRank) {
        let Some(number) = self.number(members, member) else {
            return;
        };
        if let Some(process) = self.all.get_mut(number) {
            process.until_ns = process.until_ns.max(found.last_ns);
        }
        let callers = self.callers.entry(number).or_default();
        for slot in found.slots.iter().map(|slot| Some(*slot)).chain([None]) {
            callers.entry(slot).or_default().insert(member.job_rank);
        }
    }

    /// The unreturned calls of a rank's process that may belong to the rank.
    fn open_calls(&self, process: usize, job_rank: u32) -> Vec<OpenCall> {
        let callers = self.callers.get(&process);
        let all = callers.and_then(|callers| callers.get(&None));
        let calls = self.open_calls.get(process).into_iter().flatten().filter_map(|(slot, call)| {
            let ranks = slot.and_then(|slot| callers?.get(&Some(slot))).or(all)?;
            let whose = if ranks.len() > 1 { " (a thread of its process; of which rank is not known)" } else { "" };
            ranks.contains(&job_rank).then_some(OpenCall { what: format!("{}{whose}", call.what), ..call.clone() })
        });
        calls.collect()
    }
}

struct FoundRank {
    rank: Rank,
    last_ns: u64,
    /// The slots of the threads that called the rank's operations.
    slots: BTreeSet<u16>,
}

#[derive(Default)]
struct Calls {
    inits: u64,
    destroys: u64,
    open: Vec<(Option<u16>, OpenCall)>,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl<'a> Reading<'a> {
    fn ns(&self, time: u64) -> u64 {
        self.start_ns.saturating_add(self.clock.ns(time))
    }

    fn comm(&self, comm: CommRef) -> Comm {
        // A communicator has no more than `MOST_RANKS`.
        let size = u32::try_from(self.trace.members(comm).len()).unwrap_or(u32::MAX);
        let id = self.trace.comm_id(comm).unwrap_or(0);
        Comm { name: self.trace.comm_name(comm), id, size, knows_size: true, ..Comm::default() }
    }

    /// Calls `each` for every region instance of some locations, one location after the other.
    fn instances(&self, locations: &[LocationRef], mut each: impl FnMut(&Instance<'a>)) -> otf2::Result<()> {
        for location in locations.iter().filter(|location| self.trace.has_events(**location)) {
            self.trace.instances(*location, &mut each)?;
        }
        Ok(())
    }

    fn rank(&self, location: LocationRef) -> otf2::Result<FoundRank> {
        let mut found: Vec<TimedOperation> = Vec::new();
        let (mut last_ns, mut slots) = (0, BTreeSet::new());
        self.instances(&[location], |instance| {
            last_ns = last_ns.max(self.ns(instance.end));
            if let Some(Role::Operation(kind)) = instance.role {
                let is_replay = instance.fields.replay.is_some();
                slots.extend(instance.fields.parent.map(|parent| EventId::from_raw(parent).slot()));
                let operation = self.operation(kind, instance);
                found.extend(operation.map(|operation| (self.ns(instance.start), is_replay, operation)));
            }
        })?;
        found.sort_by_key(|(start_ns, ..)| *start_ns);
        ran_before(&mut found);
        let (mut rank, mut calls, mut replays) = (Rank::default(), Vec::new(), Vec::new());
        for (_, is_replay, operation) in found {
            match operation {
                Operation::Collective(call) if is_replay => replays.push(call),
                Operation::Collective(call) => calls.push(call),
                // Messages captured into a graph cannot be counted.
                Operation::Message(_) if is_replay => {}
                Operation::Message(mut message) => {
                    let number = rank.message_counts.entry((message.peer, message.is_send)).or_default();
                    message.number = std::mem::replace(number, *number + 1);
                    if !message.progress.stage.is_over() {
                        rank.messages.push(message);
                    }
                }
            }
        }
        (rank.calls, rank.replays) = (Tail::from_calls(calls), Tail::from_calls(replays));
        Ok(FoundRank { rank, last_ns, slots })
    }

    fn operation(&self, kind: Kind, instance: &Instance<'a>) -> Option<Operation> {
        let fields = &instance.fields;
        let stage = stage(fields.is_unfinished == Some(true), fields.timing);
        let progress = Reached { stage, began: stage >= Stage::Running, ..Reached::default() };
        let entered_ns = self.ns(instance.start);
        // The names of copy-engine collectives have a second word.
        let name = self.trace.region(instance.region)?.name.split(' ').next()?;
        let func = name.strip_prefix("nccl").unwrap_or(name);
        let (count, datatype) = (fields.count.unwrap_or(0), fields.datatype.unwrap_or_default());
        match kind {
            // Only the root has what the archive makes of sends and receives with a root. Once over, it holds nobody
            // up.
            Kind::Coll if fields.event.is_none() && fields.root.is_some() && stage.is_over() => None,
            Kind::Coll | Kind::CeColl => Some(Operation::Collective(Call {
                what: Signature {
                    func: func.into(),
                    count,
                    datatype: datatype.into(),
                    root: fields.root.and_then(|root| i32::try_from(root).ok()),
                    ..Signature::default()
                },
                from_api: false,
                sequence: fields.sequence,
                by_copy_engine: kind == Kind::CeColl,
                entered_ns,
                place: Place::default(),
                progress,
            })),
            Kind::P2p => Some(Operation::Message(Message {
                peer: fields.peer?,
                is_send: Function::named(func)?.is_send()?,
                number: 0,
                count,
                datatype: datatype.into(),
                bytes: None,
                entered_ns,
                place: Place::default(),
                progress,
            })),
            _ => None,
        }
    }

    fn processes(&self, doubts: &Limitations) -> otf2::Result<Processes> {
        let mut calls = self.calls()?;
        let mut found = Processes::default();
        for group in self.trace.processes() {
            let mut calls = calls.remove(&group).unwrap_or_default();
            nccl_events::sort::sort_by_key(&mut calls.open, |(_, call)| call.since_ns);
            found.numbers.insert(group, found.all.len());
            found.all.push(self.process(group, &calls, doubts));
            found.open_calls.push(calls.open);
        }
        Ok(found)
    }

    fn process(&self, group: LocationGroupRef, calls: &Calls, doubts: &Limitations) -> Process {
        let definitions = &self.trace.definitions;
        let properties = definitions.location_groups.get(&group).map_or(&[][..], |group| &group.properties);
        let number = |number: u64| u32::try_from(number).ok();
        let anchors = stated(definitions, properties, ClockAnchors);
        // The plugin reads the clocks once a second: the last reading shows how long the process lived.
        let last_reading_ns = anchors.and_then(|anchors| anchors.last().map(|last| last.realtime_ns)).unwrap_or(0);
        let is_ended = calls.inits > 0 && calls.inits == calls.destroys;
        Process {
            part: self.trace.group_name(group).to_owned(),
            host: self.trace.host(group).and_then(|host| self.trace.node_name(host)).unwrap_or_default().to_owned(),
            pid: stated(definitions, properties, ProcessId).and_then(number).unwrap_or(0),
            launcher_rank: stated(definitions, properties, LauncherRank).and_then(number),
            state: if is_ended { RecordingState::Ended } else { RecordingState::Unknown },
            until_ns: last_reading_ns.max(calls.last_ns),
            last_record_ns: last_reading_ns.max(calls.last_ns),
            last_event_ns: calls.last_ns,
            event_mask: Some(doubts.event_mask),
            is_whole: doubts.is_whole,
            has_clock: last_reading_ns > 0,
            kept_since_ns: calls.first_ns.filter(|_| doubts.is_flight),
            ..Process::default()
        }
    }

    fn calls(&self) -> otf2::Result<BTreeMap<LocationGroupRef, Calls>> {
        let kinds = [LocationKind::ApiThread, LocationKind::CallbackThread];
        let locations = self.trace.definitions.locations.keys().copied();
        let threads =
            locations.filter(|location| self.trace.location_kind(*location).is_some_and(|kind| kinds.contains(&kind)));
        let mut found: BTreeMap<LocationGroupRef, Calls> = BTreeMap::new();
        for thread in threads {
            let calls = found.entry(self.trace.process(self.trace.group(thread))).or_default();
            self.instances(&[thread], |instance| {
                let region = self.trace.region(instance.region);
                let name =
                    region.map_or_else(|| self.trace.region_name(instance.region), |region| region.name.to_owned());
                let is_call = region.is_some_and(|region| region.class == RegionClass::Api);
                let is_unfinished = instance.fields.is_unfinished == Some(true);
                let (start_ns, end_ns) = (self.ns(instance.start), self.ns(instance.end));
                calls.first_ns = Some(calls.first_ns.map_or(start_ns, |first_ns| first_ns.min(start_ns)));
                // Init and finalize have the id of their context, and the name of the call around them, if known.
                if instance.fields.event.is_some_and(|id| ContextId::from_raw(id).is_context()) {
                    if ends_communicator(&name) { calls.destroys += 1 } else { calls.inits += 1 }
                }
                if let (true, Some(what)) = (is_unfinished, call_of_region(instance.role, is_call, &name)) {
                    let slot = instance.fields.event.map(|event| EventId::from_raw(event).slot());
                    calls.open.push((slot, OpenCall { what, is_in_nccl: true, since_ns: start_ns }));
                } else {
                    // What had not ended is shown up to the end of the recording, and is no sign of life there.
                    calls.last_ns = calls.last_ns.max(if is_unfinished { start_ns } else { end_ns });
                }
            })?;
        }
        Ok(found)
    }
}

/// The start of an operation, whether it belongs to a launched graph, and the operation.
type TimedOperation = (u64, bool, Operation);

enum Operation {
    Collective(Call),
    Message(Message),
}

impl Operation {
    fn progress_mut(&mut self) -> &mut Reached {
        match self {
            Self::Collective(call) => &mut call.progress,
            Self::Message(message) => &mut message.progress,
        }
    }
}

/// The stage implied by the interval of an operation.
const fn stage(is_unfinished: bool, timing: Option<Timing>) -> Stage {
    match (is_unfinished, timing) {
        (true, None | Some(Timing::Enqueue)) => Stage::Calling,
        (true, _) => Stage::Running,
        (false, Some(Timing::Proxy)) => Stage::Transferred,
        (false, None | Some(Timing::Enqueue | Timing::Kernel)) => Stage::Launched,
        (false, Some(_)) => Stage::Done,
    }
}

/// The kernels of a communicator run one after the other: operations before a running one have ended.
fn ran_before(operations: &mut [TimedOperation]) {
    let mut ran = false;
    for (.., operation) in operations.iter_mut().rev() {
        let progress = operation.progress_mut();
        if ran && progress.stage == Stage::Launched {
            progress.stage = Stage::Done;
        }
        ran |= progress.began;
    }
}

/// Describes the call that a thread has not returned from.
fn call_of_region(role: Option<Role>, is_call: bool, name: &str) -> Option<String> {
    match role {
        // A call that only NVTX shows.
        None if is_call => Some(format!("in {name}")),
        Some(Role::Call(Kind::KernelLaunch)) => Some("in the launch of a kernel".to_owned()),
        Some(Role::Call(Kind::GroupApi)) => Some("in a group of calls, up to the end of ncclGroupEnd".to_owned()),
        Some(Role::Call(Kind::CollApi | Kind::P2pApi)) => Some(format!("in {name}")),
        _ => None,
    }
}
