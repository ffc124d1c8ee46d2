//! Call ↔ collective ↔ proxy ↔ kernel, by parent ids: what a collective or point-to-point operation
//! really did and when.
//!
//! NCCL stops Coll and P2p when they are enqueued; the work shows only in their children:
//!
//! ```text
//!  GroupApi ── CollApi ── Coll ──┬── ProxyOp ── ProxyStep …   network
//!     └── KernelLaunch ╌╌╌╌╌┘    └── KernelCh                 GPU
//!          (same group, same communicator, see [`launches`])
//! ```

use nccl_events::event;
use std::collections::BTreeMap;

use crate::links::closing;
use crate::links::composites::Composites;
use crate::links::gpu_work::GpuWork;
use crate::links::launches;
use crate::links::replays::Replays;
use crate::links::stamps::Stamps;
use crate::tables::assembly::{Assembly, Operation};
use crate::tables::place::{NOWHERE, index, place};
use crate::tables::place_set::PlaceSet;
use journal::reader::Symbols;
use nccl_events::Body;
use nccl_events::Kind;

/// What belongs to one Coll, P2p or CeColl (which has no children that tell when it ran).
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    /// The Coll, P2p or CeColl: a place in [`Assembly::operations`].
    pub operation: u32,
    /// The launch plan (one kernel) of a Coll or P2p: the handle of its Group; 0 for none.
    pub plan: u64,
    /// Its kernel launch: a place in [`Assembly::operations`], or past its end.
    pub launch: u32,
    /// Whether the launch is this operation's own, not one captured in a graph before.
    pub launch_is_own: bool,
    /// Proxy operations that are its children.
    pub proxies: u32,
    /// The last stop of them.
    pub proxy_last: Option<u64>,
    /// Kernel channels that are its children.
    pub kernel_channels: u32,
    /// First start and last stop on the GPU's timer, of the stamps that can be trusted.
    pub gpu: Option<(u64, u64)>,
    /// First start and last stop as told on the host.
    pub kernel_host: Option<(u64, u64)>,
    /// Whether its own stop is missing.
    has_no_stop: bool,
    /// Whether some of it never ended.
    pub unfinished: bool,
    /// Bytes sent on the network, as far as NCCL told.
    pub bytes_sent: u64,
    /// Bytes received from the network, as far as NCCL told.
    pub bytes_received: u64,
}

/// The links between the operations of a process.
#[derive(Debug, Default)]
pub struct Correlation {
    /// One for each Coll, P2p and CeColl, in the order of the operations.
    pub activities: Vec<Activity>,
    /// Which GPU stamps can be trusted.
    pub stamps: Stamps,
    /// Which of them are replays of a CUDA graph.
    pub replays: Replays,
    /// Which of them make a collective together.
    pub composites: Composites,
    /// What GPUs did, and for which operations.
    pub gpu: GpuWork,
    /// By place of the operation: its activity, the how-manieth proxy operation it is, or [`NOWHERE`].
    by_operation: Vec<u32>,
    /// Of the steps of each proxy operation.
    steps: Vec<Steps>,
    /// Proxy operations on connections that NCCL never reports on.
    silent: PlaceSet,
    /// Proxy operations that are, or may be, for operations of other processes.
    for_others: Vec<u32>,
    /// Ends that NCCL did not report, by place of the operation.
    closed: BTreeMap<u32, u64>,
}

/// The bit of a number that is a proxy operation's; [`NOWHERE`] has it, too, and there are not so many.
const PROXY: u32 = 1 << 31;

/// The steps of a proxy operation.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    /// What they moved, together.
    bytes: u64,
    any: bool,
}

/// A network connection, while it is looked for a sign of life.
#[derive(Debug, Default)]
struct Connection {
    speaks: bool,
    open: Vec<u32>,
}

fn widen(interval: Option<(u64, u64)>, start: u64, end: u64) -> Option<(u64, u64)> {
    Some(interval.map_or((start, end), |(first, last)| {
        (first.min(start), last.max(end))
    }))
}

impl Correlation {
    /// Links the operations. Times must be nanoseconds already.
    #[must_use]
    pub fn of(assembly: &Assembly, symbols: &Symbols) -> Self {
        let mut correlation = Self {
            by_operation: vec![NOWHERE; assembly.operations.len()],
            closed: closing::ends(assembly),
            stamps: Stamps::of(assembly),
            replays: Replays::of(assembly),
            ..Self::default()
        };
        correlation.find_activities(assembly);
        correlation.add_steps(assembly);
        correlation.find_silent(assembly);
        correlation.add_children(assembly);
        launches::link(assembly, &correlation.replays, &mut correlation.activities);
        correlation.gpu = GpuWork::of(
            assembly,
            symbols,
            &correlation.activities,
            &correlation.replays,
        );
        correlation.composites = Composites::of(
            assembly,
            symbols,
            &correlation.activities,
            &correlation.replays,
        );
        correlation
    }

    /// The place of the activity of a Coll or P2p.
    #[must_use]
    pub fn place_of(&self, operation: Option<u32>) -> Option<u32> {
        let at = self.by_operation.get(index(operation?)).copied()?;
        (at & PROXY == 0).then_some(at)
    }

    /// The steps of a proxy operation.
    fn steps_of(&self, at: u32) -> Option<Steps> {
        let at = self.by_operation.get(index(at)).copied()?;
        self.steps
            .get(index(at & !PROXY))
            .copied()
            .filter(|_| at & PROXY != 0)
    }

    /// The activity of a Coll or P2p.
    #[must_use]
    pub fn activity_of(&self, operation: Option<u32>) -> Option<&Activity> {
        self.activities.get(index(self.place_of(operation)?))
    }

    /// The network bytes of a proxy operation: the sum of its steps, or what v1–v3 said themselves.
    #[must_use]
    pub fn proxy_bytes(&self, assembly: &Assembly, at: u32) -> u64 {
        let steps = self.steps_of(at).map_or(0, |steps| steps.bytes);
        steps.max(assembly.values.get(at))
    }

    /// Whether NCCL never reports on the connection of this proxy operation: then a missing stop says
    /// nothing (CollNet, shared memory and peer-to-peer proxies since 2.27).
    #[must_use]
    pub fn is_silent(&self, at: u32) -> bool {
        self.silent.contains(at)
    }

    /// Proxy operations for other processes: their context is another's, or their parent.
    pub fn transfers_for_others<'a>(
        &'a self,
        assembly: &'a Assembly,
    ) -> impl Iterator<Item = (u32, &'a Operation)> {
        let places = self.for_others.iter();
        places.filter_map(|&at| Some((at, assembly.operation(at)?)))
    }

    /// When something without a stop had ended, where something else tells, see [`closing`].
    #[must_use]
    pub fn closed_at(&self, at: u32) -> Option<u64> {
        self.closed.get(&at).copied()
    }

    fn activity_mut(&mut self, operation: Option<u32>) -> Option<&mut Activity> {
        let at = self.place_of(operation)?;
        self.activities.get_mut(index(at))
    }

    fn find_activities(&mut self, assembly: &Assembly) {
        let kinds = [Kind::Coll, Kind::P2p, Kind::CeColl];
        let count = kinds.map(|kind| assembly.places_of(kind).len());
        self.activities.reserve_exact(count.iter().sum());
        for (at, operation) in assembly.of_kinds(kinds) {
            if let Some(link) = self.by_operation.get_mut(index(at)) {
                *link = place(self.activities.len());
            }
            self.activities.push(Activity {
                operation: at,
                plan: assembly.launch_plan(operation),
                launch: NOWHERE,
                launch_is_own: false,
                proxies: 0,
                proxy_last: None,
                kernel_channels: 0,
                gpu: None,
                kernel_host: None,
                has_no_stop: operation.end().is_none(),
                unfinished: false,
                bytes_sent: 0,
                bytes_received: 0,
            });
        }
    }

    fn add_steps(&mut self, assembly: &Assembly) {
        let proxies = assembly.places_of(Kind::ProxyOp);
        for (number, &at) in (0..).zip(proxies) {
            if let Some(link) = self.by_operation.get_mut(index(at)) {
                *link = PROXY | number;
            }
        }
        self.steps = vec![Steps::default(); proxies.len()];
        for (_, operation) in assembly.of_kind(Kind::ProxyStep) {
            let parent = operation.parent_at();
            let number = parent.and_then(|at| self.by_operation.get(index(at)));
            let number = number.filter(|&number| number & PROXY != 0);
            if let Some(steps) = number.and_then(|at| self.steps.get_mut(index(at & !PROXY))) {
                steps.bytes += operation.step_bytes();
                steps.any = true;
            }
        }
    }

    /// A connection of which no operation ever had a state, a step or a stop.
    fn find_silent(&mut self, assembly: &Assembly) {
        let speaks = |(at, operation): (u32, &Operation)| {
            let has_steps = || self.steps_of(at).is_some_and(|steps| steps.any);
            operation.end().is_some() || operation.states_seen != 0 || has_steps()
        };
        if assembly.counts.kinds.get(Kind::ProxyOp).unfinished == 0 {
            return;
        }
        let mut connections: BTreeMap<(u64, bool, u8, i32, bool), Connection> = BTreeMap::new();
        for (at, operation) in assembly.of_kind(Kind::ProxyOp) {
            let Body::ProxyOp(event::ProxyOp {
                channel,
                peer,
                is_send,
                ..
            }) = assembly.fields_of(operation)
            else {
                continue;
            };
            let foreign = assembly.is_foreign(operation);
            let context = assembly.context_of(operation);
            let key = (context, foreign, channel, peer, is_send);
            let connection = connections.entry(key).or_default();
            connection.speaks |= speaks((at, operation));
            if !connection.speaks {
                connection.open.push(at);
            }
        }
        for connection in connections.into_values() {
            if !connection.speaks {
                self.silent.extend(connection.open);
            }
        }
    }

    fn add_children(&mut self, assembly: &Assembly) {
        for (at, operation) in assembly.of_kinds([Kind::ProxyOp, Kind::KernelCh]) {
            let parent = operation.parent_at();
            match assembly.fields_of(operation) {
                Body::ProxyOp(event::ProxyOp { is_send, .. }) => {
                    let bytes = self.proxy_bytes(assembly, at);
                    let silent = self.is_silent(at);
                    if assembly.is_foreign(operation)
                        || assembly.is_of_another_process(operation.parent)
                    {
                        self.for_others.push(at);
                    }
                    let Some(activity) = self.activity_mut(parent) else {
                        continue;
                    };
                    activity.proxies += 1;
                    activity.proxy_last = activity.proxy_last.max(operation.end());
                    activity.unfinished |= operation.end().is_none() && !silent;
                    if is_send {
                        activity.bytes_sent += bytes;
                    } else {
                        activity.bytes_received += bytes;
                    }
                }
                Body::KernelCh(event::KernelCh { .. }) => {
                    let stamps = self.stamps.of_channel(assembly, at, operation);
                    let Some(activity) = self.activity_mut(parent) else {
                        continue;
                    };
                    activity.kernel_channels += 1;
                    activity.unfinished |= operation.end().is_none();
                    if let Some((start, stop)) = stamps {
                        activity.gpu = widen(activity.gpu, start, stop);
                    }
                    if let Some(end) = operation.end() {
                        activity.kernel_host = widen(activity.kernel_host, operation.start, end);
                    }
                }
                _ => {}
            }
        }
        for help in &assembly.help {
            let Some(activity) = self.activity_mut(assembly.find(help.parent)) else {
                continue;
            };
            activity.proxies += help.operations;
            activity.proxy_last = activity.proxy_last.max(help.last_ns);
            activity.unfinished |= help.unfinished;
            activity.bytes_sent += help.bytes_sent;
            activity.bytes_received += help.bytes_received;
        }
        for activity in &mut self.activities {
            // A stop that got lost says nothing against children that ended.
            let nothing_ended = activity.proxy_last.is_none() && activity.kernel_host.is_none();
            activity.unfinished |= activity.has_no_stop && nothing_ended;
        }
    }
}
