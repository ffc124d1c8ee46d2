//! Resolves contexts of other processes (PXN), once all parts are read: the ranks that transfers were done for.

use std::collections::BTreeMap;

use crate::archive::communicators::Communicators;
use crate::archive::processes::Process;
use crate::part::manifest::{LocationKind, LocationOwner};
use nccl_events::ids::index;
use nccl_events::schema::{Lines, Statements, Sum};
use process_model::links::pxn::{context_of_placeholder, placeholder};

/// A rank for which another process worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// An index into the archive's processes.
    pub(crate) process: usize,
    /// The archive's number of the communicator.
    pub(crate) comm: u32,
    pub(crate) rank: u32,
}

/// The ranks of all processes by context. Only 16 bits of a context identify its process, so two processes of a host
/// can hand out the same context by chance; the origin is then unknown.
#[derive(Debug)]
pub(crate) struct Origins<'a> {
    by_context: BTreeMap<(&'a str, &'a str, u64), Option<Origin>>,
    comms: Vec<&'a str>,
    processes: &'a [Process],
}

impl<'a> Origins<'a> {
    pub(crate) fn of(processes: &'a [Process], communicators: &'a Communicators) -> Self {
        let mut by_context = BTreeMap::new();
        for (at, (process, map)) in processes.iter().zip(&communicators.maps).enumerate() {
            let (host, boot) = process.host();
            for exported in &process.manifest.exported_ranks {
                let origin =
                    map.get(index(exported.comm)).map(|&comm| Origin { process: at, comm, rank: exported.rank });
                by_context.entry((host, boot, exported.context)).and_modify(|twice| *twice = None).or_insert(origin);
            }
        }
        Self { by_context, comms: communicators.all.iter().map(|comm| comm.name.as_str()).collect(), processes }
    }

    /// The rank behind a context that a process got from a neighbour.
    fn find(&self, worker: &'a Process, context: u64) -> Option<Origin> {
        let (host, boot) = worker.host();
        let origin = self.by_context.get(&(host, boot, context)).copied()??;
        // NCCL 2.23 passes a context of the worker itself, which does not identify the rank.
        let part = &self.processes.get(origin.process)?.manifest.part;
        (*part != worker.manifest.part).then_some(origin)
    }

    /// The rank that a location worked for, if it belongs to another process.
    pub(crate) fn of_location(&self, worker: &'a Process, kind: &LocationKind) -> Option<Origin> {
        let connection = match kind {
            LocationKind::Net(connection)
            | LocationKind::Step { connection, .. }
            | LocationKind::Plugin { connection, .. } => connection,
            _ => return None,
        };
        match connection.owner {
            LocationOwner::Foreign { context, own: false } => self.find(worker, context),
            _ => None,
        }
    }

    /// Communicator and rank, in the format of location names.
    pub(crate) fn short(&self, origin: Origin) -> String {
        format!("{} r{}", self.comm(origin), origin.rank)
    }

    fn comm(&self, origin: Origin) -> &str {
        self.comms.get(index(origin.comm)).copied().unwrap_or("?")
    }

    fn text(&self, origin: Origin) -> String {
        let place = self.processes.get(origin.process).map_or_else(|| "?".to_owned(), Process::place);
        format!("rank {} of {} [{place}]", origin.rank, self.comm(origin))
    }

    /// The rank that a placeholder text stands for; `None` for other texts.
    pub(crate) fn resolve(&self, worker: &'a Process, text: &str) -> Option<String> {
        Some(self.text(self.find(worker, context_of_placeholder(text)?)?))
    }

    /// Adds the properties `NCCL::PXN::…`.
    pub(crate) fn add_to(&self, statements: &mut Statements) {
        let (mut lines, mut operations, mut unresolved) = (Vec::new(), 0, 0);
        for worker in self.processes {
            for work in &worker.manifest.remote_work {
                operations += work.operations;
                let whose = match self.find(worker, work.context) {
                    Some(origin) => self.text(origin),
                    None => {
                        unresolved += work.operations;
                        placeholder(work.context)
                    }
                };
                lines.push(format!(
                    "{whose} by {}: {} transfers, {} bytes sent, {} bytes received, {} ns",
                    worker.place(),
                    work.operations,
                    work.bytes_sent,
                    work.bytes_received,
                    work.busy_ns
                ));
            }
        }
        statements.pxn_transfers = Sum::some(operations);
        statements.pxn_unresolved = Sum::some(unresolved);
        statements.pxn_counted = Sum::some(self.processes.iter().map(|it| it.manifest.remote_operations).sum());
        statements.pxn_list = Lines::of(lines);
    }
}
