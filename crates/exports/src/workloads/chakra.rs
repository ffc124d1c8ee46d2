//! Execution traces for ASTRA-sim and MLCommons' Chakra: a `trace.<rank>.et` for each rank, and `comm_group.json`.
//!
//! ```text
//!  Job               data shared by the traces of all ranks: calls, numbers, communicators
//!  computing_times   when a rank computed: the program's kernels, or the pauses between operations
//!   └► nodes         the nodes of operations and of computing, each with its dependencies
//!       └► Nodes     encodes each node as a message
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::protobuf::{Attribute, CommType, GlobalMetadata, Message as _, NodeType, VERSION, Value};
use crate::workloads::{Calls, Operation, locations, read};
use crate::{Error, Outcome, Result, Selection, Source, protobuf, values};
use analysis::read::{Members, NONE};
use analysis::{Filter, Slice, Trace, try_in_parallel, union};
use nccl_events::archive::LocationKind;
use nccl_events::collective::{Collective, Function};
use nccl_events::gpu::is_of_nccl;
use nccl_events::ids::index;
use otf2::{AttributeValue, LocationRef};

const GROUPS: &str = "comm_group.json";

/// One rank's file, and the counts of what it contains and lacks.
#[derive(Debug, Default)]
struct WrittenGraph {
    file: PathBuf,
    nodes: u64,
    operations: u64,
    lacks: LeftOutOperations,
    /// Event ids of the calls of the rank's operations.
    calls: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LeftOutOperations {
    unfinished: u64,
    /// Operations of functions without a type in Chakra, or whose other end is unknown.
    unknown: u64,
    /// Operations of communicators of which a rank was not recorded.
    incomplete: u64,
    to_itself: u64,
    untimed: u64,
}

pub fn write(source: &Source<'_>, out: &Path) -> Result<Outcome> {
    let job = Job::new(source)?;
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
    let written: Vec<WrittenGraph> = written?;
    source.progress.end();
    job.write_groups(&out.join(GROUPS))?;
    Ok(job.outcome(written))
}

impl Job<'_> {
    fn write(&self, rank: usize, locations: &[LocationRef], out: &Path) -> Result<WrittenGraph> {
        let trace = self.source.trace;
        let nodes = Nodes::new(self, rank);
        let mut operations =
            read(trace, &self.members, (&self.selection, &self.calls), locations, |slice| nodes.attributes(slice))?;
        let calls = operations.iter().map(|operation| operation.call).collect();
        let mut lacks = LeftOutOperations::default();
        operations.retain(|operation| self.keeps(operation, &mut lacks));
        let computing = computing_times(self, rank, &operations)?;
        let graph = self::nodes(&operations, &computing);
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
        Ok(WrittenGraph { file, nodes: graph.len() as u64, operations: operations.len() as u64, lacks, calls })
    }

    /// Whether an operation becomes a node; counts why it does not, and nodes without a duration.
    fn keeps<D>(&self, operation: &Operation<D>, lacks: &mut LeftOutOperations) -> bool {
        let member = self.members.row(operation.member);
        let group = self.groups[index(member.communicator)].as_ref();
        let lack = match (operation_kind(operation, &self.members), group) {
            _ if operation.is_unfinished => &mut lacks.unfinished,
            (None, _) => &mut lacks.unknown,
            (Some(_), None) => &mut lacks.incomplete,
            _ if operation.is_message() && operation.peer == member.rank => &mut lacks.to_itself,
            _ => {
                lacks.untimed += u64::from(!operation.is_timed);
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

    fn outcome(&self, written: Vec<WrittenGraph>) -> Outcome {
        let world_size = self.world_size();
        if written.len() < world_size {
            let ranks = written.len();
            let remark = format!("{ranks} of the job's {world_size} ranks have a file; a simulation needs all");
            self.source.progress.remark(&remark);
        }
        let sum = |count: fn(&LeftOutOperations) -> u64| written.iter().map(|graph| count(&graph.lacks)).sum();
        let has_operations = written.iter().any(|graph| graph.operations > 0);
        // Compute nodes alone are no trace of communication: count no events.
        let events = if has_operations { written.iter().map(|graph| graph.nodes).sum() } else { 0 };
        let mut outcome = Outcome { events, ..Outcome::default() };
        outcome.leave_out(sum(|operations| operations.unfinished), "operations had not ended");
        outcome.leave_out(sum(|operations| operations.unknown), "operations with unknown functions or peers");
        outcome.leave_out(
            sum(|operations| operations.incomplete),
            "operations of communicators with ranks that were not recorded",
        );
        outcome.leave_out(sum(|operations| operations.to_itself), "messages of ranks to themselves");
        outcome.leave_out(sum(|operations| operations.untimed), "durations: it is unknown when these operations ran");
        outcome.leave_out(
            self.without_operation(&written),
            "calls of collectives below which NCCL reported no operation (broadcasts from 2.29 on: record with \
             NCCL_ALLGATHERV_ENABLE=0)",
        );
        outcome.files = written.into_iter().map(|graph| graph.file).chain([PathBuf::from(GROUPS)]).collect();
        outcome
    }

    /// Number of calls of collectives without an operation. Always 0 with a filter, which leaves out operations but not
    /// their calls.
    fn without_operation(&self, written: &[WrittenGraph]) -> u64 {
        let Filter { communicators, functions, ranks, from_ns, to_ns, step: _ } = self.source.filter;
        let is_all = communicators.is_empty() && functions.is_empty() && ranks.is_empty();
        if !is_all || from_ns.is_some() || to_ns.is_some() {
            return 0;
        }
        let called: BTreeSet<u64> = written.iter().flat_map(|graph| &graph.calls).copied().collect();
        self.calls.collectives.iter().filter(|call| !called.contains(call)).count() as u64
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) what: NodeContent,
    /// Ids of the nodes that this one depends on. The id of a node is its index in the list plus 1.
    pub(super) waited_for: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeContent {
    /// `at` is the index of the operation. `tag` is the number of earlier messages from the same sender to the same
    /// receiver; 0 for collectives.
    Operation {
        at: usize,
        tag: u64,
    },
    Computing {
        start_ns: u64,
        stop_ns: u64,
    },
    /// The end of a large batch. Later operations depend on this node instead of on each operation of the batch.
    Joined {
        at_ns: u64,
    },
}

/// If two successive batches have more pairs of operations than this, a [`NodeContent::Joined`] connects them.
const MOST_PAIRS: usize = 64;

/// Operations of a communicator that run at the same time.
struct Batch {
    member: u32,
    start_ns: u64,
    stop_ns: u64,
    operations: Vec<usize>,
}

/// Builds the nodes of a rank, and their dependencies.
///
/// An operation depends on the previous batch of its communicator, which runs one batch after the other, and on the
/// last compute node. A compute node depends on the previous one, and on operations that ended between the two.
/// `operations` are sorted by member and start, `computing` does not overlap.
pub(super) fn nodes<D>(operations: &[Operation<D>], computing: &[(u64, u64)]) -> Vec<Node> {
    let mut batches = batches(operations);
    batches.sort_by_key(|batch| (batch.start_ns, batch.member));
    let starts: Vec<u64> = batches.iter().map(|batch| batch.start_ns).collect();
    let mut computing = cut(computing, &starts).into_iter().peekable();
    let mut graph = Graph::default();
    for batch in &batches {
        while let Some((start_ns, stop_ns)) = computing.next_if(|(start_ns, _)| *start_ns < batch.start_ns) {
            graph.computing(start_ns, stop_ns);
        }
        graph.batch(batch, operations);
    }
    computing.for_each(|(start_ns, stop_ns)| graph.computing(start_ns, stop_ns));
    graph.nodes
}

fn batches<D>(operations: &[Operation<D>]) -> Vec<Batch> {
    let mut found: Vec<Batch> = Vec::new();
    let mut group = (0, 0);
    for (at, operation) in operations.iter().enumerate() {
        let is_of = |batch: &&mut Batch| {
            let is_same_group = operation.group.0 != 0 && operation.group == group;
            batch.member == operation.member && (is_same_group || operation.start_ns < batch.stop_ns)
        };
        match found.last_mut().filter(is_of) {
            Some(batch) => {
                batch.stop_ns = batch.stop_ns.max(operation.stop_ns);
                batch.operations.push(at);
            }
            None => found.push(Batch {
                member: operation.member,
                start_ns: operation.start_ns,
                stop_ns: operation.stop_ns,
                operations: vec![at],
            }),
        }
        group = operation.group;
    }
    // Ids ascend in the order of calls, which all ranks share. Times differ: a kernel may run any operation first.
    found.iter_mut().for_each(|batch| batch.operations.sort_by_key(|at| operations[*at].event));
    found
}

/// Cuts intervals at these times, ascending.
fn cut(intervals: &[(u64, u64)], at: &[u64]) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    for (start_ns, stop_ns) in intervals {
        let mut from_ns = *start_ns;
        let first = at.partition_point(|time_ns| time_ns <= start_ns);
        for time_ns in at[first..].iter().take_while(|time_ns| *time_ns < stop_ns) {
            if *time_ns > from_ns {
                pieces.push((from_ns, *time_ns));
                from_ns = *time_ns;
            }
        }
        pieces.push((from_ns, *stop_ns));
    }
    pieces
}

#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    /// Id and end of the last compute node.
    computing: Option<(u64, u64)>,
    /// The last batch of each member: its end and the ids of its nodes.
    last: BTreeMap<u32, (u64, Vec<u64>)>,
    /// End and node ids of the batches that had not ended when the last compute node began.
    pending: Vec<(u64, Vec<u64>)>,
    /// Number of messages so far, keyed by member, peer, and whether the member sends.
    messages: BTreeMap<(u32, u32, bool), u64>,
}

impl Graph {
    fn push(&mut self, what: NodeContent, waited_for: Vec<u64>) -> u64 {
        self.nodes.push(Node { what, waited_for });
        self.nodes.len() as u64
    }

    /// Adds a compute node, unless its duration is 0 in whole µs, the unit of the format.
    fn computing(&mut self, start_ns: u64, stop_ns: u64) {
        if start_ns / 1000 == stop_ns / 1000 {
            return;
        }
        let before = self.computing;
        let mut waited_for: Vec<u64> = before.map(|(id, _)| id).into_iter().collect();
        self.pending.retain(|(ended_ns, ids)| {
            let is_over = *ended_ns <= start_ns;
            if is_over && before.is_none_or(|(_, before_ns)| before_ns < *ended_ns) {
                waited_for.extend(ids);
            }
            !is_over
        });
        let id = self.push(NodeContent::Computing { start_ns, stop_ns }, waited_for);
        self.computing = Some((id, stop_ns));
    }

    fn batch<D>(&mut self, batch: &Batch, operations: &[Operation<D>]) {
        let (ended_ns, mut waited_for) = self.last.remove(&batch.member).unwrap_or_default();
        if waited_for.len() * batch.operations.len() > MOST_PAIRS {
            waited_for = vec![self.push(NodeContent::Joined { at_ns: ended_ns }, waited_for)];
        }
        waited_for.extend(self.computing.map(|(id, _)| id));
        let mut ids = Vec::new();
        for at in &batch.operations {
            let operation = &operations[*at];
            let is_send = operation.function.and_then(Function::is_send);
            let tag = is_send.map_or(0, |is_send| {
                let before = self.messages.entry((operation.member, operation.peer, is_send)).or_default();
                *before += 1;
                *before - 1
            });
            ids.push(self.push(NodeContent::Operation { at: *at, tag }, waited_for.clone()));
        }
        self.pending.push((batch.stop_ns, ids.clone()));
        self.last.insert(batch.member, (batch.stop_ns, ids));
    }
}

/// The name of an operation's node, and the attributes of the archive.
pub(super) struct Details {
    name: String,
    attributes: Vec<Attribute>,
}

/// Encodes nodes as messages of the format.
pub(super) struct Nodes<'a> {
    job: &'a Job<'a>,
    /// Number of the rank in the job.
    rank: u32,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Collective(CommType),
    Send,
    Receive,
}

/// The type of an operation in Chakra; `None` if its function, or the peer of a message, is unknown.
pub(super) fn operation_kind<D>(operation: &Operation<D>, members: &Members) -> Option<Kind> {
    let size = members.size(members.row(operation.member).communicator);
    match operation.function? {
        Function::Collective(collective) => Some(Kind::Collective(match collective {
            Collective::AllReduce => CommType::AllReduce,
            Collective::AllGather => CommType::AllGather,
            Collective::ReduceScatter => CommType::ReduceScatter,
            Collective::AlltoAll => CommType::AllToAll,
            Collective::Broadcast => CommType::Broadcast,
            Collective::Scatter => CommType::Scatter,
            Collective::Reduce => CommType::Reduce,
            Collective::Gather => CommType::Gather,
        })),
        function => {
            let is_send = function.is_send().filter(|_| operation.peer != NONE && index(operation.peer) < size)?;
            Some(if is_send { Kind::Send } else { Kind::Receive })
        }
    }
}

impl<'a> Nodes<'a> {
    pub(super) fn new(job: &'a Job<'a>, rank: usize) -> Self {
        Self { job, rank: job.numbers[rank] }
    }

    pub(super) fn attributes(&self, slice: &Slice) -> Details {
        let trace = self.job.source.trace;
        let named = slice.attributes.iter().filter_map(|(attribute, content)| {
            let definition = trace.definitions.attributes.get(attribute)?;
            Some(Attribute::new(trace.definitions.string(definition.name)?, value(trace, *content)?))
        });
        Details { name: trace.function_name(slice.region), attributes: named.collect() }
    }

    pub(super) fn node(&self, node: &Node, operations: &[Operation<Details>], id: u64) -> protobuf::Node {
        let on_gpu = Attribute::new("is_cpu_op", Value::Bool(false));
        let computing = |name: &str, start_ns: u64, stop_ns: u64| protobuf::Node {
            id,
            name: name.to_owned(),
            r#type: NodeType::Computing.into(),
            data_deps: node.waited_for.clone(),
            start_time_micros: start_ns / 1000,
            duration_micros: stop_ns / 1000 - start_ns / 1000,
            attr: vec![on_gpu.clone()],
        };
        match node.what {
            NodeContent::Computing { start_ns, stop_ns } => computing("computing", start_ns, stop_ns),
            NodeContent::Joined { at_ns } => computing("end of group", at_ns, at_ns),
            NodeContent::Operation { at, tag } => {
                let operation = &operations[at];
                let (r#type, attr) = self.communication(operation, tag);
                let lasted = (operation.stop_ns / 1000).saturating_sub(operation.start_ns / 1000).max(1);
                protobuf::Node {
                    id,
                    name: operation.details.name.clone(),
                    r#type: r#type.into(),
                    data_deps: node.waited_for.clone(),
                    start_time_micros: operation.start_ns / 1000,
                    duration_micros: if operation.is_timed { lasted } else { 0 },
                    attr: [on_gpu.clone()]
                        .into_iter()
                        .chain(attr)
                        .chain(operation.details.attributes.iter().cloned())
                        .collect(),
                }
            }
        }
    }

    fn communication(&self, operation: &Operation<Details>, tag: u64) -> (NodeType, Vec<Attribute>) {
        let members = &self.job.members;
        let member = members.row(operation.member);
        let communicator = members.communicators.get(index(member.communicator));
        let name = communicator.map_or_else(String::new, |comm| self.job.source.trace.comm_name(*comm));
        let size = members.size(member.communicator) as u64;
        // `comm_size` is the size of the send buffer: the root's if only the root has one.
        let bytes =
            operation.function.map_or(operation.bytes, |function| function.elements(operation.bytes, size, true).0);
        let mut attr = vec![
            Attribute::new("comm_size", Value::Int64(i64::try_from(bytes).unwrap_or(i64::MAX))),
            Attribute::new("pg_name", Value::Text((member.communicator + 1).to_string())),
            Attribute::new("nccl.communicator", Value::Text(name)),
        ];
        let r#type = match operation_kind(operation, members) {
            Some(Kind::Collective(of)) => {
                attr.push(Attribute::new("comm_type", Value::Int64(of as i64)));
                NodeType::Collective
            }
            Some(kind) => {
                let group = self.job.groups[index(member.communicator)].as_ref();
                let peer = group.and_then(|ranks| ranks.get(index(operation.peer))).copied().unwrap_or(self.rank);
                let is_send = matches!(kind, Kind::Send);
                let [from, to] = if is_send { [self.rank, peer] } else { [peer, self.rank] };
                // Tags include the communicator: only messages of the same communicator are in order.
                let communicators = members.communicators.len() as u64;
                let tag = tag.wrapping_mul(communicators).wrapping_add(member.communicator.into());
                let tag = i32::try_from(tag & 0x7fff_ffff).unwrap_or(0);
                for (name, number) in [("comm_src", from), ("comm_dst", to)] {
                    attr.push(Attribute::new(name, Value::Int32(number.cast_signed())));
                }
                attr.push(Attribute::new("comm_tag", Value::Int32(tag)));
                if is_send { NodeType::Send } else { NodeType::Receive }
            }
            None => NodeType::Invalid,
        };
        (r#type, attr)
    }
}

/// Converts the value of an attribute; `None` if the format has no such type.
fn value(trace: &Trace, value: AttributeValue) -> Option<Value> {
    Some(match value {
        AttributeValue::U8(number) => Value::Uint64(number.into()),
        AttributeValue::U32(number) => Value::Uint64(number.into()),
        AttributeValue::U64(number) => Value::Uint64(number),
        AttributeValue::I32(number) => Value::Int64(number.into()),
        AttributeValue::I64(number) => Value::Int64(number),
        AttributeValue::F64(number) => Value::Double(number),
        other => Value::Text(trace.text(other)?.to_owned()),
    })
}

/// When a rank computed, as intervals in ns: the program's kernels, joined across pauses in which no operation ended.
/// If no kernels were recorded, the pauses between timed operations.
pub(super) fn computing_times<D>(job: &Job<'_>, rank: usize, operations: &[Operation<D>]) -> Result<Vec<(u64, u64)>> {
    let kernels = kernels(job, rank)?;
    Ok(if kernels.is_empty() { pauses(operations) } else { joined(&kernels, operations) })
}

fn kernels(job: &Job<'_>, rank: usize) -> Result<Vec<(u64, u64)>> {
    let trace = job.source.trace;
    let group = job.members.job_ranks[rank].group;
    let is_of_rank = |location: &LocationRef| trace.group(*location) == group;
    let mut found = Vec::new();
    for location in job.selection.locations_of_kinds(&[LocationKind::Stream]).into_iter().filter(is_of_rank) {
        job.selection.slices(location, |slice| {
            let fields = trace.fields_of(&slice.attributes);
            let is_nccl = fields.parent.is_some()
                || fields.external_correlation.is_some()
                || trace.canonical_name(slice.region).is_some_and(is_of_nccl);
            if !is_nccl && !trace.is_copy(slice.region) {
                found.push((slice.began_ns(), slice.stop_ns));
            }
        })?;
    }
    Ok(union(found))
}

fn joined<D>(kernels: &[(u64, u64)], operations: &[Operation<D>]) -> Vec<(u64, u64)> {
    let mut ends: Vec<u64> =
        operations.iter().filter(|operation| operation.is_timed).map(|operation| operation.stop_ns).collect();
    ends.sort_unstable();
    let has_end =
        |from_ns, to_ns| ends.partition_point(|end| *end <= from_ns) < ends.partition_point(|end| *end <= to_ns);
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (start_ns, stop_ns) in kernels {
        match found.last_mut().filter(|before| !has_end(before.1, *start_ns)) {
            Some(before) => before.1 = *stop_ns,
            None => found.push((*start_ns, *stop_ns)),
        }
    }
    found
}

fn pauses<D>(operations: &[Operation<D>]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64, bool)> =
        operations.iter().map(|operation| (operation.start_ns, operation.stop_ns, operation.is_timed)).collect();
    all.sort_unstable();
    let mut found = Vec::new();
    let mut ended: Option<(u64, bool)> = None;
    for (start_ns, stop_ns, is_timed) in all {
        if let Some((ended_ns, true)) = ended.filter(|(ended_ns, _)| *ended_ns < start_ns && is_timed) {
            found.push((ended_ns, start_ns));
        }
        ended = ended.max(Some((stop_ns, is_timed)));
    }
    found
}

/// A job's data shared by the traces of all its ranks.
pub(super) struct Job<'a> {
    pub(super) source: Source<'a>,
    pub(super) selection: Selection<'a>,
    pub(super) members: Members,
    pub(super) calls: Calls,
    pub(super) numbers: Vec<u32>,
    /// The ranks of each communicator; `None` if one of them was not recorded.
    pub(super) groups: Vec<Option<Vec<u32>>>,
}

impl<'a> Job<'a> {
    pub(super) fn new(source: &Source<'a>) -> Result<Self> {
        let selection = Selection::new(*source)?;
        let members = Members::from_trace(source.trace);
        let calls = Calls::read(source, &selection)?;
        let numbers = values::numbers(&members);
        let communicators = (0..).zip(&members.communicators);
        let groups =
            communicators.map(|(number, _)| values::ranks_of_communicator(&members, &numbers, number)).collect();
        Ok(Self { source: *source, selection, members, calls, numbers, groups })
    }

    pub(super) fn world_size(&self) -> usize {
        values::world_size(&self.members, &self.numbers)
    }
}

#[cfg(test)]
mod tests {
    use nccl_events::collective::Collective;

    use super::*;

    fn operation(member: u32, [start, stop]: [u64; 2], group: u64) -> Operation<()> {
        let [start_ns, stop_ns] = [start, stop].map(|us| us * 1000);
        Operation {
            member,
            function: Some(Function::Collective(Collective::AllReduce)),
            bytes: 8,
            peer: 0,
            start_ns,
            stop_ns,
            is_timed: true,
            is_unfinished: false,
            event: start_ns,
            call: group,
            group: (group, 0),
            details: (),
        }
    }

    fn shown(nodes: &[Node]) -> Vec<(String, &[u64])> {
        let name = |what: &NodeContent| match what {
            NodeContent::Operation { at, .. } => format!("operation {at}"),
            NodeContent::Computing { start_ns, stop_ns } => format!("{}..{}", start_ns / 1000, stop_ns / 1000),
            NodeContent::Joined { at_ns } => format!("joined {}", at_ns / 1000),
        };
        nodes.iter().map(|node| (name(&node.what), node.waited_for.as_slice())).collect()
    }

    #[test]
    fn operations_wait_for_their_communicator_and_for_what_was_computed_before() {
        let operations = [operation(0, [10, 20], 1), operation(0, [12, 20], 1), operation(0, [30, 40], 2)];
        let found = nodes(&operations, &[(0, 10_000), (20_000, 30_000)]);
        let wanted: [(&str, &[u64]); 5] = [
            ("0..10", &[]),
            ("operation 0", &[1]),
            ("operation 1", &[1]),
            ("20..30", &[1, 2, 3]),
            ("operation 2", &[2, 3, 4]),
        ];
        assert_eq!(shown(&found), wanted.map(|(name, ids)| (name.to_owned(), ids)));
    }

    /// Computing waits for an operation that ended in a pause, not for one that it overlapped.
    #[test]
    fn what_overlapped_is_not_waited_for() {
        let operations = [operation(0, [10, 50], 1), operation(1, [20, 45], 2)];
        let found = nodes(&operations, &[(0, 40_000), (48_000, 60_000)]);
        let wanted: [(&str, &[u64]); 6] = [
            ("0..10", &[]),
            ("operation 0", &[1]),
            ("10..20", &[1]),
            ("operation 1", &[3]),
            ("20..40", &[3]),
            ("48..60", &[5, 4]),
        ];
        assert_eq!(shown(&found), wanted.map(|(name, ids)| (name.to_owned(), ids)));
    }

    #[test]
    fn large_groups_are_joined() {
        let group_operations = |group: u64| (0..20).map(move |_| operation(0, [group * 10, group * 10 + 5], group));
        let operations: Vec<Operation<()>> = [1, 2].into_iter().flat_map(group_operations).collect();
        let found = nodes(&operations, &[]);
        assert_eq!(found.len(), 41);
        assert_eq!(shown(&found)[20].0, "joined 15");
        assert_eq!(found[20].waited_for.len(), 20);
        assert!(found[21..].iter().all(|node| node.waited_for == [21]), "{found:?}");
    }
}
