//! Exports of what a job asked NCCL for, to programs that simulate or measure it. A format is a module with one public
//! function, `write(source, out) -> Result<Outcome>`, as in the other modules.
//!
//! ```text
//!  Calls, Operation   the operations of a rank, as the program called them
//!   ├► chakra         an execution trace for each rank, for ASTRA-sim and Chakra's tools
//!   └► nccl_tests     a script that measures the job's operations with nccl-tests
//! ```

use std::cmp::Reverse;
use std::ops::ControlFlow;

use crate::{Result, Selection, Source};
use analysis::read::{Member, Members, NONE};
use analysis::{Role, Slice, Trace};
use nccl_events::archive::{LocationKind, RegionClass, Timing};
use nccl_events::collective::{Collective, Function};
use nccl_events::ids::index;
use otf2::LocationRef;

pub mod chakra;
pub mod nccl_tests;

/// The calls of the selected threads.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Event ids of calls, ascending, with the ids of their groups.
    groups: Vec<(u64, u64)>,
    /// Event ids of calls of collectives.
    pub(crate) collectives: Vec<u64>,
}

impl Calls {
    pub(crate) fn read(source: &Source<'_>, selection: &Selection<'_>) -> Result<Self> {
        let trace = source.trace;
        let thread_calls =
            source.each_location(&selection.locations_of_kinds(&[LocationKind::ApiThread]), |location| {
                let mut found = Self::default();
                trace.slices(location, |slice| {
                    let fields = trace.fields_of(&slice.attributes);
                    let is_call = trace.region(slice.region).is_some_and(|region| region.class == RegionClass::Api);
                    if let Some(event) = fields.event.filter(|_| is_call) {
                        found.groups.extend(fields.group_of_call().map(|group| (event, group)));
                        let collective = trace.function(slice.region).and_then(Function::collective);
                        found.collectives.extend(collective.map(|_| event));
                    }
                    ControlFlow::Continue(())
                })?;
                Ok(found)
            })?;
        let mut all = Self::default();
        for found in thread_calls {
            all.groups.extend(found.groups);
            all.collectives.extend(found.collectives);
        }
        all.groups.sort_unstable();
        Ok(all)
    }

    /// The id of a call's group. Returns `call` itself if the call has no group, or if `call` is the id of a group.
    fn group(&self, call: u64) -> u64 {
        let at = self.groups.binary_search_by_key(&call, |(call, _)| *call);
        at.ok().and_then(|at| self.groups.get(at)).map_or(call, |(_, group)| *group)
    }
}

/// An operation of a rank, as the program called it: an all-to-all, not the messages that it is made of.
#[derive(Clone, Debug)]
pub(crate) struct Operation<D> {
    /// Row of [`Members`].
    pub(crate) member: u32,
    /// `None` if this version does not know the function.
    pub(crate) function: Option<Function>,
    /// Element count times element size.
    pub(crate) bytes: u64,
    /// The other end of a send or receive; [`NONE`] if unknown.
    pub(crate) peer: u32,
    pub(crate) start_ns: u64,
    pub(crate) stop_ns: u64,
    /// Whether the archive has the time when the operation ran, not only when it was enqueued.
    pub(crate) is_timed: bool,
    pub(crate) is_unfinished: bool,
    pub(crate) event: u64,
    /// Event id of the call; 0 if unknown.
    pub(crate) call: u64,
    /// Id of the group of calls, and number of the replay if a CUDA graph runs it. Operations for which both are equal
    /// run at the same time.
    pub(crate) group: (u64, u64),
    pub(crate) details: D,
}

/// For each rank of the job, the selected locations that contain its operations.
pub(crate) fn locations(trace: &Trace, members: &Members, selection: &Selection<'_>) -> Vec<Vec<LocationRef>> {
    let mut found = vec![Vec::new(); members.job_ranks.len()];
    for location in selection.locations_of_kinds(&[LocationKind::Communicator]) {
        if let Some((_, member)) = member(trace, members, location) {
            found[index(member.job_rank)].push(location);
        }
    }
    found
}

fn member<'a>(trace: &Trace, members: &'a Members, location: LocationRef) -> Option<(u32, &'a Member)> {
    let (comm, rank) = trace.rank_of(location)?;
    let communicator = members.communicators.binary_search(&comm).ok()?;
    let row = members.find(u32::try_from(communicator).ok()?, rank)?;
    Some((row, members.row(row)))
}

/// Reads the operations of locations, sorted by member and start. Leaves out the messages of an all-to-all. For gathers
/// and scatters, keeps the messages and leaves out the collective, which only the root records.
pub(crate) fn read<D>(
    trace: &Trace,
    members: &Members,
    (selection, calls): (&Selection<'_>, &Calls),
    locations: &[LocationRef],
    details: impl Fn(&Slice) -> D,
) -> Result<Vec<Operation<D>>> {
    let mut found = Vec::new();
    for location in locations {
        let Some((member, _)) = member(trace, members, *location) else {
            continue;
        };
        selection.slices(*location, |slice| {
            if !matches!(slice.role, Some(Role::Operation(_))) {
                return;
            }
            let fields = trace.fields_of(&slice.attributes);
            let call = fields.parent.unwrap_or(0);
            found.push(Operation {
                member,
                function: trace.function(slice.region),
                bytes: fields.bytes.unwrap_or(0),
                peer: fields.peer.unwrap_or(NONE),
                start_ns: slice.began_ns(),
                stop_ns: slice.stop_ns,
                is_timed: fields.timing != Some(Timing::Enqueue),
                is_unfinished: fields.is_unfinished == Some(true),
                event: fields.event.unwrap_or(0),
                call,
                group: (calls.group(call), fields.replay.unwrap_or(0)),
                details: details(slice),
            });
        })?;
    }
    found.sort_by_key(|operation| {
        (operation.member, operation.start_ns, Reverse(operation.stop_ns), operation.is_message(), operation.event)
    });
    let is_counted = as_called(&found);
    let mut is_counted = is_counted.into_iter();
    found.retain(|_| is_counted.next().unwrap_or(true));
    Ok(found)
}

impl<D> Operation<D> {
    pub(crate) fn is_message(&self) -> bool {
        self.function.and_then(Function::collective).is_none()
    }
}

/// Whether to keep each of the sorted operations: one entry per operation.
fn as_called<D>(operations: &[Operation<D>]) -> Vec<bool> {
    let mut is_counted = vec![true; operations.len()];
    for (at, around) in operations.iter().enumerate() {
        let collective = around.function.and_then(Function::collective);
        let is_all_to_all = match collective {
            Some(Collective::AlltoAll) => true,
            Some(Collective::Gather | Collective::Scatter) => false,
            _ => continue,
        };
        let is_part = |operation: &&Operation<D>| {
            operation.is_message() && (operation.member, operation.group) == (around.member, around.group)
        };
        let parts = operations[at + 1..].iter().take_while(is_part).count();
        if is_all_to_all {
            is_counted[at + 1..=at + parts].fill(false);
        } else {
            is_counted[at] = parts == 0;
        }
    }
    is_counted
}
