//! Whose work it was: contexts of other processes, resolved when all parts are together.

use std::collections::BTreeMap;

use crate::archive::job::Process;
use crate::archive::members::Members;
use crate::part::sidecar::{LaneKind, LaneOwner};
use crate::tables::place::index;

/// A rank for which another process worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// A place in the archive's processes.
    pub(crate) process: usize,
    /// The archive's number of the communicator.
    comm: u32,
    /// Its rank there.
    rank: u32,
}

/// The ranks of all processes by the contexts that stand for them. Processes share a number space of 16 bits, so
/// that two of a host can have handed out the same by chance: then nothing is claimed.
#[derive(Debug, Default)]
pub(crate) struct Origins<'a> {
    by_context: BTreeMap<(&'a str, &'a str, u64), Option<Origin>>,
    names: Vec<&'a str>,
    places: Vec<String>,
    parts: Vec<&'a str>,
}

/// How a part calls a rank that it does not know: this text is replaced in the archive.
pub(crate) fn placeholder(context: u64) -> String {
    format!("<foreign {context:#x}>")
}

impl<'a> Origins<'a> {
    /// Those of an archive.
    pub(crate) fn of(processes: &'a [Process], members: &'a Members) -> Self {
        let mut origins = Self {
            names: members
                .comms
                .iter()
                .map(|comm| comm.name.as_str())
                .collect(),
            places: processes.iter().map(Process::place).collect(),
            parts: processes
                .iter()
                .map(|process| process.sidecar.part.as_str())
                .collect(),
            ..Self::default()
        };
        for (at, (process, map)) in processes.iter().zip(&members.maps).enumerate() {
            let (host, boot) = process.host();
            for offered in &process.sidecar.offered {
                let origin = map.get(index(offered.comm)).map(|&comm| Origin {
                    process: at,
                    comm,
                    rank: offered.rank,
                });
                origins
                    .by_context
                    .entry((host, boot, offered.context))
                    .and_modify(|twice| *twice = None)
                    .or_insert(origin);
            }
        }
        origins
    }

    /// The rank that a context stands for which a process got from a neighbour.
    pub(crate) fn find(&self, worker: &'a Process, context: u64) -> Option<Origin> {
        let (host, boot) = worker.host();
        let origin = self.by_context.get(&(host, boot, context)).copied()??;
        // NCCL 2.23 gives a context of the worker itself: that says nothing about whose work it is.
        let is_another = self.parts.get(origin.process) != Some(&worker.sidecar.part.as_str());
        is_another.then_some(origin)
    }

    /// The rank for which a lane's work was done, if that was another process's.
    pub(crate) fn of_lane(&self, worker: &'a Process, lane: &LaneKind) -> Option<Origin> {
        let owner = match lane {
            LaneKind::Net { owner, .. }
            | LaneKind::Step { owner, .. }
            | LaneKind::Plugin { owner, .. } => owner,
            _ => return None,
        };
        match owner {
            LaneOwner::Foreign {
                context,
                own: false,
            } => self.find(worker, *context),
            _ => None,
        }
    }

    /// Communicator and rank, as names of lanes have it.
    pub(crate) fn short(&self, origin: Origin) -> String {
        format!("{} r{}", self.comm(origin), origin.rank)
    }

    fn comm(&self, origin: Origin) -> &str {
        self.names.get(index(origin.comm)).copied().unwrap_or("?")
    }

    /// Rank, communicator and process.
    fn text(&self, origin: Origin) -> String {
        let place = self.places.get(origin.process).map_or("?", String::as_str);
        format!("rank {} of {} [{place}]", origin.rank, self.comm(origin))
    }

    /// A text of a part, or what it stands for.
    pub(crate) fn resolve(&self, worker: &'a Process, text: &str) -> Option<String> {
        let context = text.strip_prefix("<foreign 0x")?.strip_suffix('>')?;
        let context = u64::from_str_radix(context, 16).ok()?;
        Some(self.text(self.find(worker, context)?))
    }

    /// What the archive says about it: properties and their values.
    pub(crate) fn properties(&self, processes: &'a [Process]) -> Vec<(String, String)> {
        let (mut lines, mut operations, mut unresolved) = (Vec::new(), 0, 0);
        for (worker, place) in processes.iter().zip(&self.places) {
            for work in &worker.sidecar.work_for_others {
                operations += work.operations;
                let whose = match self.find(worker, work.context) {
                    Some(origin) => self.text(origin),
                    None => {
                        unresolved += work.operations;
                        placeholder(work.context)
                    }
                };
                lines.push(format!(
                    "{whose} by {place}: {} transfers, {} bytes sent, {} bytes received, {} ns",
                    work.operations, work.bytes_sent, work.bytes_received, work.busy_ns
                ));
            }
        }
        let counted = processes.iter().map(|process| process.sidecar.help_counted);
        let counted: u64 = counted.sum();
        let numbers = [
            ("TRANSFERS", operations),
            ("UNRESOLVED", unresolved),
            ("COUNTED", counted),
        ];
        let numbers = numbers.iter().filter(|(_, number)| *number > 0);
        let numbers =
            numbers.map(|(name, number)| (format!("NCCL::PXN::{name}"), number.to_string()));
        let mut properties: Vec<(String, String)> = numbers.collect();
        if !lines.is_empty() {
            properties.push(("NCCL::PXN::LIST".to_owned(), lines.join("\n")));
        }
        properties
    }
}
