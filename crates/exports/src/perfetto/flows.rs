//! Arrows: slices with the same flow id are connected in the order of their starts.

use std::collections::BTreeMap;

use analysis::read::{NONE, Tables};
use analysis::{Fields, MatchedCollectives, RegionInfo, Role};
use nccl_events::Kind;
use nccl_events::archive::{LocationKind, RegionClass};
use nccl_events::collective::Function;
use nccl_events::ids::index;

use super::tracks::{Space, Uuids};
use crate::error::Result;
use crate::source::Source;

pub(super) struct Flows {
    uuids: Uuids,
    /// By operation id: the collectives, messages and transfers that the operation is part of. Ascending.
    of_operations: Vec<(u64, u64)>,
    /// Whether calls were recorded; if not, an operation's flow starts at its enqueueing.
    has_calls: bool,
}

#[derive(Default)]
pub(super) struct Group {
    /// For each call: id of the group, stream, and id of the call.
    calls: Vec<(Option<u64>, Option<u64>, u64)>,
}

pub(super) struct Begun<'a> {
    pub(super) region: Option<RegionInfo<'a>>,
    pub(super) is_on_stream: bool,
    pub(super) fields: Chained<'a>,
}

nccl_events::fields! {
    pub(super) struct Chained {
        event: Event,
        parent: Parent,
        stream: Stream,
    }
}

impl Flows {
    pub(super) fn of(source: &Source<'_>) -> Result<Self> {
        let trace = source.trace;
        let uuids = Uuids::of(trace);
        let tables = Tables::read(trace, source.progress)?;
        let collectives = MatchedCollectives::of(trace, &tables, source.filter);
        let event = |row: u32| tables.operations.event.get(index(row));
        let mut found = Vec::new();
        for (number, instance) in (0..).zip(&collectives.all) {
            let rows = collectives.operations(instance).iter();
            found.extend(rows.map(|row| (event(*row), uuids.of_id(Space::Collective, number))));
        }
        let transfer = |fields: Fields<'_>| fields.parent.zip(fields.event);
        let transfers = source.fields(LocationKind::Connection, transfer)?.into_iter();
        found.extend(transfers.map(|(operation, event)| (operation, uuids.of_id(Space::Transfer, event))));
        for (number, (send, receive)) in (0..).zip(messages(source, &tables)) {
            let flow = uuids.of_id(Space::Message, number);
            found.extend([(send, flow), (receive, flow)]);
        }
        found.sort_unstable();
        let is_call = |role| matches!(role, Role::Call(Kind::CollApi | Kind::P2pApi));
        let has_calls = trace.definitions.regions.keys().any(|region| trace.role(*region).is_some_and(is_call));
        Ok(Self { uuids, of_operations: found, has_calls })
    }

    /// Adds the flows of a slice. `group` holds the preceding calls on the same location.
    pub(super) fn add(&self, begun: &Begun<'_>, group: &mut Group, flows: &mut Vec<u64>) {
        let chain = |id: u64| self.uuids.of_id(Space::Chain, id);
        let fields = &begun.fields;
        if begun.is_on_stream {
            return flows.extend(fields.parent.map(chain));
        }
        let (Some(region), Some(event)) = (begun.region, fields.event) else {
            return;
        };
        match region.class {
            RegionClass::Api if matches!(region.kind, Some(Kind::CollApi | Kind::P2pApi)) => {
                group.calls.push((fields.parent, fields.stream, event));
                flows.push(chain(event));
            }
            RegionClass::Launch => {
                let is_of = |it: &&(Option<u64>, Option<u64>, u64)| it.0 == fields.parent && it.1 == fields.stream;
                flows.extend(group.calls.iter().filter(is_of).map(|(.., call)| chain(*call)));
                flows.push(chain(event));
            }
            RegionClass::Enqueue if !self.has_calls || region.kind == Some(Kind::Group) => flows.push(chain(event)),
            RegionClass::Operation => {
                flows.extend([Some(event), fields.parent].into_iter().flatten().map(chain));
                let begin = self.of_operations.partition_point(|(operation, _)| *operation < event);
                let own = self.of_operations.iter().skip(begin).take_while(|(operation, _)| *operation == event);
                flows.extend(own.map(|(_, flow)| *flow));
            }
            RegionClass::Network if region.kind == Some(Kind::ProxyOp) => {
                flows.push(self.uuids.of_id(Space::Transfer, event));
            }
            _ => {}
        }
    }
}

/// The ids of sends and of their receives: NCCL matches messages of two ranks in order. If the messages of a rank and
/// its peer differ, it is unknown which one is missing.
fn messages(source: &Source<'_>, tables: &Tables) -> Vec<(u64, u64)> {
    /// Starts and ids of sends and of receives.
    type Ends = [Vec<(u64, u64)>; 2];
    let mut ends: BTreeMap<(u32, u32, u32), Ends> = BTreeMap::new();
    for operation in tables.operations.rows().filter(|it| it.partner != NONE) {
        let member = tables.members.row(operation.member);
        let (from, to, end) = match source.trace.function(operation.function).and_then(Function::is_send) {
            Some(true) => (member.rank, operation.partner, 0),
            Some(false) => (operation.partner, member.rank, 1),
            None => continue,
        };
        ends.entry((member.communicator, from, to)).or_default()[end].push((operation.start_ns, operation.event));
    }
    let mut found = Vec::new();
    for [mut sends, mut receives] in ends.into_values().filter(|[sends, receives]| sends.len() == receives.len()) {
        sends.sort_unstable();
        receives.sort_unstable();
        found.extend(sends.into_iter().zip(receives).map(|((_, send), (_, receive))| (send, receive)));
    }
    found
}
