//! Builds a [`Job`] from an archive whose journals are removed: from its operations, calls and properties.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::error::Error;
use crate::job::{
    Actor, Call, Comm, Job, Message, Place, Positions, Process, Progress as Reached, Rank, Signature, Stage, Tail,
    Tuning,
};
use crate::read::align::align;
use crate::read::archive_threads::{Called, CalledFor, OpenGroup, ProcessCalls};
use crate::read::part::Limitations;
use crate::read::{OF_CALLS, OF_PLANS};
use analysis::read::Members;
use analysis::{Clock, InstanceOf, Role, Trace, is_nccl, stated, try_in_parallel};
use model::job::RecordingState;
use nccl_events::archive::Timing;
use nccl_events::collective::{Collective, Function};
use nccl_events::schema::definition::{ClockAnchors, LauncherRank, LauncherSize, ProcessId, Release};
use nccl_events::{Kind, Progress};
use otf2::{CommRef, LocationGroupRef, LocationRef};

nccl_events::fields! {
    struct OperationFields {
        event: Event,
        parent: Parent,
        launch: Launch,
        replay: Replay,
        sequence: Sequence,
        count: Count,
        datatype: Datatype,
        bytes: Bytes,
        root: Root,
        peer: Peer,
        algorithm: Algorithm,
        protocol: Protocol,
        channels: Channels,
        timing: Timing,
        is_unfinished: Unfinished,
    }
}

/// An operation of a communicator as it ran.
#[derive(Clone, Copy, Debug)]
struct Ran<'a> {
    function: Function,
    by_copy_engine: bool,
    start_ns: u64,
    end_ns: u64,
    fields: OperationFields<'a>,
}

pub(crate) fn job(trace: &Trace, progress: &dyn Progress) -> Result<Job, Error> {
    if !is_nccl(&trace.archive) {
        let creator = Some(trace.archive.creator()).filter(|creator| !creator.is_empty());
        let creator = creator.unwrap_or("another program").to_owned();
        return Err(Error::NotNccl { anchor: trace.anchor.clone(), creator });
    }
    let members = Members::from_trace(trace);
    let doubts = Limitations::of(trace);
    let reading = Reading { trace, clock: Clock::from_trace(trace), start_ns: trace.start_ns().unwrap_or(0) };
    progress.begin("operations", members.all.len() as u64);
    let ran = try_in_parallel(&members.all, |member| {
        let ran = reading.ran(member.location);
        progress.step();
        ran
    });
    let ran: Vec<Vec<Ran<'_>>> = ran?;
    progress.end();
    let calls = reading.calls()?;
    let mut job = Job { is_archive: true, ..Job::default() };
    let mut numbers: BTreeMap<LocationGroupRef, usize> = BTreeMap::new();
    let none = ProcessCalls::default();
    for group in trace.processes() {
        numbers.insert(group, job.processes.len());
        job.processes.push(reading.process(group, calls.get(&group).unwrap_or(&none), &doubts));
    }
    job.comms = members.communicators.iter().map(|comm| reading.comm(*comm)).collect();
    let of_job = reading.of_job_ranks(&members);
    for (member, ran) in members.all.iter().zip(ran) {
        // A rank without a process is left out rather than assigned to another process.
        let job_rank = usize::try_from(member.job_rank).ok().and_then(|at| members.job_ranks.get(at));
        let Some((group, number)) = job_rank.and_then(|rank| Some((rank.process, *numbers.get(&rank.process)?))) else {
            continue;
        };
        let process_calls = calls.get(&group).unwrap_or(&none);
        let at = usize::try_from(member.communicator).unwrap_or(usize::MAX);
        let Some((comm, reference)) = job.comms.get_mut(at).zip(members.communicators.get(at)) else { continue };
        let mut rank = RankReader::new(process_calls, (reference.get(), member.rank), comm.id).rank(ran);
        rank.actor = Actor { process: number, gpu: member.job_rank };
        let process = job.processes.get_mut(number);
        rank.finalized |= process.as_ref().is_some_and(|process| process.state == RecordingState::Ended);
        if doubts.is_flight {
            rank.calls.positions = Positions::Unknown;
            rank.replays.positions = Positions::Unknown;
        }
        if let (Some(process), Some(members)) = (process, of_job.get(&member.job_rank)) {
            let last_ns = rank.calls.list.iter().filter_map(|call| call.progress.ended_ns).max().unwrap_or(0);
            process.until_ns = process.until_ns.max(last_ns);
            let is_only = process.activities.is_empty() || process.activities.contains_key(&member.job_rank);
            rank.activity = process_calls.activity(members, is_only);
            process.activities.insert(member.job_rank, rank.activity.clone());
        }
        comm.ranks.insert(member.rank, rank);
    }
    for (group, number) in &numbers {
        // A process without a communicator counts as one GPU.
        let process = job.processes.get_mut(*number).filter(|process| process.activities.is_empty());
        if let (Some(process), Some(calls)) = (process, calls.get(group)) {
            process.activities.insert(0, calls.activity(&BTreeSet::new(), true));
        }
    }
    job.comms.retain(|comm| !comm.ranks.is_empty());
    job.comms.iter_mut().for_each(align);
    job.number();
    job.now_ns = job.processes.iter().map(|process| process.until_ns).max().unwrap_or(reading.start_ns);
    (job.missing, job.signs, job.open_below) = (doubts.missing, doubts.signs, doubts.open_below);
    Ok(job)
}

/// The archive being read. Times become CLOCK_REALTIME ns.
pub(super) struct Reading<'a> {
    pub(super) trace: &'a Trace,
    clock: Clock,
    start_ns: u64,
}

impl<'a> Reading<'a> {
    pub(super) fn ns(&self, time: u64) -> u64 {
        self.start_ns.saturating_add(self.clock.ns(time))
    }

    fn comm(&self, comm: CommRef) -> Comm {
        // A communicator has no more than `MOST_RANKS`.
        let size = u32::try_from(self.trace.members(comm).len()).unwrap_or(u32::MAX);
        let id = self.trace.comm_id(comm).unwrap_or(0);
        Comm { name: self.trace.comm_name(comm), id, size, knows_size: true, ..Comm::default() }
    }

    /// The communicators and ranks of each rank of the job.
    fn of_job_ranks(&self, members: &Members) -> BTreeMap<u32, BTreeSet<(u32, u32)>> {
        let mut found: BTreeMap<u32, BTreeSet<(u32, u32)>> = BTreeMap::new();
        for member in &members.all {
            let at = usize::try_from(member.communicator).ok();
            if let Some(comm) = at.and_then(|at| members.communicators.get(at)) {
                found.entry(member.job_rank).or_default().insert((comm.get(), member.rank));
            }
        }
        found
    }

    /// The operations of a communicator rank in the order of their begins.
    fn ran(&self, location: LocationRef) -> otf2::Result<Vec<Ran<'a>>> {
        let mut found: Vec<Ran<'a>> = Vec::new();
        if !self.trace.has_events(location) {
            return Ok(found);
        }
        self.trace.instances_with(location, |instance: &InstanceOf<OperationFields<'a>>| {
            let Some(Role::Operation(kind)) = instance.role else { return };
            let Some(function) = self.trace.function(instance.region) else { return };
            // What the archive makes of sends and receives repeats these.
            if kind != Kind::P2p && instance.fields.event.is_none() {
                return;
            }
            found.push(Ran {
                function,
                by_copy_engine: kind == Kind::CeColl,
                start_ns: self.ns(instance.start),
                end_ns: self.ns(instance.end),
                fields: instance.fields,
            });
        })?;
        found.sort_by_key(|ran| ran.start_ns);
        Ok(found)
    }

    fn process(&self, group: LocationGroupRef, calls: &ProcessCalls<'_>, doubts: &Limitations) -> Process {
        let definitions = &self.trace.definitions;
        let properties = definitions.location_groups.get(&group).map_or(&[][..], |group| &group.properties);
        let number = |number: u64| u32::try_from(number).ok();
        let anchors = stated(definitions, properties, ClockAnchors);
        // The plugin reads the clocks once a second: the last reading shows how long the process lived.
        let last_reading_ns = anchors.and_then(|anchors| anchors.last().map(|last| last.realtime_ns)).unwrap_or(0);
        let is_ended = calls.inits > 0 && calls.inits == calls.ends;
        let counts = &self.trace.statements.counts.others;
        Process {
            part: self.trace.group_name(group).to_owned(),
            host: self.trace.host(group).and_then(|host| self.trace.node_name(host)).unwrap_or_default().to_owned(),
            pid: stated(definitions, properties, ProcessId).and_then(number).unwrap_or(0),
            launcher_rank: stated(definitions, properties, LauncherRank).and_then(number),
            launcher_size: stated(definitions, properties, LauncherSize).and_then(number),
            release: stated(definitions, properties, Release).unwrap_or_default().to_owned(),
            state: if is_ended { RecordingState::Ended } else { RecordingState::Unknown },
            until_ns: last_reading_ns.max(calls.last_ns),
            last_record_ns: last_reading_ns.max(calls.last_ns),
            last_event_ns: calls.last_nccl_ns,
            event_mask: Some(doubts.event_mask),
            is_whole: doubts.is_whole,
            has_clock: last_reading_ns > 0,
            kept_since_ns: calls.first_ns.filter(|_| doubts.is_flight),
            shows_calls: counts.ranges_nccl > 0 && counts.ranges_lost == 0,
            aborts_ns: calls.aborts_ns.clone(),
            unmade_since_ns: calls.unmade_since_ns(),
            ..Process::default()
        }
    }
}

/// Puts the calls and operations of a communicator rank together.
struct RankReader<'a, 'b> {
    calls: &'b ProcessCalls<'a>,
    member: (u32, u32),
    comm_id: u64,
    names: BTreeMap<&'a str, Arc<str>>,
}

impl<'a, 'b> RankReader<'a, 'b> {
    const fn new(calls: &'b ProcessCalls<'a>, member: (u32, u32), comm_id: u64) -> Self {
        Self { calls, member, comm_id, names: BTreeMap::new() }
    }

    fn name(&mut self, text: Option<&'a str>) -> Arc<str> {
        let text = text.unwrap_or_default();
        Arc::clone(self.names.entry(text).or_insert_with(|| text.into()))
    }

    fn rank(mut self, ran: Vec<Ran<'a>>) -> Rank {
        let mut rank = Rank { ended: self.calls.ended.get(&(self.comm_id, self.member.1)).copied(), ..Rank::default() };
        rank.finalized = rank.ended.is_some();
        let own = [CalledFor::Member(self.member.0, self.member.1), CalledFor::Id(self.comm_id)];
        let calls = own.iter().filter_map(|of| self.calls.calls.get(of)).flatten().copied();
        let mut calls: Vec<Called<'a>> = calls.collect();
        calls.sort_by_key(|called| called.start_ns);
        let mut items = Vec::new();
        let mut ran = RanByCall::new(ran, &calls);
        for called in &calls {
            let below = ran.take(called);
            if called.fields.is_captured == Some(true) {
                rank.has_graphs = true;
                items.extend(below.into_iter().map(|ran| (Some(*called), Some(ran))));
            } else {
                items.push((Some(*called), below.into_iter().find(|ran| ran.fields.replay.is_none())));
            }
        }
        items.extend(ran.rest().map(|ran| (None, Some(ran))));
        self.fill(&items, &mut rank);
        rank
    }

    /// Fills a rank with calls and their operations, of which each has at least one.
    fn fill(&mut self, items: &[(Option<Called<'a>>, Option<Ran<'a>>)], rank: &mut Rank) {
        let (mut calls, mut replays, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        for (called, ran) in items {
            let is_replay = ran.is_some_and(|ran| ran.fields.replay.is_some());
            let function = called.map(|called| called.function).or(ran.map(|ran| ran.function));
            match function {
                Some(Function::Collective(_)) => {
                    let list = if is_replay { &mut replays } else { &mut calls };
                    list.extend(self.call(called.as_ref(), ran.as_ref()));
                }
                // Messages captured into a graph cannot be counted.
                Some(_) if !is_replay => messages.extend(self.message(called.as_ref(), ran.as_ref())),
                _ => {}
            }
        }
        for list in [&mut calls, &mut replays] {
            list.sort_by_key(|call: &Call| call.entered_ns);
            ran_before(list.iter_mut().map(|call| &mut call.progress));
        }
        messages.sort_by_key(|message: &Message| message.entered_ns);
        for mut message in messages {
            if message.peer == u32::MAX {
                rank.without_peer.push(message);
                continue;
            }
            let number = rank.message_counts.entry((message.peer, message.is_send)).or_default();
            message.number = std::mem::replace(number, *number + 1);
            rank.messages.push(message);
        }
        (rank.calls, rank.replays) = (Tail::from_calls(calls), Tail::from_calls(replays));
    }

    fn call(&mut self, called: Option<&Called<'a>>, ran: Option<&Ran<'a>>) -> Option<Call> {
        let function = called.map(|called| called.function).or(ran.map(|ran| ran.function))?;
        let Function::Collective(collective) = function else { return None };
        let below = ran.map(|ran| ran.fields);
        let (count, datatype, bytes, root) = match (called, below) {
            (Some(Called { fields, .. }), _) => (fields.count, fields.datatype, fields.bytes, fields.root),
            (None, Some(fields)) => (fields.count, fields.datatype, fields.bytes, fields.root),
            (None, None) => return None,
        };
        let root = root.filter(|_| Collective::has_root(collective)).and_then(|root| i32::try_from(root).ok());
        let tuning = below.filter(|fields| fields.algorithm.is_some()).map(|fields| Tuning {
            algorithm: self.name(fields.algorithm),
            protocol: self.name(fields.protocol),
            channels: fields.channels.unwrap_or(0),
        });
        let what = Signature {
            func: self.name(Some(function.name())),
            count: count.unwrap_or(0),
            datatype: self.name(datatype),
            bytes: bytes.or(count.filter(|count| *count == 0)),
            root,
            reduction: called.and_then(|called| called.fields.reduction).map(Into::into),
            tuning,
        };
        Some(Call {
            what,
            from_api: called.is_some_and(|called| called.is_reported),
            sequence: below.and_then(|fields| fields.sequence),
            by_copy_engine: ran.is_some_and(|ran| ran.by_copy_engine),
            entered_ns: self.entered_ns(called, ran),
            place: self.place(called, ran),
            progress: self.progress(called, ran),
        })
    }

    fn message(&mut self, called: Option<&Called<'a>>, ran: Option<&Ran<'a>>) -> Option<Message> {
        let is_send = called.map(|called| called.function).or(ran.map(|ran| ran.function))?.is_send()?;
        let fields = called.map(|called| called.fields);
        let below = ran.map(|ran| ran.fields);
        let stated = fields.map(|fields| (fields.count, fields.datatype, fields.bytes));
        let (count, datatype, bytes) =
            stated.or(below.map(|below| (below.count, below.datatype, below.bytes))).unwrap_or_default();
        let peer = below.and_then(|below| below.peer).or(fields.and_then(|fields| fields.peer));
        let progress = self.progress(called, ran);
        if peer.is_none() && progress.stage.is_over() {
            return None;
        }
        Some(Message {
            peer: peer.unwrap_or(u32::MAX),
            is_send,
            number: 0,
            count: count.unwrap_or(0),
            datatype: self.name(datatype),
            bytes,
            entered_ns: self.entered_ns(called, ran),
            place: self.place(called, ran),
            progress,
        })
    }

    /// When it was called, else enqueued, else began to run.
    fn entered_ns(&self, called: Option<&Called<'_>>, ran: Option<&Ran<'_>>) -> u64 {
        let called_ns =
            called.map(|called| called.start_ns).filter(|_| ran.is_none_or(|ran| ran.fields.replay.is_none()));
        let enqueued_ns = ran.and_then(|ran| self.enqueued(ran)).map(|(_, ns)| ns);
        called_ns.or(enqueued_ns).or(ran.map(|ran| ran.start_ns)).unwrap_or(0)
    }

    /// On which thread and when an operation was enqueued.
    fn enqueued(&self, ran: &Ran<'_>) -> Option<(u32, u64)> {
        self.calls.enqueued.get(&ran.fields.event?).copied()
    }

    fn group_of(&self, called: &Called<'_>) -> Option<u64> {
        called.fields.group.or(called.fields.parent).filter(|_| called.is_reported)
    }

    fn place(&self, called: Option<&Called<'_>>, ran: Option<&Ran<'_>>) -> Place {
        let launch = ran.and_then(|ran| self.calls.launches.get(&ran.fields.launch?));
        let replay = ran.and_then(|ran| ran.fields.replay);
        let of_call = called.and_then(|called| self.group_of(called));
        let of_plan = ran.and_then(|ran| ran.fields.parent).filter(|_| called.is_none());
        let of_group = of_call.and_then(|group| self.calls.launches_of_groups.get(&group));
        let launched = launch.or(of_group.filter(|_| replay.is_none())).map(|launch| launch.start_ns);
        let open = of_call.and_then(|group| self.calls.open_groups.get(&group));
        Place {
            group: of_call
                .map(|group| (group, OF_CALLS + 2 * replay.unwrap_or(0)))
                .or(of_plan.map(|plan| (plan, OF_PLANS))),
            stream: called.and_then(|called| called.fields.stream).or(launch.and_then(|launch| launch.stream)),
            thread: called.map(|called| called.thread).or_else(|| Some(self.enqueued(ran?)?.0)),
            launched_ns: launched,
            is_group_open: open == Some(&OpenGroup::Open),
        }
    }

    fn progress(&self, called: Option<&Called<'_>>, ran: Option<&Ran<'_>>) -> Reached {
        if let Some(ran) = ran {
            let is_unfinished = ran.fields.is_unfinished == Some(true);
            let stage = stage(is_unfinished, ran.fields.timing);
            let ended_ns = stage.is_over().then_some(ran.end_ns);
            let began = stage >= Stage::Running;
            return Reached { stage, ended_ns, shows_end: began, began, ..Reached::default() };
        }
        let Some(called) = called else { return Reached::default() };
        // NCCL starts nothing for no elements.
        if !called.is_reported && called.fields.bytes == Some(0) {
            return Reached { stage: Stage::Done, ended_ns: Some(called.start_ns), ..Reached::default() };
        }
        let group = self.group_of(called);
        let in_group = group.is_some_and(|group| self.calls.open_groups.contains_key(&group));
        let stage = match group.and_then(|group| self.calls.launches_of_groups.get(&group)) {
            Some(launch) if launch.is_open => Stage::Launching,
            _ if called.is_open || in_group => Stage::Calling,
            _ => Stage::Called,
        };
        Reached { stage, ..Reached::default() }
    }
}

/// The operations of a communicator rank by their calls: by the call's id or, where only NCCL's ranges show calls, the
/// k-th of a function by the k-th call.
struct RanByCall<'a> {
    by_id: BTreeMap<u64, Vec<Ran<'a>>>,
    /// And by peer: NCCL orders the messages of a group anew.
    by_function: BTreeMap<(&'static str, Option<u32>), VecDeque<Ran<'a>>>,
}

impl<'a> RanByCall<'a> {
    fn new(ran: Vec<Ran<'a>>, calls: &[Called<'a>]) -> Self {
        let ids: BTreeSet<u64> = calls.iter().filter_map(|called| called.fields.event).collect();
        let mut found = Self { by_id: BTreeMap::new(), by_function: BTreeMap::new() };
        for one in ran {
            match one.fields.parent.filter(|parent| ids.contains(parent)) {
                Some(call) => found.by_id.entry(call).or_default().push(one),
                None => {
                    let key = (one.function.name(), one.fields.peer);
                    found.by_function.entry(key).or_default().push_back(one);
                }
            }
        }
        found
    }

    fn take(&mut self, called: &Called<'_>) -> Vec<Ran<'a>> {
        if let Some(id) = called.fields.event {
            return self.by_id.remove(&id).unwrap_or_default();
        }
        // NCCL starts nothing for no elements.
        let has_elements = called.fields.bytes != Some(0);
        let key = (called.function.name(), called.fields.peer);
        let of_function = self.by_function.get_mut(&key).filter(|_| has_elements);
        of_function.and_then(VecDeque::pop_front).into_iter().collect()
    }

    /// Those whose calls were not recorded.
    fn rest(self) -> impl Iterator<Item = Ran<'a>> {
        self.by_id.into_values().flatten().chain(self.by_function.into_values().flatten())
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
fn ran_before<'p>(operations: impl DoubleEndedIterator<Item = &'p mut Reached>) {
    let mut ran = false;
    for progress in operations.rev() {
        if ran && progress.stage == Stage::Launched {
            progress.stage = Stage::Done;
        }
        ran |= progress.began;
    }
}
