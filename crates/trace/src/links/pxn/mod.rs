//! PXN: the proxy of a process does the network's work for an operation of another process of the node.
//!
//! ```text
//!  worker  ProxyOp, parent: an id of the other's ─► parts/<worker>/for-others   what it did for which operation
//!  origin  Coll, no ProxyOp of its own ◄── reads that when it is written: its network part counts
//!  unify   the worker's lane ─► named after the rank it worked for, in that process's group
//! ```
//!
//! Processes of a node share a clock, so the worker's times are the origin's. Who is written first cannot know what the
//! other did: `finalize` writes such a part a second time, while its journal is there.

mod late;
mod origins;

pub(crate) use late::{lacks_help, wanting};
pub(crate) use origins::{Origins, placeholder};

use nccl_events::event;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, io_error};
use crate::links::correlate::Correlation;
use crate::part::part_files::part_name;
use crate::tables::assembly::{Assembly, Operation};
use journal::part::process::ProcessInfo;
use journal::private;
use nccl_events::Body;
use nccl_events::id::EventId;

/// Name of the file in a part of what its process did for others; only where it did.
pub const FOR_OTHERS: &str = "for-others";

/// Version of the file.
const FORMAT: u32 = 1;

/// What a process did on the network for one operation of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Help {
    /// The operation: an event id of the other process.
    pub parent: u64,
    /// Proxy operations.
    pub operations: u32,
    /// The last stop of them, CLOCK_MONOTONIC ns.
    pub last_ns: Option<u64>,
    /// Whether some of it never ended.
    pub unfinished: bool,
    /// Bytes sent on the network, as far as NCCL told.
    pub bytes_sent: u64,
    /// Bytes received from the network, as far as NCCL told.
    pub bytes_received: u64,
}

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ForOthers {
    format: u32,
    /// The worker's host: an id of another host's process is not one of its neighbour's.
    host: String,
    boot_id: String,
    help: Vec<Help>,
}

/// What a process did for others altogether, by communicator rank: what the archive says without any list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The context that the other process handed out.
    pub context: u64,
    /// Proxy operations.
    pub operations: u64,
    /// Bytes sent on the network, as far as NCCL told.
    pub bytes_sent: u64,
    /// Bytes received from the network, as far as NCCL told.
    pub bytes_received: u64,
    /// Time in which at least one of them was under way, in ns.
    pub busy_ns: u64,
}

/// A rank of a communicator, as other processes may refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The context that this process handed out.
    pub context: u64,
    /// A place in [`crate::part::sidecar::Sidecar::comms`].
    pub comm: u32,
    /// Its rank.
    pub rank: u32,
}

/// What this process did for operations of others, by operation.
#[must_use]
pub fn help(assembly: &Assembly, correlation: &Correlation) -> Vec<Help> {
    let mut all: BTreeMap<u64, Help> = BTreeMap::new();
    for (at, operation) in correlation.transfers_for_others(assembly) {
        let Body::ProxyOp(event::ProxyOp { is_send, .. }) = assembly.fields_of(operation) else {
            continue;
        };
        if !assembly.is_of_another_process(operation.parent) {
            continue;
        }
        let help = all.entry(operation.parent).or_insert_with(|| Help {
            parent: operation.parent,
            operations: 0,
            last_ns: None,
            unfinished: false,
            bytes_sent: 0,
            bytes_received: 0,
        });
        help.operations += 1;
        help.last_ns = help.last_ns.max(operation.end());
        help.unfinished |= operation.end().is_none() && !correlation.is_silent(at);
        let bytes = correlation.proxy_bytes(assembly, at);
        if is_send {
            help.bytes_sent += bytes;
        } else {
            help.bytes_received += bytes;
        }
    }
    all.into_values().collect()
}

/// Whether an operation is work for a rank of another process, which its context names.
pub(crate) fn is_for_another(assembly: &Assembly, operation: &Operation) -> bool {
    assembly.is_foreign(operation) && !assembly.is_own_context(assembly.context_of(operation))
}

/// The same altogether. Of transfers that NCCL gives a context of this process (2.23) nobody knows for which rank.
#[must_use]
pub fn work(assembly: &Assembly, correlation: &Correlation) -> Vec<Work> {
    let mut all: BTreeMap<u64, (Work, Vec<(u64, u64)>)> = BTreeMap::new();
    for (at, operation) in correlation.transfers_for_others(assembly) {
        let Body::ProxyOp(event::ProxyOp { is_send, .. }) = assembly.fields_of(operation) else {
            continue;
        };
        if !is_for_another(assembly, operation) {
            continue;
        }
        let context = assembly.context_of(operation);
        let (work, spans) = all.entry(context).or_default();
        work.context = context;
        work.operations += 1;
        let bytes = correlation.proxy_bytes(assembly, at);
        if is_send {
            work.bytes_sent += bytes;
        } else {
            work.bytes_received += bytes;
        }
        spans.extend(operation.end().map(|end| (operation.start, end)));
    }
    let works = all.into_values().map(|(mut work, spans)| {
        work.busy_ns = covered(spans);
        work
    });
    works.collect()
}

/// The time that intervals cover together.
fn covered(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let (mut covered, mut until) = (0, 0);
    for (start, end) in spans {
        covered += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    covered
}

impl ForOthers {
    /// What a process did; `None` if that is nothing.
    pub(crate) fn new(process: &ProcessInfo, help: Vec<Help>) -> Option<Self> {
        (!help.is_empty()).then(|| Self {
            format: FORMAT,
            host: process.host.clone(),
            boot_id: process.boot_id.clone(),
            help,
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let json = serde_json::to_vec(self).map_err(|error| Error::Sidecar {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        private::write(path, &json).map_err(io_error("write", path))
    }

    fn read(part: &Path) -> Option<Self> {
        let bytes = fs::read(part.join(FOR_OTHERS)).ok()?;
        let read: Self = serde_json::from_slice(&bytes).ok()?;
        (read.format == FORMAT).then_some(read)
    }
}

/// Whether two parts are of one host, as far as their names tell: they begin with the host's.
pub(crate) fn are_neighbours(part: &Path, other: &Path) -> bool {
    let (own, other) = (part_name(part), part_name(other));
    let host = own.rsplitn(3, '-').nth(2).unwrap_or_default();
    other != own && other.starts_with(host)
}

/// What the neighbours of a part's process did for it, as far as that is written: their names, and their help.
pub(crate) fn from_neighbours(
    part: &Path,
    process: &ProcessInfo,
    process_tag: u16,
) -> (Vec<String>, Vec<Help>) {
    let entries = part.parent().and_then(|parts| fs::read_dir(parts).ok());
    let mut neighbours: Vec<_> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| are_neighbours(part, path))
        .collect();
    neighbours.sort();
    let (mut names, mut help) = (Vec::new(), Vec::new());
    for neighbour in neighbours {
        let Some(there) = ForOthers::read(&neighbour) else {
            continue;
        };
        if (&there.host, &there.boot_id) != (&process.host, &process.boot_id) {
            continue;
        }
        let before = help.len();
        let ours = |help: &Help| EventId::from_raw(help.parent).tag() == process_tag;
        help.extend(there.help.into_iter().filter(ours));
        if help.len() > before {
            names.push(part_name(&neighbour));
        }
    }
    (names, help)
}

/// Proxy operations of others that count for operations of this process.
pub(crate) fn counted(assembly: &Assembly, correlation: &Correlation) -> u64 {
    let help = assembly.help.iter();
    let known = help.filter(|help| {
        let operation = assembly.find(help.parent);
        correlation.place_of(operation).is_some()
    });
    known.map(|help| u64::from(help.operations)).sum()
}

/// The ranks that others may refer to.
pub(crate) fn offered(assembly: &Assembly, comms: &crate::links::comm::Comms) -> Vec<Offered> {
    let contexts = assembly.contexts.iter().zip(&comms.members);
    let offered = contexts.map(|(context, member)| Offered {
        context: context.id,
        comm: member.comm,
        rank: member.rank,
    });
    offered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_covered_once() {
        assert_eq!(covered(vec![(10, 20), (0, 5), (15, 30), (16, 18)]), 25);
        assert_eq!(covered(Vec::new()), 0);
    }
}
