//! What the plugin keeps: a registry, which is what all lookups go through unless a fault follows the pointer.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use crate::fault::{Fault, is};
use crate::page::{self, Field};

pub(crate) const GROUP: u64 = 1 << 0;
pub(crate) const P2P: u64 = 1 << 2;
pub(crate) const PROXY_OP: u64 = 1 << 3;
pub(crate) const KERNEL_CH: u64 = 1 << 6;
/// The highest of version 7.
const LAST_KIND: u64 = 1 << 15;
/// Groups that fit the pool.
const GROUPS: usize = 16;
/// Events that fit the small pool.
const EVENTS: usize = 4;
const CHANNELS: usize = 64;
/// Where nobody knows the rank: the communicator is not ours.
const FOREIGN: u64 = u64::MAX;

struct Event {
    kind: u64,
    channel: u8,
    context: u64,
    parent: u64,
    gpu_start_ns: u64,
    stopped: bool,
}

struct Communicator {
    rank: u64,
    ended: bool,
}

#[derive(Default)]
pub(crate) struct Record {
    communicators: BTreeMap<u64, Communicator>,
    events: BTreeMap<u64, Event>,
    pooled_groups: BTreeSet<u64>,
    tally: BTreeMap<String, u64>,
}

pub(crate) static RECORD: Mutex<Record> = Mutex::new(Record {
    communicators: BTreeMap::new(),
    events: BTreeMap::new(),
    pooled_groups: BTreeSet::new(),
    tally: BTreeMap::new(),
});

/// What a descriptor says.
pub(crate) struct Described {
    pub(crate) kind: u64,
    pub(crate) context: u64,
    pub(crate) parent: u64,
    pub(crate) rank: u64,
    pub(crate) channel: u8,
    pub(crate) channels: u8,
    pub(crate) gpu_ns: u64,
}

/// Whether version 7 has this kind.
pub(crate) fn is_known(kind: u64) -> bool {
    kind.is_power_of_two() && kind <= LAST_KIND
}

impl Record {
    fn count(&mut self, what: String, how_many: u64) {
        *self.tally.entry(what).or_default() += how_many;
    }

    fn count_kind(&mut self, kind: u64) {
        let name = if is_known(kind) {
            format!("{kind:#x}")
        } else {
            "unknown".to_owned()
        };
        self.count(name, 1);
    }

    /// A new communicator's context.
    pub(crate) fn init(&mut self, rank: u64) -> u64 {
        if is(Fault::OneContext)
            && let Some((&context, communicator)) = self.communicators.iter_mut().next()
        {
            communicator.ended = false;
            return context;
        }
        let context = page::new(0, rank);
        self.communicators
            .insert(context, Communicator { rank, ended: false });
        context
    }

    pub(crate) fn finalize(&mut self, context: u64) {
        let Some(communicator) = self.communicators.get_mut(&context) else {
            return;
        };
        communicator.ended = true;
        if is(Fault::FreeOnFinalize) {
            page::free(context);
            self.events
                .iter()
                .filter(|(_, event)| event.context == context)
                .for_each(|(&event, _)| page::free(event));
        }
    }

    /// Nobody is left who could be logged to.
    pub(crate) fn is_over(&self) -> bool {
        self.communicators
            .values()
            .all(|communicator| communicator.ended)
    }

    pub(crate) fn start(&mut self, new: &Described) -> u64 {
        let communicator = self.communicators.get(&new.context);
        if communicator.is_some_and(|communicator| communicator.ended) && !is(Fault::FreeOnFinalize)
        {
            self.count("late".to_owned(), 1);
            return 0;
        }
        let mut rank = communicator.map_or(FOREIGN, |communicator| communicator.rank);
        if is(Fault::FollowContext) || is(Fault::FreeOnFinalize) {
            rank = page::read(new.context, Field::Rank);
        }
        if is(Fault::TrustRank) {
            rank = new.rank;
        }
        if is(Fault::FollowParent) && new.parent != 0 {
            let parent = page::read(new.parent, Field::Kind);
            self.count(format!("below {parent:#x}"), 1);
        }
        assert!(
            !is(Fault::AssertKnown) || is_known(new.kind),
            "kind {:#x}",
            new.kind
        );
        let mut channels = [false; CHANNELS];
        if is(Fault::SixtyFourChannels) && matches!(new.kind, PROXY_OP | KERNEL_CH) {
            channels[usize::from(new.channel)] = true;
        }
        if is(Fault::TrustChannelCount) && new.kind == P2P {
            channels[..usize::from(new.channels)].fill(true);
        }
        if self.is_full(new.kind) {
            return 0;
        }
        if !is(Fault::CountStopped) && !is(Fault::ByteHeader) {
            self.count_kind(new.kind);
        }
        self.count(
            if rank == FOREIGN {
                "foreign".to_owned()
            } else {
                format!("rank {rank}")
            },
            1,
        );
        let mut header = new.kind;
        if new.kind == KERNEL_CH && is(Fault::ByteHeader) {
            // One byte of kind, and the channel is the next member.
            header = KERNEL_CH | (u64::from(new.channel) << 8);
        }
        let handle = page::new(header, rank);
        if new.kind == GROUP {
            self.pooled_groups.insert(handle);
        }
        let event = Event {
            kind: new.kind,
            channel: new.channel,
            context: new.context,
            parent: new.parent,
            gpu_start_ns: new.gpu_ns,
            stopped: false,
        };
        self.events.insert(handle, event);
        handle
    }

    fn is_full(&self, kind: u64) -> bool {
        let open = || self.events.values().filter(|event| !event.stopped).count();
        (is(Fault::SmallPool) && open() >= EVENTS)
            || (is(Fault::FreeByChildren) && kind == GROUP && self.pooled_groups.len() >= GROUPS)
    }

    /// Whether this fault would look at the handle itself.
    fn follows(handle: u64) -> bool {
        is(Fault::FreeOnStop)
            || is(Fault::FreeOnFinalize)
            || is(Fault::FollowNull)
            || (is(Fault::LateHandle) && handle != 0)
    }

    pub(crate) fn stop(&mut self, handle: u64) {
        if Self::follows(handle) {
            page::read(handle, Field::Kind);
        }
        let Some(event) = self.events.get_mut(&handle) else {
            return;
        };
        if std::mem::replace(&mut event.stopped, true) {
            return;
        }
        let (kind, parent) = (event.kind, event.parent);
        if is(Fault::FreeOnStop) {
            page::free(handle);
        }
        if is(Fault::CountStopped) {
            self.count_kind(kind);
        }
        if is(Fault::ByteHeader) {
            self.count_kind(page::read(handle, Field::Kind));
        }
        if kind == PROXY_OP {
            // The operation's group: its task's parent.
            let group = self.events.get(&parent).map(|task| task.parent);
            group.map(|group| self.pooled_groups.remove(&group));
        }
    }

    pub(crate) fn state(&mut self, handle: u64, gpu_stop_ns: Option<u64>) {
        if Self::follows(handle) {
            page::read(handle, Field::Kind);
        }
        let (Some(event), Some(stop)) = (self.events.get(&handle), gpu_stop_ns) else {
            return;
        };
        let start = event.gpu_start_ns;
        let plausible = start != 0 && stop > start;
        if event.kind == KERNEL_CH && (plausible || is(Fault::TrustGpuTime)) {
            let name = format!("gpu_ns of channel {}", event.channel);
            self.count(name, stop.wrapping_sub(start));
        }
    }

    /// The last line of a name is the one that counts.
    pub(crate) fn print(&self) {
        for (name, count) in &self.tally {
            eprintln!("naive: {name} = {count}");
        }
    }
}
