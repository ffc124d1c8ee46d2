//! What an event or state says, by the names of the stream format.

use journal::reader::Symbols;
use journal::record::{Fields, Symbol};
use nccl_events::{NetData, StateArgs};

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A string.
    Text(String),
    /// A number.
    Unsigned(u64),
    /// A number.
    Signed(i64),
    /// Yes or no.
    Flag(bool),
    /// A handle or an address; 0 is NULL.
    Address(u64),
    /// A number with a fraction.
    Float(f64),
    /// Several of one kind.
    Several(Vec<Self>),
    /// Several.
    Object(List),
}

/// Fields in their order.
pub(crate) type List = Vec<(&'static str, Value)>;

struct Fill<'a> {
    symbols: &'a Symbols,
    list: List,
}

impl Fill<'_> {
    /// A string; left out where NCCL passed none.
    fn text(&mut self, name: &'static str, symbol: Symbol) {
        if symbol != Symbol::NONE {
            let text = self.symbols.text(symbol).to_owned();
            self.list.push((name, Value::Text(text)));
        }
    }

    fn number(&mut self, name: &'static str, number: impl Into<u64>) {
        self.list.push((name, Value::Unsigned(number.into())));
    }

    fn signed(&mut self, name: &'static str, number: impl Into<i64>) {
        self.list.push((name, Value::Signed(number.into())));
    }

    fn flag(&mut self, name: &'static str, is_set: bool) {
        self.list.push((name, Value::Flag(is_set)));
    }

    fn address(&mut self, name: &'static str, address: u64) {
        self.list.push((name, Value::Address(address)));
    }

    /// What few releases give: left out where it is 0.
    fn rare(&mut self, name: &'static str, number: u64) {
        if number != 0 {
            self.number(name, number);
        }
    }
}

/// The details of an event.
#[expect(clippy::too_many_lines, reason = "one arm a kind, one line a field")]
pub(crate) fn details(fields: &Fields, symbols: &Symbols) -> List {
    let mut fill = Fill {
        symbols,
        list: List::new(),
    };
    match *fields {
        Fields::Group | Fields::ProxyCtrl | Fields::Unknown { .. } => {}
        Fields::Coll {
            sequence,
            func,
            send_buffer,
            recv_buffer,
            count,
            root,
            datatype,
            channels,
            warps,
            algorithm,
            protocol,
            parent_group,
            comm_hash,
            kernel_variant,
            is_symmetric,
            user_tag,
        } => {
            fill.text("func", func);
            fill.number("seq", sequence);
            fill.text("algo", algorithm);
            fill.text("proto", protocol);
            fill.number("channels", channels);
            fill.number("warps", warps);
            fill.number("count", count);
            fill.signed("root", root);
            fill.text("dtype", datatype);
            fill.address("sendBuff", send_buffer);
            fill.address("recvBuff", recv_buffer);
            fill.address("parentGroup", parent_group);
            fill.rare("commHash", comm_hash);
            fill.text("kernelVariant", kernel_variant);
            if is_symmetric {
                fill.flag("isSymmetric", true);
            }
            fill.rare("userTag", user_tag);
        }
        Fields::P2p {
            func,
            buffer,
            datatype,
            count,
            peer,
            channels,
            parent_group,
            comm_hash,
            user_tag,
        } => {
            fill.text("func", func);
            fill.signed("peer", peer);
            fill.number("channels", channels);
            fill.number("count", count);
            fill.text("dtype", datatype);
            fill.address("buff", buffer);
            fill.address("parentGroup", parent_group);
            fill.rare("commHash", comm_hash);
            fill.rare("userTag", user_tag);
        }
        Fields::ProxyOp {
            pid,
            channel,
            peer,
            steps,
            chunk_bytes,
            is_send,
        } => {
            fill.number("channel", channel);
            fill.signed("peer", peer);
            fill.signed("steps", steps);
            fill.signed("chunkSize", chunk_bytes);
            fill.flag("isSend", is_send);
            fill.signed("eventPid", pid);
        }
        Fields::ProxyStep { step } => fill.signed("step", step),
        Fields::KernelCh { channel, gpu_ns } => {
            fill.number("channel", channel);
            fill.number("pTimer", gpu_ns);
        }
        Fields::NetPlugin { id, data } => {
            fill.signed("netId", id);
            if let Some(net) = net(data) {
                fill.list.push(("net", Value::Object(net)));
            }
        }
        Fields::GroupApi {
            graph_captured,
            depth,
        } => {
            fill.signed("depth", depth);
            fill.flag("graphCaptured", graph_captured);
        }
        Fields::CollApi {
            func,
            count,
            datatype,
            root,
            stream,
            graph_captured,
            user_tag,
        } => {
            fill.text("func", func);
            fill.number("count", count);
            fill.text("dtype", datatype);
            fill.signed("root", root);
            fill.address("stream", stream);
            fill.flag("graphCaptured", graph_captured);
            fill.rare("userTag", user_tag);
        }
        Fields::P2pApi {
            func,
            count,
            datatype,
            stream,
            graph_captured,
            user_tag,
        } => {
            fill.text("func", func);
            fill.number("count", count);
            fill.text("dtype", datatype);
            fill.address("stream", stream);
            fill.flag("graphCaptured", graph_captured);
            fill.rare("userTag", user_tag);
        }
        Fields::KernelLaunch { stream } => fill.address("stream", stream),
        Fields::CeColl {
            sequence,
            func,
            send_buffer,
            recv_buffer,
            count,
            root,
            datatype,
            sync_strategy,
            intra_batch_sync,
            batch_size,
            batches,
            ce_sequence,
            stream,
            user_tag,
        } => {
            fill.text("func", func);
            fill.number("seq", sequence);
            fill.number("ceSeq", ce_sequence);
            fill.number("count", count);
            fill.signed("root", root);
            fill.text("dtype", datatype);
            fill.address("sendBuff", send_buffer);
            fill.address("recvBuff", recv_buffer);
            fill.address("stream", stream);
            fill.text("syncStrategy", sync_strategy);
            fill.flag("intraBatchSync", intra_batch_sync);
            fill.number("batchSize", batch_size);
            fill.number("batches", batches);
            fill.rare("userTag", user_tag);
        }
        Fields::CeSync { complete, ranks } => {
            fill.flag("isComplete", complete);
            fill.signed("nranks", ranks);
        }
        Fields::CeBatch {
            operations,
            bytes,
            intra_sync,
        } => {
            fill.signed("operations", operations);
            fill.number("bytes", bytes);
            fill.flag("intraSync", intra_sync);
        }
        Fields::KernelPhase {
            channel,
            phase,
            name,
            gpu_ns,
        } => {
            fill.number("channel", channel);
            fill.number("phase", phase);
            fill.text("phaseName", name);
            fill.number("pTimer", gpu_ns);
        }
    }
    fill.list
}

/// What came with a state.
pub(crate) fn arguments(args: StateArgs) -> List {
    match args {
        StateArgs::None => List::new(),
        StateArgs::ProxyOp { bytes, steps } => vec![
            ("transSize", Value::Unsigned(bytes)),
            ("steps", Value::Signed(steps.into())),
        ],
        StateArgs::ProxyStep { bytes } => vec![("transSize", Value::Unsigned(bytes))],
        StateArgs::ProxyCtrl { appended } => {
            vec![("appendedProxyOps", Value::Signed(appended.into()))]
        }
        StateArgs::GpuTime { gpu_ns } => vec![("pTimer", Value::Unsigned(gpu_ns))],
        StateArgs::NetPlugin { data } => net(data)
            .map(|net| ("net", Value::Object(net)))
            .into_iter()
            .collect(),
    }
}

fn net(data: NetData) -> Option<List> {
    match data {
        NetData::Opaque => None,
        NetData::IbQueuePair {
            device,
            work_request,
            opcode,
            queue_pair,
            bytes,
        } => Some(vec![
            ("type", Value::Text("ibQueuePair".to_owned())),
            ("device", Value::Signed(device.into())),
            ("workRequest", Value::Unsigned(work_request)),
            ("opcode", Value::Signed(opcode.into())),
            ("queuePair", Value::Signed(queue_pair.into())),
            ("bytes", Value::Unsigned(bytes)),
        ]),
        NetData::Socket {
            descriptor,
            operation,
            bytes,
        } => Some(vec![
            ("type", Value::Text("socket".to_owned())),
            ("descriptor", Value::Signed(descriptor.into())),
            ("operation", Value::Signed(operation.into())),
            ("bytes", Value::Unsigned(bytes)),
        ]),
    }
}
