//! Links events that belong together: call ↔ operation ↔ launch ↔ transfer ↔ channel.
//!
//! NCCL stops Coll and P2p when they are enqueued; only their children show when the work was done:
//!
//! ```text
//!  GroupApi ── CollApi ── Coll ──┬── ProxyOp ── ProxyStep …   network
//!     └── KernelLaunch ╌╌╌╌╌┘    └── KernelCh                 GPU
//!          (same group, same communicator, see [`launches`])
//! ```

mod channels;
pub mod collective;
pub mod derived;
pub mod gpu_clocks;
pub mod gpu_work;
pub mod inferred_ends;
pub mod interval;
pub mod launches;
pub mod operations;
pub mod pxn;
pub mod replays;
pub mod stamps;
pub mod transfers;

use self::derived::DerivedCollectives;
use self::gpu_work::GpuWork;
use self::inferred_ends::InferredEnds;
use self::operations::{Activities, Activity};
use self::pxn::RemoteTransfers;
use self::replays::Replays;
use self::stamps::Stamps;
use self::transfers::Transfers;
use job::ranges::{RangeLinks, begin_of_operation};
use journal::reader::Symbols;
use nccl_events::ids::index;
use tables::Tables;

#[derive(Debug, Default)]
pub struct Links {
    /// One for each Coll, P2p and CeColl, in the order of the journal.
    pub activities: Activities,
    pub stamps: Stamps,
    pub replays: Replays,
    pub derived: DerivedCollectives,
    pub gpu: GpuWork,
    pub transfers: Transfers,
    pub inferred_ends: InferredEnds,
    pub ranges: RangeLinks,
    /// Proxy operations of other processes that count for operations of this process.
    pub remote_operations: u64,
}

impl Links {
    /// Links the events. Times must already be nanoseconds; `remote` is what other processes did for this one (PXN).
    pub fn of(tables: &Tables, symbols: &Symbols, remote: &[RemoteTransfers]) -> Self {
        let inferred_ends = inferred_ends::of(tables);
        let stamps = Stamps::of(tables);
        let mut activities = Activities::of(tables);
        let replays = replays::number(tables, &mut activities);
        let transfers = Transfers::of(tables);
        transfers.add_to(tables, &mut activities);
        channels::add_to(tables, &stamps, &mut activities);
        let remote_operations = pxn::add_to(tables, remote, &mut activities);
        activities.find_unfinished(tables);
        launches::link(tables, &mut activities);
        let gpu = GpuWork::of(tables, symbols, &activities, &replays);
        let derived = DerivedCollectives::of(tables, symbols, &activities);
        let called = activities.all.iter().map(|one| begin_of_operation(tables, one.operation, one.replay.is_some()));
        let of_calls = derived.calls.iter().filter_map(|it| Some((*it.calls.first()?, it.pattern.collective().name())));
        let ranges = RangeLinks::of(tables, symbols, called, of_calls);
        Self { activities, stamps, replays, derived, gpu, transfers, inferred_ends, ranges, remote_operations }
    }

    #[inline]
    pub fn activity(&self, at: u32) -> Option<&Activity> {
        self.activities.all.get(index(at))
    }
}
