//! The operations that `--ops` names.

mod collectives;
mod combined;
mod communicators;
mod messages;
mod repeated;
mod wrong;

pub(crate) use communicators::further_communicators;

use crate::nccl::Version;
use crate::ranges::{BACKWARD, FORWARD, GROUPS, OPTIMIZER};
use crate::rank::Rank;
use anyhow::Context as _;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// The range that it is in.
    phase: &'static str,
    run: fn(&Rank<'_>) -> anyhow::Result<()>,
    /// Whether `all` includes it on this release in this round (counted from 0).
    in_all: fn(Version, u64) -> bool,
}

impl Operation {
    fn run(&self, rank: &Rank<'_>) -> anyhow::Result<()> {
        (self.run)(rank).with_context(|| format!("rank {}, {} of round {}", rank.me(), self.name, rank.round()))
    }
}

/// Those of a phase that follow each other are in one range.
pub(crate) fn run_all(operations: &[Operation], rank: &Rank<'_>) -> anyhow::Result<()> {
    operations.chunk_by(|one, next| one.phase == next.phase).try_for_each(|chunk| {
        let run = || chunk.iter().try_for_each(|operation| operation.run(rank));
        rank.shared.ranges.within(chunk[0].phase, None, run)
    })
}

/// NCCL 2.29 and 2.30 do not profile broadcasts, and the kernel's count of works runs ahead of the host's after
/// batched broadcasts and sends to oneself: a profiler that asks for kernel channels can then make NCCL wait for
/// ever for a work that was not profiled.
fn counts_broadcasts(version: Version) -> bool {
    !(22900..23100).contains(&version.0)
}

const fn operation(
    name: &'static str,
    phase: &'static str,
    run: fn(&Rank<'_>) -> anyhow::Result<()>,
    in_all: fn(Version, u64) -> bool,
) -> Operation {
    Operation { name, phase, run, in_all }
}

#[rustfmt::skip]
const OPERATIONS: &[Operation] = &[
    operation("pause", FORWARD, wrong::pause, |_, _| false),
    operation("one", BACKWARD, collectives::one, |_, _| false),
    operation("allreduce", FORWARD, collectives::all_reduce, |_, _| true),
    operation("broadcast", FORWARD, collectives::broadcast, |version, round| counts_broadcasts(version) || round == 0),
    operation("reduce", FORWARD, collectives::reduce, |_, _| true),
    operation("allgather", BACKWARD, collectives::all_gather, |_, _| true),
    operation("reducescatter", BACKWARD, collectives::reduce_scatter, |_, _| true),
    operation("sendrecv", BACKWARD, messages::ring, |_, _| true),
    operation("alltoall", BACKWARD, messages::all_to_all, |_, _| true),
    operation("group", OPTIMIZER, combined::group, |_, _| true),
    // Before 2.26.5 a graph after any other operation stops the kernel-channel events and hangs the end.
    operation("graph", OPTIMIZER, combined::graph, |version, _| !(22600..22605).contains(&version.0)),
    operation("bcasts", OPTIMIZER, combined::broadcasts, |version, _| counts_broadcasts(version)),
    operation("calls28", OPTIMIZER, messages::calls_of_2_28, |version, _| version >= Version(22800)),
    operation("split", GROUPS, communicators::split, |_, _| true),
    operation("several", GROUPS, communicators::alternating, |_, _| false),
    operation("threads", GROUPS, communicators::by_threads, |_, _| false),
    operation("uneven", GROUPS, communicators::uneven, |_, _| false),
    operation("repeat", BACKWARD, repeated::repeat, |_, _| false),
    operation("late", BACKWARD, wrong::late, |_, _| false),
    operation("mismatch", BACKWARD, wrong::mismatch, |_, _| false),
    operation("init", GROUPS, wrong::init, |_, _| false),
];

pub(crate) fn operations_of_round(names: &[String], version: Version, round: u64) -> Vec<Operation> {
    let all = names.iter().any(|name| name == "all");
    OPERATIONS
        .iter()
        .filter(|op| names.iter().any(|name| name == op.name) || (all && (op.in_all)(version, round)))
        .copied()
        .collect()
}

pub(crate) fn check_names(names: &[String]) -> anyhow::Result<()> {
    for name in names {
        let known = name == "all" || OPERATIONS.iter().any(|op| op.name == name);
        anyhow::ensure!(
            known,
            "--ops: no operation {name:?}; there are all, {}",
            OPERATIONS.iter().map(|op| op.name).collect::<Vec<_>>().join(", ")
        );
    }
    Ok(())
}
