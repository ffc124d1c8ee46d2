//! Parts: the calls of one group in one communicator of a rank. NCCL enqueues them together, and they run together,
//! each part behind those before it on its stream and in its communicator.

use std::collections::BTreeMap;

use crate::job::{Actor, Call, Comm, Job, Member, Message, Place, Progress, Rank, Sequence, Stage};

/// An index in [`Parts::all`].
pub(crate) type PartId = u32;

/// Where an operation of a part is described.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// An index in the list of the sequence.
    Collective(Sequence, usize),
    /// An index in the rank's messages.
    Message(usize),
    /// An index in the rank's messages whose peer is not recorded.
    WithoutPeer(usize),
}

/// What an operation waits for: the calls of others that belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A communicator, and a position in a sequence of its collectives.
    Collective(usize, Sequence, u64),
    /// A communicator, and a message of two of its ranks.
    Message { comm: usize, sender: u32, receiver: u32, number: u64 },
}

impl Key {
    pub(crate) const fn comm(self) -> usize {
        match self {
            Self::Collective(comm, ..) | Self::Message { comm, .. } => comm,
        }
    }

    /// From 0, among the collectives of its sequence or the messages of its pair.
    pub(crate) const fn position(self) -> u64 {
        match self {
            Self::Collective(_, _, position) | Self::Message { number: position, .. } => position,
        }
    }

    /// Whether both are collectives of one sequence, or messages of one pair in one direction.
    pub(crate) fn is_in_order_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Collective(comm, sequence, _), Self::Collective(of, other, _)) => (comm, sequence) == (of, other),
            (
                Self::Message { comm, sender, receiver, .. },
                Self::Message { comm: of, sender: from, receiver: to, .. },
            ) => (comm, sender, receiver) == (of, from, to),
            _ => false,
        }
    }
}

/// An order in which parts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Queue {
    Stream(Actor, u64),
    Comm(Member, Sequence),
    /// If the stream is not recorded: the calls of a thread usually go to one stream.
    Thread(usize, u32),
    /// All streams of a GPU, as if kernels did not run at the same time.
    Gpu(Actor),
}

impl Queue {
    pub(crate) const fn is_certain(self) -> bool {
        !matches!(self, Self::Thread(..))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) member: Member,
    pub(crate) actor: Actor,
    pub(crate) operations: Vec<Operation>,
    pub(crate) called_ns: u64,
    /// When it was launched, else called.
    pub(crate) order_ns: u64,
    pub(crate) queues: Vec<Queue>,
    pub(crate) is_replay: bool,
    pub(crate) stage: PartStage,
    pub(crate) ended_ns: Option<u64>,
    /// Whether its end is known by network transfers alone, which also end when a peer dies.
    pub(crate) by_transfers: bool,
    /// Whether the recording would show its end.
    pub(crate) shows_end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PartStage {
    /// The program has not ended its group.
    GroupOpen,
    /// The program is in the call that enqueues it.
    Calling,
    Enqueued,
    Ended,
}

/// The parts of a job.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) all: Vec<Part>,
}

impl Parts {
    pub(crate) fn new(job: &Job) -> Self {
        let mut parts = Self::default();
        for (index, comm) in job.comms.iter().enumerate() {
            for (number, rank) in &comm.ranks {
                parts.add_rank(comm, (index, *number), rank);
            }
        }
        parts
    }

    pub(crate) fn get(&self, id: PartId) -> Option<&Part> {
        self.all.get(usize::try_from(id).ok()?)
    }

    fn add_rank(&mut self, comm: &Comm, member: Member, rank: &Rank) {
        let collectives = Sequence::ALL.into_iter().flat_map(|sequence| {
            let calls = sequence.tail(rank).list.iter().enumerate();
            calls.map(move |(at, call)| {
                let described = (Operation::Collective(sequence, at), sequence == Sequence::Replays);
                (call.entered_ns, call.place, &call.progress, described)
            })
        });
        let messages = |list: &'_ [Message], make: fn(usize) -> Operation| -> Vec<_> {
            let list = list.iter().enumerate();
            list.filter(|(_, message)| message.peer != member.1)
                .map(|(at, message)| (message.entered_ns, message.place, message.progress.clone(), (make(at), false)))
                .collect()
        };
        let known = messages(&rank.messages, Operation::Message);
        let unknown = messages(&rank.without_peer, Operation::WithoutPeer);
        let mut all: Vec<(u64, Place, Progress, (Operation, bool))> =
            collectives.map(|(ns, place, progress, of)| (ns, place, progress.clone(), of)).collect();
        all.extend(known);
        all.extend(unknown);
        all.sort_by_key(|(entered_ns, ..)| *entered_ns);
        let mut groups: BTreeMap<((u64, u64), bool), usize> = BTreeMap::new();
        for (entered_ns, place, progress, (operation, is_replay)) in all {
            let known = place.group.and_then(|group| groups.get(&(group, is_replay)).copied());
            let at = known.unwrap_or_else(|| {
                let part = Part {
                    member,
                    actor: rank.actor,
                    operations: Vec::new(),
                    called_ns: entered_ns,
                    order_ns: entered_ns,
                    queues: Vec::new(),
                    is_replay,
                    stage: PartStage::Ended,
                    ended_ns: None,
                    by_transfers: false,
                    shows_end: false,
                };
                self.all.push(part);
                self.all.len() - 1
            });
            if let Some(group) = place.group {
                groups.insert((group, is_replay), at);
            }
            if let Some(part) = self.all.get_mut(at) {
                part.add(operation, &place, &progress, comm.size == 1);
            }
        }
    }

    /// What an operation waits for; `None` if its position is not known.
    pub(crate) fn key(&self, job: &Job, part: &Part, operation: Operation) -> Option<Key> {
        let (comm, number) = part.member;
        let rank = job.member(part.member)?;
        match operation {
            Operation::Collective(sequence, at) => {
                let tail = sequence.tail(rank);
                let position = tail.before + u64::try_from(at).ok()?;
                tail.has_positions().then_some(Key::Collective(comm, sequence, position))
            }
            Operation::Message(at) => {
                let message = rank.messages.get(at)?;
                let is_counted = job.process_of(rank).is_some_and(|process| process.kept_since_ns.is_none());
                let (sender, receiver) = if message.is_send { (number, message.peer) } else { (message.peer, number) };
                is_counted.then_some(Key::Message { comm, sender, receiver, number: message.number })
            }
            Operation::WithoutPeer(_) => None,
        }
    }
}

impl Part {
    fn add(&mut self, operation: Operation, place: &Place, progress: &Progress, is_alone: bool) {
        self.operations.push(operation);
        let stage = match progress.stage {
            _ if is_alone => PartStage::Ended,
            stage if stage.is_over() => PartStage::Ended,
            _ if place.is_group_open => PartStage::GroupOpen,
            Stage::Calling | Stage::Launching => PartStage::Calling,
            _ => PartStage::Enqueued,
        };
        self.by_transfers |= progress.stage == Stage::Transferred;
        self.shows_end |= progress.shows_end || matches!(progress.stage, Stage::Running | Stage::Transferred);
        // The part has ended with the last of its operations, and is enqueued with the last, too.
        self.ended_ns =
            if self.operations.len() == 1 { progress.ended_ns } else { self.ended_ns.max(progress.ended_ns) };
        self.stage = self.stage.min(stage);
        if let Some(launched_ns) = place.launched_ns {
            self.order_ns = if self.order_ns == self.called_ns { launched_ns } else { self.order_ns.min(launched_ns) };
        }
        let queue = match (place.stream, place.thread) {
            // The kernels of a graph run on streams of the graph.
            (Some(_) | None, _) if self.is_replay => None,
            (Some(stream), _) => Some(Queue::Stream(self.actor, stream)),
            (None, Some(thread)) => Some(Queue::Thread(self.actor.process, thread)),
            (None, None) => None,
        };
        let sequence = if self.is_replay { Sequence::Replays } else { Sequence::Calls };
        for queue in [Some(Queue::Comm(self.member, sequence)), queue].into_iter().flatten() {
            if !self.queues.contains(&queue) {
                self.queues.push(queue);
            }
        }
    }

    /// Whether it has messages whose peers are not recorded.
    pub(crate) fn lacks_peers(&self) -> bool {
        self.operations.iter().any(|operation| matches!(operation, Operation::WithoutPeer(_)))
    }

    pub(crate) const fn is_enqueued(&self) -> bool {
        matches!(self.stage, PartStage::Enqueued | PartStage::Ended)
    }

    pub(crate) fn has_stream(&self) -> bool {
        self.queues.iter().any(|queue| matches!(queue, Queue::Stream(..)))
    }
}

/// An operation with its description.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Described<'a> {
    Collective(&'a Call),
    Message(&'a Message),
}

impl Job {
    pub(crate) fn described(&self, member: Member, operation: Operation) -> Option<Described<'_>> {
        let rank = self.member(member)?;
        Some(match operation {
            Operation::Collective(sequence, at) => Described::Collective(sequence.tail(rank).list.get(at)?),
            Operation::Message(at) => Described::Message(rank.messages.get(at)?),
            Operation::WithoutPeer(at) => Described::Message(rank.without_peer.get(at)?),
        })
    }
}

impl Described<'_> {
    pub(crate) const fn progress(&self) -> &Progress {
        match self {
            Self::Collective(call) => &call.progress,
            Self::Message(message) => &message.progress,
        }
    }
}
