//! Lays records out in words. The mirror of [`crate::format::record`], on the recording side: straight code,
//! no allocation. Payload words are counted from after the record header.

use crate::format::layout::{flag, kind, pair};
use nccl_events::{Body, NetData, StateArgs};

/// A string's number in its slot.
pub(crate) type NameNumber = u16;

/// Where payloads go: the recording thread's cursor. One call, one record, its length known when compiled.
pub(crate) trait Sink {
    /// Appends a record; false when there was no room.
    fn put<const WORDS: usize>(
        &mut self,
        kind: u8,
        flags: u8,
        id: u64,
        payload: [u64; WORDS],
    ) -> bool;
    /// The number of a string in this slot, recorded on first sight.
    fn name(&mut self, name: nccl_events::Name<'_>) -> NameNumber;
}

#[inline]
const fn both(low: i32, high: i32) -> u64 {
    pair(low.cast_unsigned(), high.cast_unsigned())
}

#[inline]
const fn four(a: NameNumber, b: NameNumber, c: NameNumber, d: NameNumber) -> u64 {
    a as u64 | (b as u64) << 16 | (c as u64) << 32 | (d as u64) << 48
}

#[inline]
const fn flags(truth: bool) -> u8 {
    if truth { flag::TRUE } else { 0 }
}

/// Appends the start of an event.
#[inline]
#[expect(
    clippy::too_many_lines,
    reason = "one match arm a kind: the layout table of docs/JOURNAL.md"
)]
pub(crate) fn start(sink: &mut impl Sink, id: u64, event: &nccl_events::Start<'_>) -> bool {
    let (parent, context, rank) = (event.parent, event.context, event.rank);
    let record = kind::START + event.body.kind() as u8;
    match event.body {
        Body::Group | Body::ProxyCtrl => sink.put(record, 0, id, [parent, context, both(rank, 0)]),
        Body::Coll(ref coll) => {
            let func = sink.name(coll.func);
            let datatype = sink.name(coll.datatype);
            let algorithm = sink.name(coll.algorithm);
            let protocol = sink.name(coll.protocol);
            let variant = sink.name(coll.kernel_variant);
            sink.put(
                record,
                flags(coll.is_symmetric),
                id,
                [
                    parent,
                    context,
                    both(rank, coll.root),
                    coll.sequence,
                    coll.send_buffer,
                    coll.recv_buffer,
                    coll.count,
                    coll.parent_group,
                    coll.user_tag,
                    coll.comm_hash,
                    four(func, datatype, algorithm, protocol),
                    u64::from(variant)
                        | u64::from(coll.channels) << 16
                        | u64::from(coll.warps) << 24,
                ],
            )
        }
        Body::P2p(ref p2p) => {
            let func = sink.name(p2p.func);
            let datatype = sink.name(p2p.datatype);
            sink.put(
                record,
                0,
                id,
                [
                    parent,
                    context,
                    both(rank, p2p.peer),
                    p2p.count,
                    p2p.buffer,
                    p2p.parent_group,
                    p2p.user_tag,
                    p2p.comm_hash,
                    four(func, datatype, u16::from(p2p.channels), 0),
                ],
            )
        }
        Body::ProxyOp {
            pid,
            channel,
            peer,
            steps,
            chunk_bytes,
            is_send,
        } => sink.put(
            record,
            flags(is_send),
            id,
            [
                parent,
                context,
                both(rank, pid),
                both(peer, steps),
                pair(chunk_bytes.cast_unsigned(), u32::from(channel)),
            ],
        ),
        Body::ProxyStep { step } => sink.put(record, 0, id, [parent, context, both(rank, step)]),
        Body::KernelCh { channel, gpu_ns } => sink.put(
            record,
            0,
            id,
            [parent, context, both(rank, i32::from(channel)), gpu_ns],
        ),
        Body::NetPlugin { id: plugin, data } => {
            let [a, b, c, d] = net_data(data);
            sink.put(
                record,
                0,
                id,
                [
                    parent,
                    context,
                    both(rank, 0),
                    plugin.cast_unsigned(),
                    a,
                    b,
                    c,
                    d,
                ],
            )
        }
        Body::GroupApi {
            graph_captured,
            depth,
        } => sink.put(
            record,
            flags(graph_captured),
            id,
            [parent, context, both(rank, depth)],
        ),
        Body::CollApi {
            func,
            count,
            datatype,
            root,
            stream,
            graph_captured,
            user_tag,
        } => {
            let names = four(sink.name(func), sink.name(datatype), 0, 0);
            sink.put(
                record,
                flags(graph_captured),
                id,
                [
                    parent,
                    context,
                    both(rank, root),
                    count,
                    stream,
                    user_tag,
                    names,
                ],
            )
        }
        Body::P2pApi {
            func,
            count,
            datatype,
            stream,
            graph_captured,
            user_tag,
        } => {
            let names = four(sink.name(func), sink.name(datatype), 0, 0);
            sink.put(
                record,
                flags(graph_captured),
                id,
                [
                    parent,
                    context,
                    both(rank, 0),
                    count,
                    stream,
                    user_tag,
                    names,
                ],
            )
        }
        Body::KernelLaunch { stream } => {
            sink.put(record, 0, id, [parent, context, both(rank, 0), stream])
        }
        Body::CeColl(ref coll) => {
            let func = sink.name(coll.func);
            let datatype = sink.name(coll.datatype);
            let strategy = sink.name(coll.sync_strategy);
            sink.put(
                record,
                flags(coll.intra_batch_sync),
                id,
                [
                    parent,
                    context,
                    both(rank, coll.root),
                    coll.sequence,
                    coll.send_buffer,
                    coll.recv_buffer,
                    coll.count,
                    coll.stream,
                    coll.user_tag,
                    four(func, datatype, strategy, 0),
                    pair(coll.batch_size, coll.batches),
                    u64::from(coll.ce_sequence),
                ],
            )
        }
        Body::CeSync { complete, ranks } => sink.put(
            record,
            flags(complete),
            id,
            [parent, context, both(rank, ranks)],
        ),
        Body::CeBatch {
            operations,
            bytes,
            intra_sync,
        } => sink.put(
            record,
            flags(intra_sync),
            id,
            [parent, context, both(rank, operations), bytes],
        ),
        Body::KernelPhase {
            channel,
            phase,
            name,
            gpu_ns,
        } => {
            let high =
                u32::from(channel) | u32::from(phase) << 8 | u32::from(sink.name(name)) << 16;
            sink.put(
                record,
                0,
                id,
                [parent, context, pair(rank.cast_unsigned(), high), gpu_ns],
            )
        }
        Body::Unknown { event_type } => {
            sink.put(record, 0, id, [parent, context, both(rank, 0), event_type])
        }
    }
}

/// Appends a change of state.
#[inline]
pub(crate) fn state(sink: &mut impl Sink, event: &nccl_events::State) -> bool {
    let word = |which: u32| pair(event.state, which);
    match event.args {
        StateArgs::None => sink.put(kind::STATE, 0, event.event, [word(0)]),
        StateArgs::ProxyOp { bytes, steps } => sink.put(
            kind::STATE,
            0,
            event.event,
            [word(1), bytes, both(steps, 0)],
        ),
        StateArgs::ProxyStep { bytes } => sink.put(kind::STATE, 0, event.event, [word(2), bytes]),
        StateArgs::ProxyCtrl { appended } => {
            sink.put(kind::STATE, 0, event.event, [word(3), both(appended, 0)])
        }
        StateArgs::GpuTime { gpu_ns } => sink.put(kind::STATE, 0, event.event, [word(4), gpu_ns]),
        StateArgs::NetPlugin { data } => {
            let [a, b, c, d] = net_data(data);
            sink.put(kind::STATE, 0, event.event, [word(5), a, b, c, d])
        }
    }
}

#[inline]
const fn net_data(data: NetData) -> [u64; 4] {
    match data {
        NetData::Opaque => [0, 0, 0, 0],
        NetData::IbQueuePair {
            device,
            work_request,
            opcode,
            queue_pair,
            bytes,
        } => [
            both(1, device),
            both(opcode, queue_pair),
            work_request,
            bytes,
        ],
        NetData::Socket {
            descriptor,
            operation,
            bytes,
        } => [both(2, descriptor), both(operation, 0), 0, bytes],
    }
}
