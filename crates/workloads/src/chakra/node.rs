//! A node as a message.

use analysis::read::{Members, NONE};
use analysis::{Slice, Trace};
use nccl_events::collective::{Collective, Function};
use nccl_events::ids::index;
use otf2::AttributeValue;
use proto_messages::chakra::{self, Attribute, CommType, NodeType};

use super::graph::{Node, What};
use super::job::Job;
use crate::operations::Operation;

/// The name of an operation's node, and the attributes of the archive.
pub(super) struct Details {
    name: String,
    attributes: Vec<Attribute>,
}

pub(super) struct Nodes<'a> {
    job: &'a Job<'a>,
    /// Its number in the job.
    rank: u32,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Collective(CommType),
    Send,
    Receive,
}

/// What an operation is in Chakra; `None` if that is not known, or if it is a message without another end.
pub(super) fn what<D>(it: &Operation<D>, members: &Members) -> Option<Kind> {
    let size = members.size(members.row(it.member).communicator);
    match it.function? {
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
            let is_send = function.is_send().filter(|_| it.peer != NONE && index(it.peer) < size)?;
            Some(if is_send { Kind::Send } else { Kind::Receive })
        }
    }
}

impl<'a> Nodes<'a> {
    pub(super) fn of(job: &'a Job<'a>, rank: usize) -> Self {
        Self { job, rank: job.numbers[rank] }
    }

    pub(super) fn attributes(&self, slice: &Slice) -> Details {
        let trace = self.job.source.trace;
        let named = slice.attributes.iter().filter_map(|(attribute, it)| {
            let definition = trace.definitions.attributes.get(attribute)?;
            Some(Attribute::new(trace.definitions.string(definition.name)?, value(trace, *it)?))
        });
        Details { name: trace.region_name(slice.region), attributes: named.collect() }
    }

    pub(super) fn node(&self, node: &Node, operations: &[Operation<Details>], id: u64) -> chakra::Node {
        let on_gpu = Attribute::new("is_cpu_op", chakra::Value::Bool(false));
        let computing = |name: &str, start_ns: u64, stop_ns: u64| chakra::Node {
            id,
            name: name.to_owned(),
            r#type: NodeType::Computing.into(),
            data_deps: node.waited_for.clone(),
            start_time_micros: start_ns / 1000,
            duration_micros: stop_ns / 1000 - start_ns / 1000,
            attr: vec![on_gpu.clone()],
        };
        match node.what {
            What::Computing { start_ns, stop_ns } => computing("computing", start_ns, stop_ns),
            What::Joined { at_ns } => computing("end of group", at_ns, at_ns),
            What::Operation { at, tag } => {
                let it = &operations[at];
                let (r#type, attr) = self.communication(it, tag);
                let lasted = (it.stop_ns / 1000).saturating_sub(it.start_ns / 1000).max(1);
                chakra::Node {
                    id,
                    name: it.details.name.clone(),
                    r#type: r#type.into(),
                    data_deps: node.waited_for.clone(),
                    start_time_micros: it.start_ns / 1000,
                    duration_micros: if it.is_timed { lasted } else { 0 },
                    attr: [on_gpu.clone()]
                        .into_iter()
                        .chain(attr)
                        .chain(it.details.attributes.iter().cloned())
                        .collect(),
                }
            }
        }
    }

    fn communication(&self, it: &Operation<Details>, tag: u64) -> (NodeType, Vec<Attribute>) {
        let members = &self.job.members;
        let member = members.row(it.member);
        let communicator = members.communicators.get(index(member.communicator));
        let name = communicator.map_or_else(String::new, |comm| self.job.source.trace.comm_name(*comm));
        let size = members.size(member.communicator) as u64;
        // The send buffer of a rank, of the root where only that one has it.
        let bytes = it.function.map_or(it.bytes, |function| function.elements(it.bytes, size, true).0);
        let mut attr = vec![
            Attribute::new("comm_size", chakra::Value::Int64(i64::try_from(bytes).unwrap_or(i64::MAX))),
            Attribute::new("pg_name", chakra::Value::Text((member.communicator + 1).to_string())),
            Attribute::new("nccl.communicator", chakra::Value::Text(name)),
        ];
        let r#type = match what(it, members) {
            Some(Kind::Collective(of)) => {
                attr.push(Attribute::new("comm_type", chakra::Value::Int64(of as i64)));
                NodeType::Collective
            }
            Some(kind) => {
                let group = self.job.groups[index(member.communicator)].as_ref();
                let peer = group.and_then(|ranks| ranks.get(index(it.peer))).copied().unwrap_or(self.rank);
                let is_send = matches!(kind, Kind::Send);
                let [from, to] = if is_send { [self.rank, peer] } else { [peer, self.rank] };
                // Messages of one communicator are in order; its number tells them from those of others.
                let communicators = members.communicators.len() as u64;
                let tag = tag.wrapping_mul(communicators).wrapping_add(member.communicator.into());
                let tag = i32::try_from(tag & 0x7fff_ffff).unwrap_or(0);
                for (name, number) in [("comm_src", from), ("comm_dst", to)] {
                    attr.push(Attribute::new(name, chakra::Value::Int32(number.cast_signed())));
                }
                attr.push(Attribute::new("comm_tag", chakra::Value::Int32(tag)));
                if is_send { NodeType::Send } else { NodeType::Receive }
            }
            None => NodeType::Invalid,
        };
        (r#type, attr)
    }
}

/// A value of NCCL's attributes; `None` for other types.
fn value(trace: &Trace, value: AttributeValue) -> Option<chakra::Value> {
    Some(match value {
        AttributeValue::U8(number) => chakra::Value::Uint64(number.into()),
        AttributeValue::U32(number) => chakra::Value::Uint64(number.into()),
        AttributeValue::U64(number) => chakra::Value::Uint64(number),
        AttributeValue::I32(number) => chakra::Value::Int64(number.into()),
        AttributeValue::I64(number) => chakra::Value::Int64(number),
        AttributeValue::F64(number) => chakra::Value::Double(number),
        other => chakra::Value::Text(trace.text(other)?.to_owned()),
    })
}
