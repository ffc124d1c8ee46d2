//! Groups operations into kernels, and finds their launches.

use std::cmp::Reverse;

use analysis::Role;
use analysis::read::Tables;
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, RegionClass, Timing};
use nccl_events::ids::index;

use crate::error::Result;
use crate::source::Source;

/// The operations of a rank that ran at the same time. A communicator runs one kernel after the other.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) member: u32,
    /// Its first operation; the enclosing one, if the others are parts of a collective.
    pub(super) operation: u32,
    pub(super) operations: u32,
    pub(super) start_ns: u64,
    pub(super) stop_ns: u64,
    /// The id of the launch; if none was recorded, that of the operation, whose enqueueing stands for the launch.
    pub(super) launch: u64,
    pub(super) launched_ns: Option<u64>,
    pub(super) is_measured: bool,
}

#[derive(Debug, Default)]
pub(super) struct Kernels {
    pub(super) all: Vec<Kernel>,
    of_operation: Vec<Option<u32>>,
    by_launch: Vec<(u64, u32)>,
}

#[derive(Clone, Copy)]
struct Enqueued {
    operation: u64,
    /// The preceding launch on its thread, which belongs to its launch plan; 0 if there is none.
    launch: u64,
    launched_ns: u64,
}

impl Kernels {
    pub(super) fn of(source: &Source<'_>, tables: &Tables) -> Result<Self> {
        let enqueued = enqueued(source)?;
        let operations = &tables.operations;
        let mut rows: Vec<(u32, _)> = (0..).zip(operations.rows()).filter(|(_, it)| !it.is_unfinished).collect();
        let is_message = |sequence| sequence == analysis::read::NO_SEQUENCE;
        rows.sort_by_key(|(row, it)| (it.member, it.start_ns, Reverse(it.stop_ns), is_message(it.sequence), *row));
        let mut found = Self { of_operation: vec![None; operations.len()], ..Self::default() };
        // The last kernel with known times, and the last with only its enqueueing known.
        let mut last: [Option<usize>; 2] = [None; 2];
        for (row, operation) in rows {
            let is_enqueueing = operation.timing == Some(Timing::Enqueue);
            let host = enqueued.binary_search_by_key(&operation.event, |it| it.operation);
            let host = host.ok().and_then(|at| enqueued.get(at));
            let launch = host.map_or(0, |it| if it.launch == 0 { it.operation } else { it.launch });
            let joined = last[usize::from(is_enqueueing)].filter(|at| {
                let kernel = &found.all[*at];
                let is_same = if is_enqueueing { kernel.launch == launch } else { operation.start_ns < kernel.stop_ns };
                kernel.member == operation.member && is_same
            });
            let is_measured = operation.timing.is_none_or(Timing::is_measured);
            let at = joined.unwrap_or(found.all.len());
            if joined.is_some() {
                let kernel = &mut found.all[at];
                kernel.operations += 1;
                kernel.stop_ns = kernel.stop_ns.max(operation.stop_ns);
                kernel.is_measured |= is_measured;
                // A collective made of messages is enqueued as these messages.
                if kernel.launch == 0 {
                    (kernel.launch, kernel.launched_ns) = (launch, host.map(|it| it.launched_ns));
                }
            } else {
                last[usize::from(is_enqueueing)] = Some(at);
                found.all.push(Kernel {
                    member: operation.member,
                    operation: row,
                    operations: 1,
                    start_ns: operation.start_ns,
                    stop_ns: operation.stop_ns,
                    launch,
                    launched_ns: host.map(|it| it.launched_ns),
                    is_measured,
                });
            }
            found.of_operation[index(row)] = u32::try_from(at).ok();
        }
        let launches = (0..).zip(&found.all).filter(|(_, it)| it.launch != 0);
        found.by_launch = launches.map(|(number, it)| (it.launch, number)).collect();
        found.by_launch.sort_unstable();
        found.by_launch.dedup_by_key(|(launch, _)| *launch);
        Ok(found)
    }

    /// The number of an operation's kernel; `None` if the operation had not ended.
    pub(super) fn of_operation(&self, row: u32) -> Option<u32> {
        self.of_operation.get(index(row)).copied().flatten()
    }

    /// The number of the kernel launched by a launch, or by the enqueueing that stands for it.
    pub(super) fn of_launch(&self, event: u64) -> Option<u32> {
        let at = self.by_launch.binary_search_by_key(&event, |(launch, _)| *launch).ok()?;
        self.by_launch.get(at).map(|(_, number)| *number)
    }

    pub(super) fn get(&self, number: u32) -> &Kernel {
        &self.all[index(number)]
    }

    pub(super) fn of_member(&self, member: u32) -> std::ops::Range<usize> {
        self.all.partition_point(|it| it.member < member)..self.all.partition_point(|it| it.member <= member)
    }
}

fn enqueued(source: &Source<'_>) -> Result<Vec<Enqueued>> {
    let trace = source.trace;
    let threads = trace.locations_of(&[LocationKind::ApiThread, LocationKind::CallbackThread]);
    let found = source.each_location(&threads, |location| {
        let mut found = Vec::new();
        let mut launch = None;
        trace.slices(location, |slice| {
            let fields = trace.fields_of(&slice.attributes);
            let is_operation = matches!(slice.role, Some(Role::Call(Kind::Coll | Kind::P2p | Kind::CeColl)));
            match (trace.region(slice.region).map(|it| it.class), fields.event) {
                (Some(RegionClass::Launch), Some(event)) => launch = Some((event, slice.start_ns)),
                (Some(RegionClass::Enqueue), Some(operation)) if is_operation => {
                    let (launch, launched_ns) = launch.unwrap_or((0, slice.start_ns));
                    found.push(Enqueued { operation, launch, launched_ns });
                }
                // The group's launches are over.
                (Some(RegionClass::Api), _) => launch = None,
                _ => {}
            }
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(found)
    })?;
    let mut found = found.concat();
    found.sort_unstable_by_key(|it| it.operation);
    Ok(found)
}
