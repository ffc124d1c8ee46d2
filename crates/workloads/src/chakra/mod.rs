//! Execution traces for ASTRA-sim and MLCommons' Chakra: a `trace.<rank>.et` for each rank, and `comm_group.json`.
//!
//! ```text
//!  operations  a rank's operations, as the program called them
//!  computing   when the rank computed: the program's kernels, or the pauses between operations
//!   └► graph     nodes, each with those that it waited for
//!       └► node    a node as a message
//! ```

mod computing;
mod graph;
mod job;
mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use analysis::{Filter, try_in_parallel};
use exports::{Error, Outcome, Result, Source};
use nccl_events::ids::index;
use otf2::LocationRef;
use proto_messages::Message as _;
use proto_messages::chakra::{Attribute, GlobalMetadata, VERSION, Value};

use crate::operations::{Operation, locations, read};

use job::Job;
use node::Nodes;

const GROUPS: &str = "comm_group.json";

/// What one rank's file has and lacks.
#[derive(Debug, Default)]
struct Written {
    file: PathBuf,
    nodes: u64,
    operations: u64,
    lacks: Lacks,
    /// The calls of its operations.
    calls: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lacks {
    unfinished: u64,
    /// Operations of functions without a type in Chakra, or whose other end is unknown.
    unknown: u64,
    /// Operations of communicators of which a rank was not recorded.
    incomplete: u64,
    to_itself: u64,
    untimed: u64,
}

pub fn write(source: &Source<'_>, out: &Path) -> Result<Outcome> {
    let job = Job::of(source)?;
    fs::create_dir(out).map_err(Error::io("make", out))?;
    let wanted = locations(source.trace, &job.members, &job.selection);
    let wanted: Vec<(usize, Vec<LocationRef>)> =
        wanted.into_iter().enumerate().filter(|(_, locations)| !locations.is_empty()).collect();
    source.progress.begin("ranks", wanted.len() as u64);
    let written = try_in_parallel(&wanted, |(rank, locations)| {
        let written = job.write(*rank, locations, out);
        source.progress.step();
        written
    });
    let written: Vec<Written> = written?;
    source.progress.end();
    job.write_groups(&out.join(GROUPS))?;
    Ok(job.outcome(written))
}

impl Job<'_> {
    fn write(&self, rank: usize, locations: &[LocationRef], out: &Path) -> Result<Written> {
        let trace = self.source.trace;
        let nodes = Nodes::of(self, rank);
        let mut operations =
            read(trace, &self.members, (&self.selection, &self.calls), locations, |slice| nodes.attributes(slice))?;
        let calls = operations.iter().map(|it| it.call).collect();
        let mut lacks = Lacks::default();
        operations.retain(|it| self.keeps(it, &mut lacks));
        let computing = computing::of_rank(self, rank, &operations)?;
        let graph = graph::nodes(&operations, &computing);
        let file = PathBuf::from(format!("trace.{}.et", self.numbers[rank]));
        let path = out.join(&file);
        let output = File::create_new(&path).map_err(Error::io("make", &path))?;
        let mut output = BufWriter::with_capacity(1 << 20, output);
        let head = self.head(rank).encode_length_delimited_to_vec();
        let nodes =
            (1..).zip(&graph).map(|(id, node)| nodes.node(node, &operations, id).encode_length_delimited_to_vec());
        let mut messages = [head].into_iter().chain(nodes);
        let written = messages.try_for_each(|message| output.write_all(&message)).and_then(|()| output.flush());
        written.map_err(Error::io("write", &path))?;
        Ok(Written { file, nodes: graph.len() as u64, operations: operations.len() as u64, lacks, calls })
    }

    /// Whether an operation becomes a node; counts why it does not, and nodes without a duration.
    fn keeps<D>(&self, it: &Operation<D>, lacks: &mut Lacks) -> bool {
        let member = self.members.row(it.member);
        let group = self.groups[index(member.communicator)].as_ref();
        let lack = match (node::what(it, &self.members), group) {
            _ if it.is_unfinished => &mut lacks.unfinished,
            (None, _) => &mut lacks.unknown,
            (Some(_), None) => &mut lacks.incomplete,
            _ if it.is_message() && it.peer == member.rank => &mut lacks.to_itself,
            _ => {
                lacks.untimed += u64::from(!it.is_timed);
                return true;
            }
        };
        *lack += 1;
        false
    }

    fn head(&self, rank: usize) -> GlobalMetadata {
        let world_size = self.world_size() as u64;
        let version = format!("nccl-otf2 {}", env!("CARGO_PKG_VERSION"));
        GlobalMetadata {
            version: VERSION.to_owned(),
            attr: vec![
                Attribute::new("schema", Value::Text(version)),
                Attribute::new("rank", Value::Uint64(self.numbers[rank].into())),
                Attribute::new("world_size", Value::Uint64(world_size)),
                Attribute::new("start_ns", Value::Uint64(self.source.begin_ns())),
            ],
        }
    }

    fn write_groups(&self, path: &Path) -> Result<()> {
        let groups = (1_u32..).zip(&self.groups).filter_map(|(name, ranks)| Some((name.to_string(), ranks.as_ref()?)));
        let text = serde_json::to_string_pretty(&groups.collect::<BTreeMap<_, _>>()).unwrap_or_default();
        fs::write(path, text + "\n").map_err(Error::io("write", path))
    }

    fn outcome(&self, written: Vec<Written>) -> Outcome {
        let world_size = self.world_size();
        if written.len() < world_size {
            let ranks = written.len();
            let remark = format!("{ranks} of the job's {world_size} ranks have a file; a simulation needs all");
            self.source.progress.remark(&remark);
        }
        let sum = |count: fn(&Lacks) -> u64| written.iter().map(|it| count(&it.lacks)).sum();
        let has_operations = written.iter().any(|it| it.operations > 0);
        // What was computed is no trace of communication by itself.
        let events = if has_operations { written.iter().map(|it| it.nodes).sum() } else { 0 };
        let mut outcome = Outcome { events, ..Outcome::default() };
        outcome.leave_out(sum(|it| it.unfinished), "operations had not ended");
        outcome.leave_out(sum(|it| it.unknown), "operations of functions or with peers that are not known");
        outcome.leave_out(sum(|it| it.incomplete), "operations of communicators with ranks that were not recorded");
        outcome.leave_out(sum(|it| it.to_itself), "messages of ranks to themselves");
        outcome.leave_out(sum(|it| it.untimed), "durations: it is not known when these operations ran");
        outcome.leave_out(
            self.without_operation(&written),
            "calls of collectives below which NCCL reported no operation (broadcasts from 2.29 on: record with \
             NCCL_ALLGATHERV_ENABLE=0)",
        );
        outcome.files = written.into_iter().map(|it| it.file).chain([PathBuf::from(GROUPS)]).collect();
        outcome
    }

    /// Calls of collectives that no operation belongs to. A filter leaves out operations, not their calls.
    fn without_operation(&self, written: &[Written]) -> u64 {
        let Filter { communicators, functions, ranks, from_ns, to_ns, step: _ } = self.source.filter;
        let is_all = communicators.is_empty() && functions.is_empty() && ranks.is_empty();
        if !is_all || from_ns.is_some() || to_ns.is_some() {
            return 0;
        }
        let called: BTreeSet<u64> = written.iter().flat_map(|it| &it.calls).copied().collect();
        self.calls.collectives.iter().filter(|call| !called.contains(call)).count() as u64
    }
}
