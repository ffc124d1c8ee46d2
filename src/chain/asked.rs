//! What each chained plugin asks for. Each has its own mask, which it may change at any time, as it may change NCCL's;
//! this plugin's mask is not among them.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nccl_events::{Kind, completed};

use super::PLUGINS;
use crate::host::{mask, process};

/// How often the masks are checked: the longest time until NCCL learns of a plugin's new request.
const INTERVAL: Duration = Duration::from_millis(50);

static MASKS: [AtomicI32; PLUGINS] = [const { AtomicI32::new(0) }; PLUGINS];
/// The kinds that a plugin can get: all, or the kinds of the older table through which it is called; none until its
/// `init` has succeeded once.
static MOST: [AtomicU32; PLUGINS] = [const { AtomicU32::new(0) }; PLUGINS];

/// The mask of a plugin, passed to its `init` as NCCL passes its own.
pub(crate) fn mask_of(plugin: usize) -> Option<&'static AtomicI32> {
    MASKS.get(plugin)
}

/// A plugin has a communicator. The table through which it is called has these kinds.
pub(crate) fn begin_use(plugin: usize, kinds: u32) {
    if let Some(most) = MOST.get(plugin) {
        most.store(kinds, Ordering::Relaxed);
    }
}

fn most(plugin: usize) -> u32 {
    MOST.get(plugin).map_or(0, |most| most.load(Ordering::Relaxed))
}

/// Whether a plugin has had a communicator.
pub(crate) fn is_in_use(plugin: usize) -> bool {
    most(plugin) != 0
}

fn asked(plugin: usize) -> u32 {
    let asked = MASKS.get(plugin).map_or(0, |mask| mask.load(Ordering::Relaxed)).cast_unsigned();
    asked & most(plugin)
}

/// The plugins that get events of a type: bit n is plugin n.
pub(crate) fn asked_by(event_type: u64) -> u32 {
    let gets = |plugin| u64::from(started_for(asked(plugin)) & most(plugin)) & event_type != 0;
    (0..PLUGINS).map(|plugin| u32::from(gets(plugin)) << plugin).sum()
}

pub(crate) fn asks_for(kind: Kind) -> bool {
    asked_by(kind.mask().into()) != 0
}

/// Makes NCCL call for what the plugins ask for now.
pub(crate) fn note_asked() {
    mask::add_chained((0..PLUGINS).map(asked).fold(0, |all, one| all | one));
}

/// Keeps NCCL calling for what the plugins ask for, as long as they are called. A plugin may write its mask at any time
/// without notice: NCCL does not report it to this plugin, and makes no callback if nobody asks for anything. Also used
/// if nothing is recorded, when the maintenance thread does not run.
pub(crate) fn follow_masks(are_called: fn() -> bool) {
    // If no thread can be started, the masks are followed at each `init`.
    let _refused = process::spawn("nccl-otf2-chain", 64 << 10, move || {
        while are_called() {
            note_asked();
            thread::sleep(INTERVAL);
        }
    });
}

/// The kinds that NCCL starts for a mask: a kind implies its parents (NCCL 2.30.7 and 2.31.2 `profiler.cc`).
const fn started_for(mask: u32) -> u32 {
    const TASKS: u32 = Kind::Coll.mask() | Kind::P2p.mask();
    const CALLS: u32 = Kind::CollApi.mask() | Kind::P2pApi.mask() | Kind::KernelLaunch.mask();
    const NET: u32 = Kind::ProxyStep.mask() | Kind::NetPlugin.mask();
    // From children to parents: a rule may add a child kind of a later rule.
    const RULES: [(u32, u32); 7] = [
        (Kind::KernelPhase.mask(), Kind::KernelCh.mask()),
        (NET, Kind::ProxyOp.mask() | Kind::ProxyStep.mask()),
        (Kind::ProxyOp.mask() | Kind::KernelCh.mask(), TASKS),
        (Kind::Coll.mask(), Kind::Group.mask() | Kind::CollApi.mask()),
        (Kind::P2p.mask(), Kind::Group.mask() | Kind::P2pApi.mask()),
        (Kind::Group.mask() | CALLS, Kind::GroupApi.mask()),
        (Kind::CeSync.mask() | Kind::CeBatch.mask(), Kind::CeColl.mask()),
    ];
    completed(mask, &RULES)
}
