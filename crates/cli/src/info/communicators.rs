//! Communicators, their collectives, and their messages.

use std::collections::BTreeMap;

use analysis::Trace;
use otf2::{CommRef, Event, EventKind, LocationRef};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) struct Communicators {
    rows: BTreeMap<CommRef, Row>,
    messages: BTreeMap<(CommRef, u32, u32), (u64, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) ranks: u64,
    pub(crate) ranks_recorded: u64,
    pub(crate) collectives: BTreeMap<String, u64>,
    pub(crate) sends: u64,
    pub(crate) receives: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
}

/// The messages from one rank to another, as recorded by the sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Messages {
    pub(crate) communicator: String,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl Communicators {
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut found = Self { rows: BTreeMap::new(), messages: BTreeMap::new() };
        for reference in trace.definitions.comms.keys().chain(trace.definitions.inter_comms.keys()) {
            let groups = trace.groups(*reference).into_iter().flatten().flatten();
            let members: Vec<LocationRef> = trace.members(*reference).iter().chain(groups).copied().collect();
            let row = Row {
                name: trace.comm_name(*reference),
                ranks: members.len() as u64,
                ranks_recorded: members.iter().filter(|member| trace.has_events(**member)).count() as u64,
                ..Row::default()
            };
            found.rows.insert(*reference, row);
        }
        found
    }

    pub(crate) fn event(&mut self, trace: &Trace, location: LocationRef, event: &Event) {
        match &event.kind {
            EventKind::MpiCollectiveEnd(collective) | EventKind::NonBlockingCollectiveComplete { collective, .. } => {
                if let Some(row) = self.rows.get_mut(&collective.comm) {
                    *row.collectives.entry(format!("{:?}", collective.op)).or_insert(0) += 1;
                }
            }
            EventKind::MpiIsend { message, .. } | EventKind::MpiSend(message) => {
                if let Some(rank) = trace.rank(location, message.comm) {
                    let (count, bytes) = self.messages.entry((message.comm, rank, message.peer)).or_default();
                    *count += 1;
                    *bytes += message.bytes;
                }
                if let Some(row) = self.rows.get_mut(&message.comm) {
                    row.sends += 1;
                    row.bytes_sent += message.bytes;
                }
            }
            EventKind::MpiIrecv { message, .. } | EventKind::MpiRecv(message) => {
                if let Some(row) = self.rows.get_mut(&message.comm) {
                    row.receives += 1;
                    row.bytes_received += message.bytes;
                }
            }
            _ => {}
        }
    }

    pub(crate) fn finish(self) -> (Vec<Row>, Vec<Messages>) {
        let messages = self.messages.into_iter().map(|((comm, from, to), (count, bytes))| {
            let communicator = self.rows.get(&comm).map(|row| row.name.clone()).unwrap_or_default();
            Messages { communicator, from, to, count, bytes }
        });
        let messages = messages.collect();
        (self.rows.into_values().collect(), messages)
    }
}
