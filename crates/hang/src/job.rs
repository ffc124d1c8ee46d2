//! The state of a job at one moment, as far as known, for [`super::judge`]: its processes, communicators and ranks, the
//! operations that ranks called, and what programs are in by their NVTX ranges. Times are the host's CLOCK_REALTIME ns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::job::RecordingState;
use nccl_events::MOST_RANKS;
use nccl_events::archive::{RankIdentity, number, path_of_ranges};
use nccl_events::collective::{Collective, Flow};
use nccl_events::range::{RangeField, RangeFields};
use nccl_events::sort::Gather;

#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// Sorted by name of the part.
    pub(crate) processes: Vec<Process>,
    pub(crate) comms: Vec<Comm>,
    /// All ranks of the job, for calls whose communicator is not known or being made. Its index is behind those of
    /// `comms`, and its name is empty.
    pub(crate) everyone: Comm,
    /// The moment of judgement. Later events do not count, because processes are read one after the other.
    pub(crate) now_ns: u64,
    /// Whether the job was read from an archive, after its journals were removed.
    pub(crate) is_archive: bool,
    /// The archive's statements about missing data.
    pub(crate) missing: Vec<String>,
    /// The archive's statements about operations that do not end, or differ between ranks.
    pub(crate) signs: Vec<String>,
    /// The archive's statement about network events that do not end. It is a sign where their operations may not have.
    pub(crate) open_below: Option<String>,
}

/// A member of a communicator: index of [`Job::comm`], and rank.
pub(crate) type Member = (usize, u32);

impl Job {
    /// Whether no process is alive, so that nothing more can be called.
    pub(crate) fn is_over(&self) -> bool {
        !self.processes.iter().any(|process| process.state.is_alive())
    }

    pub(crate) fn number(&mut self) {
        let mut identities: BTreeMap<Actor, RankIdentity> = BTreeMap::new();
        for (at, comm) in (0..).zip(&self.comms) {
            for (number, rank) in &comm.ranks {
                let identities = identities.entry(rank.actor).or_default();
                identities.process = rank.actor.process;
                identities.launcher_rank = self.process_of(rank).and_then(|process| process.launcher_rank);
                identities.members.entry(at).or_insert(*number);
            }
        }
        let (actors, identities): (Vec<Actor>, Vec<RankIdentity>) = identities.into_iter().unzip();
        let (world, numbers) = number(&identities);
        let numbers: BTreeMap<Actor, Option<u32>> = actors.into_iter().zip(numbers).gather();
        for (at, comm) in (0..).zip(&mut self.comms) {
            comm.has_all = world == Some(at);
            for rank in comm.ranks.values_mut() {
                rank.job_rank = numbers.get(&rank.actor).copied().flatten();
            }
        }
        self.everyone = self.everyone(&numbers);
    }

    /// All ranks of the job, and the processes that have no rank yet.
    fn everyone(&self, numbers: &BTreeMap<Actor, Option<u32>>) -> Comm {
        let mut found: Vec<(Option<u32>, Rank)> = Vec::new();
        let mut has_one_each = true;
        for (at, process) in self.processes.iter().enumerate() {
            let [first, last] = [0, u32::MAX].map(|gpu| Actor { process: at, gpu });
            let mut actors: Vec<(Actor, Option<u32>)> =
                numbers.range(first..=last).map(|(actor, number)| (*actor, *number)).collect();
            if actors.is_empty() {
                actors.push((first, process.launcher_rank));
            }
            has_one_each &= actors.len() == 1;
            for (actor, job_rank) in actors {
                let activity = process.activities.get(&actor.gpu).cloned().unwrap_or_default();
                let finalized = process.state == RecordingState::Ended;
                found.push((job_rank, Rank { actor, job_rank, activity, finalized, ..Rank::default() }));
            }
        }
        let known: BTreeSet<u32> = found.iter().filter_map(|(number, _)| *number).gather();
        let has_numbers = known.len() == found.len();
        let launched = self.processes.iter().filter_map(|process| process.launcher_size.filter(|_| has_one_each));
        let world = self.comms.iter().filter(|comm| comm.has_all).map(|comm| comm.size);
        let size = launched.filter(|size| *size <= MOST_RANKS).chain(world).max().unwrap_or(0);
        let size = size.max(known.last().map_or(0, |last| last.saturating_add(1)));
        let ranks = (0..).zip(found).map(|(at, (number, rank))| match number.filter(|_| has_numbers) {
            Some(number) => (number, rank),
            None => (at, rank),
        });
        let ranks: BTreeMap<u32, Rank> = ranks.gather();
        let size = if has_numbers { size } else { u32::try_from(ranks.len()).unwrap_or(u32::MAX) };
        Comm { size, has_all: has_numbers, lacks_numbers: !has_numbers, ranks, ..Comm::default() }
    }

    /// The communicator with this index, or [`Self::everyone`].
    pub(crate) fn comm(&self, index: usize) -> Option<&Comm> {
        self.comms.get(index).or_else(|| (index == self.comms.len()).then_some(&self.everyone))
    }

    pub(crate) fn process_of(&self, rank: &Rank) -> Option<&Process> {
        self.processes.get(rank.actor.process)
    }

    pub(crate) fn member(&self, (comm, rank): Member) -> Option<&Rank> {
        self.comm(comm)?.ranks.get(&rank)
    }

    pub(crate) fn process_of_member(&self, member: Member) -> Option<&Process> {
        self.process_of(self.member(member)?)
    }

    /// Whether all records of a rank are there. If not, it may have done more, and positions mean nothing.
    pub(crate) fn is_whole(&self, rank: &Rank) -> bool {
        self.process_of(rank).is_some_and(|process| process.is_whole)
    }

    /// The job as it was at an earlier moment, all of whose records count up to then.
    pub(crate) fn cut(&self, at_ns: u64) -> Self {
        let mut job = self.clone();
        job.now_ns = at_ns;
        for process in &mut job.processes {
            process.until_ns = process.until_ns.min(at_ns);
            process.state = RecordingState::Gone;
            process.activities.values_mut().for_each(|activity| activity.call = None);
            process.unmade_since_ns.retain(|ns| *ns < at_ns);
        }
        let everyone = std::iter::once(&mut job.everyone);
        for rank in job.comms.iter_mut().chain(everyone).flat_map(|comm| comm.ranks.values_mut()) {
            rank.finalized &= rank.ended.is_some_and(|(ended_ns, _)| ended_ns < at_ns);
            rank.open_calls.clear();
            rank.activity.call = None;
            for sequence in Sequence::ALL {
                let list = &mut sequence.tail_mut(rank).list;
                list.retain(|call| call.entered_ns < at_ns);
                list.iter_mut().for_each(|call| call.progress.cut(at_ns));
            }
            for message in rank.messages.iter().filter(|message| message.entered_ns >= at_ns) {
                if let Some(count) = rank.message_counts.get_mut(&(message.peer, message.is_send)) {
                    *count -= 1;
                }
            }
            rank.messages.retain(|message| message.entered_ns < at_ns);
            rank.messages.iter_mut().for_each(|message| message.progress.cut(at_ns));
        }
        job
    }

    /// How long a rank has been in an operation; `None` if it entered after the moment of judgement, or has no clock.
    pub(crate) fn waited_ns(&self, rank: &Rank, entered_ns: u64) -> Option<u64> {
        self.process_of(rank).filter(|process| process.has_clock)?.until_ns.checked_sub(entered_ns)
    }
}

pub(crate) const fn state_name(state: RecordingState) -> &'static str {
    match state {
        RecordingState::Running => "running",
        RecordingState::Stopped => "stopped",
        RecordingState::Gone => "gone",
        RecordingState::Ended => "ended",
        RecordingState::Silent => "silent",
        RecordingState::Unknown => "not-known",
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) part: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) launcher_rank: Option<u32>,
    pub(crate) launcher_size: Option<u32>,
    /// Unknown if only the archive is left, which does not record how a process ended.
    pub(crate) state: RecordingState,
    /// The time up to which the process is known: the moment of judgement, or its last record if it is not running.
    pub(crate) until_ns: u64,
    /// Time of the last record, including the plugin's own clock readings (one per second).
    pub(crate) last_record_ns: u64,
    /// Time of NCCL's last call of the plugin; 0 if never.
    pub(crate) last_event_ns: u64,
    /// `None` if the recorded kinds of events are unknown.
    pub(crate) event_mask: Option<u32>,
    pub(crate) has_journal: bool,
    /// Whether the records are complete from some time on up to `until_ns`.
    pub(crate) is_whole: bool,
    /// Whether clock readings exist. Without them the process's times are not compared.
    pub(crate) has_clock: bool,
    /// The time from which a flight recording is complete, if its beginning was removed.
    pub(crate) kept_since_ns: Option<u64>,
    /// Missing or doubtful parts of the recording.
    pub(crate) problems: Vec<String>,
    /// What each of its GPUs' ranks is in, by NVTX ranges; without ranks one value.
    pub(crate) activities: BTreeMap<u32, ThreadActivity>,
    /// Whether NCCL's NVTX ranges are recorded, so that each call that a rank is in is in `activity`.
    pub(crate) shows_calls: bool,
    /// NCCL's release, such as 2.32.3; empty if unknown.
    pub(crate) release: String,
    /// When calls that make a communicator returned without one: those of nonblocking communicators.
    pub(crate) unmade_since_ns: Vec<u64>,
    /// When the program called `ncclCommAbort`.
    pub(crate) aborts_ns: Vec<u64>,
}

impl Process {
    pub(crate) fn address(&self) -> String {
        if self.host.is_empty() { self.part.clone() } else { format!("{}:{}", self.host, self.pid) }
    }
}

/// One GPU of one process: while waiting in one communicator it cannot enter another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Actor {
    pub(crate) process: usize,
    pub(crate) gpu: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Comm {
    /// For people, with the size: `world (8)`.
    pub(crate) name: String,
    /// NCCL's id or hash; 0 if there is none.
    pub(crate) id: u64,
    /// Number of ranks. If NCCL does not report it (2.26 and earlier), the highest rank seen plus one.
    pub(crate) size: u32,
    pub(crate) knows_size: bool,
    /// Whether the communicator's ranks equal the job's ranks.
    pub(crate) has_all: bool,
    /// Whether the ranks' numbers mean nothing: only of [`Job::everyone`].
    pub(crate) lacks_numbers: bool,
    pub(crate) ranks: BTreeMap<u32, Rank>,
}

impl Comm {
    /// The job's number of a rank of this communicator; `None` if unknown.
    pub(crate) fn job_rank(&self, rank: u32) -> Option<u32> {
        if self.has_all { Some(rank) } else { self.ranks.get(&rank)?.job_rank }
    }

    pub(crate) fn missing(&self) -> Vec<u32> {
        (0..self.size).filter(|rank| !self.ranks.contains_key(rank)).collect()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rank {
    pub(crate) actor: Actor,
    pub(crate) job_rank: Option<u32>,
    /// The collectives that the rank called, in order.
    pub(crate) calls: Tail,
    /// The collectives of launched CUDA graphs: NCCL reports them only on ranks with network transfers.
    pub(crate) replays: Tail,
    /// The last sends and receives, in order.
    pub(crate) messages: Vec<Message>,
    /// Sends and receives that have not been started, and whose peer is not recorded.
    pub(crate) without_peer: Vec<Message>,
    /// Number of sends (true) and receives called, by peer.
    pub(crate) message_counts: BTreeMap<(u32, bool), u64>,
    pub(crate) open_calls: Vec<OpenCall>,
    pub(crate) activity: ThreadActivity,
    pub(crate) finalized: bool,
    /// Whether it captured operations into a CUDA graph.
    pub(crate) has_graphs: bool,
    /// When it ended the communicator, and whether by `ncclCommAbort`.
    pub(crate) ended: Option<(u64, bool)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Signature {
    /// NCCL's name, such as `AllReduce`.
    pub(crate) func: Arc<str>,
    pub(crate) count: u64,
    /// Empty if only NCCL's range shows the call: then `bytes` has what is known of its size.
    pub(crate) datatype: Arc<str>,
    pub(crate) bytes: Option<u64>,
    /// The root, for functions that have one.
    pub(crate) root: Option<i32>,
    /// The reduction operator, which only NCCL's range has.
    pub(crate) reduction: Option<Arc<str>>,
    pub(crate) tuning: Option<Tuning>,
}

/// What NCCL chose for an operation. Ranks that choose differently wait for each other forever.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tuning {
    pub(crate) algorithm: Arc<str>,
    pub(crate) protocol: Arc<str>,
    pub(crate) channels: u32,
}

/// Which calls are enqueued together, and behind which others they run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The group of the calls, and of which replay they are; `None`: the call is by itself.
    pub(crate) group: Option<(u64, u64)>,
    /// Handle of the CUDA stream, if recorded.
    pub(crate) stream: Option<u64>,
    /// The thread that called, if known.
    pub(crate) thread: Option<u32>,
    /// When the kernel was launched.
    pub(crate) launched_ns: Option<u64>,
    /// Whether the program has yet to end the group, so that nothing of it is started.
    pub(crate) is_group_open: bool,
}

impl Signature {
    /// Whether each rank's result depends on all ranks, so that no rank completes before all have entered. Transfers
    /// that end earlier have failed: when a peer dies, NCCL stops them like any others.
    pub(crate) fn needs_all(&self) -> bool {
        Collective::named(&*self.func).is_some_and(|collective| collective.flow() == Flow::AllToAll)
    }
}

/// An operation as one rank called it: its arguments, and its progress.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) what: Signature,
    /// Whether `what` comes from the API call; below the API AllGather and Broadcast count bytes.
    pub(crate) from_api: bool,
    /// NCCL's number of the call within its function.
    pub(crate) sequence: Option<u64>,
    /// Whether a copy engine does the work: NCCL numbers these calls separately.
    pub(crate) by_copy_engine: bool,
    pub(crate) entered_ns: u64,
    pub(crate) place: Place,
    pub(crate) progress: Progress,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    /// When it ended, if it did and that is known.
    pub(crate) ended_ns: Option<u64>,
    /// Whether the recording would show its end.
    pub(crate) shows_end: bool,
    pub(crate) waits: Vec<Wait>,
    pub(crate) channels_open: u32,
    pub(crate) began: bool,
}

impl Progress {
    /// What ended later had not ended at a time.
    fn cut(&mut self, at_ns: u64) {
        if self.stage.is_over() && self.ended_ns.is_some_and(|ended_ns| ended_ns >= at_ns) {
            (self.stage, self.ended_ns, self.shows_end) = (Stage::Launched, None, true);
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The program is in the call; nothing was enqueued.
    #[default]
    Calling,
    /// The call has returned; later events are not recorded.
    Called,
    /// NCCL is launching the kernel; the launch has not returned.
    Launching,
    /// The operation was enqueued; whether it began is not recorded.
    Enqueued,
    /// The kernel was launched; whether it began is not recorded.
    Launched,
    /// Transfers or kernel channels were seen, but not their end.
    Running,
    /// All network transfers have ended; the GPU's work is not recorded.
    Transferred,
    Done,
}

impl Stage {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Calling => "calling",
            Self::Called => "called",
            Self::Launching => "launching",
            Self::Enqueued => "enqueued",
            Self::Launched => "launched",
            Self::Running => "running",
            Self::Transferred => "transferred",
            Self::Done => "done",
        }
    }

    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Transferred | Self::Done)
    }

    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::Calling | Self::Launching | Self::Running)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) channel: u8,
    pub(crate) peer: i32,
    pub(crate) is_send: bool,
    pub(crate) state: WaitState,
    /// The waiting step, if steps were recorded.
    pub(crate) step: Option<i32>,
    pub(crate) steps: i32,
    pub(crate) since_ns: u64,
}

/// What a proxy waits for, in NCCL's terms (`ncclProfilerProxyStep…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitState {
    Queued,
    SendGpu,
    SendPeer,
    SendNetwork,
    Receive,
    /// The data has arrived and is being flushed to the GPU.
    Flush,
    ReceiveGpu,
    Unknown,
}

impl WaitState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Queued => "Queued",
            Self::SendGpu => "SendGPUWait",
            Self::SendPeer => "SendPeerWait",
            Self::SendNetwork => "SendWait",
            Self::Receive => "RecvWait",
            Self::Flush => "RecvFlushWait",
            Self::ReceiveGpu => "RecvGPUWait",
            Self::Unknown => "not recorded",
        }
    }

    pub(crate) const fn is_for_peer(self) -> bool {
        matches!(self, Self::SendPeer | Self::SendNetwork | Self::Receive)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) peer: u32,
    pub(crate) is_send: bool,
    /// Zero-based index among the messages with this peer in this direction.
    pub(crate) number: u64,
    pub(crate) count: u64,
    pub(crate) datatype: Arc<str>,
    pub(crate) bytes: Option<u64>,
    pub(crate) entered_ns: u64,
    pub(crate) place: Place,
    pub(crate) progress: Progress,
}

impl Message {
    pub(crate) const fn func(&self) -> &'static str {
        if self.is_send { "ncclSend" } else { "ncclRecv" }
    }

    pub(crate) const fn matching_func(&self) -> &'static str {
        if self.is_send { "ncclRecv" } else { "ncclSend" }
    }
}

/// An NCCL call that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// The function, `ncclGroupEnd`, or a kernel launch: `in …`.
    pub(crate) what: String,
    /// Whether NCCL does not return. If false, the program is between two calls.
    pub(crate) is_in_nccl: bool,
    pub(crate) since_ns: u64,
}

/// How many collectives are kept per rank: ranks that are further apart have another problem anyway.
pub(crate) const KEPT: usize = 1024;

/// How the positions of a rank's operations in the communicator's order are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Positions {
    #[default]
    Counted,
    /// The beginning is not kept; NCCL's numbers match operations with those of other ranks.
    Aligned,
    /// No kept operation matches another rank's; NCCL's numbers give the order, but not the distance.
    Ordered,
    /// The beginning is not kept, and the positions are unknown.
    Unknown,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// Number of operations before those in the list.
    pub(crate) before: u64,
    pub(crate) list: Vec<Call>,
    pub(crate) positions: Positions,
}

impl Tail {
    /// Keeps the last of these calls, which are counted from the first.
    pub(crate) fn from_calls(mut calls: Vec<Call>) -> Self {
        let before = calls.len().saturating_sub(KEPT);
        Self { before: before as u64, list: calls.split_off(before), positions: Positions::Counted }
    }

    /// Number of operations in total, from the origin of positions.
    pub(crate) fn count(&self) -> u64 {
        self.before + self.list.len() as u64
    }

    pub(crate) fn has_positions(&self) -> bool {
        self.positions != Positions::Unknown
    }

    /// The operation at a position, from 0; `None` if there is none, if it is not kept, or if its position is unknown.
    pub(crate) fn at(&self, position: u64) -> Option<&Call> {
        self.list.get(usize::try_from(position.checked_sub(self.before)?).ok()?).filter(|_| self.has_positions())
    }

    /// The first operation known not to have ended.
    pub(crate) fn first_open(&self) -> Option<&Call> {
        self.list.iter().find(|call| call.progress.stage.is_open())
    }
}

/// What one thread of a program is in, by its NVTX ranges: the NCCL call, and the program's own ranges around the call.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadActivity {
    /// The innermost open call of NCCL.
    pub(crate) call: Option<NcclCall>,
    /// The program's open ranges, outermost first; those around the call if there is one.
    pub(crate) ranges: Vec<OpenRange>,
    /// The steps that are over.
    pub(crate) taken: BTreeMap<Step, StepsTaken>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRange {
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) since_ns: u64,
}

/// A call of NCCL that has not returned.
#[derive(Clone, Debug, Default)]
pub(crate) struct NcclCall {
    /// Such as `ncclCommSplit`. A group that makes communicators is named after the calls in it.
    pub(crate) name: String,
    pub(crate) since_ns: u64,
    /// The arguments, as far as NCCL has stated them.
    pub(crate) fields: RangeFields,
}

impl NcclCall {
    /// A number among the arguments; `None` if NCCL has not stated it.
    pub(crate) fn number(&self, field: RangeField) -> Option<u64> {
        self.fields.get(field).filter(|id| *id != 0 || !matches!(field, RangeField::CommId | RangeField::ParentCommId))
    }

    pub(crate) fn step(&self) -> Option<Step> {
        Step::from_call(&self.name)
    }
}

/// The steps of one kind that a thread has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepsTaken {
    pub(crate) times: u64,
    pub(crate) last_ns: u64,
}

impl ThreadActivity {
    /// The names of the program's ranges: `train_step > load_batch`; `None` without ranges.
    pub(crate) fn path(&self) -> Option<String> {
        (!self.ranges.is_empty()).then(|| path_of_ranges(self.ranges.iter().map(|range| &range.name)))
    }

    pub(crate) fn convert_times(&mut self, realtime: impl Fn(u64) -> u64) {
        let call = self.call.iter_mut().map(|call| &mut call.since_ns);
        let ranges = self.ranges.iter_mut().map(|range| &mut range.since_ns);
        let taken = self.taken.values_mut().map(|taken| &mut taken.last_ns);
        call.chain(ranges).chain(taken).for_each(|ns| *ns = realtime(*ns));
    }
}

/// A step in the life of a communicator that its ranks take together: a call that waits for the others' calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Init,
    Split,
    Shrink,
    Grow,
    /// Finalize or destroy: destroying a communicator finalizes it.
    End,
}

impl Step {
    /// The step that a call of NCCL takes. `ncclCommAbort` and `ncclCommRevoke` wait for nobody.
    pub(crate) fn from_call(call: &str) -> Option<Self> {
        match call {
            "ncclCommInitRank" | "ncclCommInitRankConfig" | "ncclCommInitRankScalable" | "ncclCommInitAll" => {
                Some(Self::Init)
            }
            "ncclCommSplit" => Some(Self::Split),
            "ncclCommShrink" => Some(Self::Shrink),
            "ncclCommGrow" => Some(Self::Grow),
            "ncclCommFinalize" | "ncclCommDestroy" => Some(Self::End),
            _ => None,
        }
    }

    /// Whether the call waits for all ranks of the communicator. A shrink leaves ranks out, and nothing says which. The
    /// end waits at most for ranks of the same host, and not with all transports.
    pub(crate) const fn is_of_all(self) -> bool {
        matches!(self, Self::Split)
    }
}

/// The two sequences of collectives in a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sequence {
    Calls,
    /// The collectives of launched CUDA graphs.
    Replays,
}

impl Sequence {
    pub(crate) const ALL: [Self; 2] = [Self::Calls, Self::Replays];

    pub(crate) const fn tail(self, rank: &Rank) -> &Tail {
        match self {
            Self::Calls => &rank.calls,
            Self::Replays => &rank.replays,
        }
    }

    pub(crate) const fn tail_mut(self, rank: &mut Rank) -> &mut Tail {
        match self {
            Self::Calls => &mut rank.calls,
            Self::Replays => &mut rank.replays,
        }
    }

    /// The sequences of a communicator: launches of graphs only if a rank reports them.
    pub(crate) fn in_comm(comm: &Comm) -> impl Iterator<Item = Self> {
        let has = |sequence: Self| comm.ranks.values().any(|rank| sequence.tail(rank).count() > 0);
        Self::ALL.into_iter().filter(move |sequence| *sequence == Self::Calls || has(*sequence))
    }

    /// The ranks that take part in the sequence: only ranks with network transfers report launches of graphs.
    pub(crate) fn ranks(self, comm: &Comm) -> impl Iterator<Item = (u32, &Rank)> {
        let takes_part = move |rank: &Rank| self == Self::Calls || self.tail(rank).count() > 0;
        comm.ranks.iter().map(|(number, rank)| (*number, rank)).filter(move |(_, rank)| takes_part(rank))
    }

    /// Whether positions count from the communicator's first collective, not from the first kept one.
    pub(crate) fn is_from_beginning(self, comm: &Comm) -> bool {
        let tails = || comm.ranks.values().map(|rank| self.tail(rank));
        let is_counted = |tail: &Tail| tail.positions == Positions::Counted;
        tails().all(is_counted) || tails().any(|tail| is_counted(tail) && !tail.list.is_empty())
    }
}
