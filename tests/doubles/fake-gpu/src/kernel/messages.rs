//! Sends and receives.

use super::batch::Batch;
use super::tasks::{JoinAll, Task};
use crate::device_memory::{Addr, Record};
use crate::layout::{comm, p2p};
use crate::prims::{BYTES, Env, Peers, Prims, Proto, Shape, Src};

/// Messages of ranks have connections of their own.
const P2P_CONNECTION: usize = 1;

/// Chunk sizes are stored like small floating-point numbers: five bits of exponent, three of mantissa.
fn chunk_of(code: u8) -> i64 {
    let exponent = i64::from(code >> 3);
    let mantissa = i64::from(code & 7);
    if exponent == 0 {
        mantissa
    } else {
        (mantissa | 8) << (exponent - 1)
    }
}

/// Which of the channels that share a message this one is.
fn own_part(env: &Env<'_>, work: &Record) -> u32 {
    let channels = u32::from(work.get::<u8>(p2p::N_P2P_CHANNELS));
    let base = u32::from(work.get::<u8>(p2p::CHANNEL_BASE));
    let part = (env.channel_id as u32).wrapping_sub(base) & (channels - 1);
    match (channels - 1).count_ones() {
        bits if env.layout.p2p_reversed && bits > 0 => part.reverse_bits() >> (32 - bits),
        _ if env.layout.p2p_reversed => 0,
        _ => part,
    }
}

/// Start and end of the bytes that this channel moves, if any.
fn bounds(part: u32, parts: u8, bytes: u64) -> Option<(usize, usize)> {
    if part >= u32::from(parts) {
        return None;
    }
    let bytes = bytes as usize;
    let each = bytes.div_ceil(usize::from(parts)).next_multiple_of(4096);
    let part = part as usize;
    Some(((part * each).min(bytes), ((part + 1) * each).min(bytes)))
}

/// One direction of a work.
struct Message {
    peer: i32,
    at: Addr,
    len: i64,
    chunk: i64,
    proto: Proto,
}

impl Message {
    fn shape(&self) -> Shape {
        Shape {
            proto: self.proto,
            slices: 1,
            steps: 1,
        }
    }

    /// The chunks; there is one even where there are no bytes.
    fn chunks(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let (len, chunk) = (self.len, self.chunk.max(1));
        (0..(len + chunk - 1) / chunk)
            .map(move |i| (i * chunk, chunk.min(len - i * chunk)))
            .chain((len == 0).then_some((0, 0)))
    }
}

async fn send(env: &Env<'_>, message: Message, step_bytes: usize) {
    let peers = Peers {
        recv: &[],
        send: &[message.peer],
        connection: P2P_CONNECTION,
    };
    let data = (message.at, Addr::NULL);
    let mut prims = Prims::new(env, message.shape(), BYTES, &peers, data, step_bytes);
    for (at, n) in message.chunks() {
        prims.send(Src::Input(at), n).await;
        if env.aborted() {
            break;
        }
    }
    prims.close();
}

async fn recv(env: &Env<'_>, message: Message, step_bytes: usize) {
    let peers = Peers {
        recv: &[message.peer],
        send: &[],
        connection: P2P_CONNECTION,
    };
    let data = (Addr::NULL, message.at);
    let mut prims = Prims::new(env, message.shape(), BYTES, &peers, data, step_bytes);
    for (at, n) in message.chunks() {
        prims.recv(at, n).await;
        if env.aborted() {
            break;
        }
    }
    prims.close();
}

/// All messages of a batch, side by side.
pub(super) async fn run(env: &Env<'_>, batch: &Batch) {
    let step_bytes = env.comm.field(comm::P2P_CHUNK).read::<i32>() as usize;
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for work in &batch.works {
        let part = own_part(env, work);
        let flags: u8 = work.get(p2p::FLAGS);
        let proto = |bit: u8| {
            if flags >> bit & 1 == 1 {
                Proto::Ll
            } else {
                Proto::Simple
            }
        };
        let outgoing = bounds(
            part,
            work.get(p2p::N_SEND_CHANNELS),
            work.get(p2p::SEND_BYTES),
        );
        let incoming = bounds(
            part,
            work.get(p2p::N_RECV_CHANNELS),
            work.get(p2p::RECV_BYTES),
        );
        let (source, target) = (work.addr(p2p::SEND_ADDR), work.addr(p2p::RECV_ADDR));
        let to: i32 = work.get(p2p::SEND_RANK);
        if to == env.rank() {
            if let (Some((from, end)), Some((at, _))) = (outgoing, incoming) {
                source.field(from).copy_to(target.field(at), end - from);
            }
            continue;
        }
        if let Some((from, end)) = outgoing {
            let message = Message {
                peer: to,
                at: source.field(from),
                len: (end - from) as i64,
                chunk: chunk_of(work.get(p2p::SEND_CHUNK)),
                proto: proto(0),
            };
            tasks.push(Box::pin(send(env, message, step_bytes)));
        }
        if let Some((from, end)) = incoming {
            let message = Message {
                peer: work.get(p2p::RECV_RANK),
                at: target.field(from),
                len: (end - from) as i64,
                chunk: chunk_of(work.get(p2p::RECV_CHUNK)),
                proto: proto(1),
            };
            tasks.push(Box::pin(recv(env, message, step_bytes)));
        }
    }
    JoinAll(tasks).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_codes() {
        assert_eq!(chunk_of(0), 0);
        assert_eq!(chunk_of(7), 7);
        assert_eq!(chunk_of(0x80), 8 << 15);
    }

    #[test]
    fn parts_cover_a_message_once() {
        for bytes in [0, 1, 4096, 5000, 100_000] {
            let parts: Vec<_> = (0..4).filter_map(|part| bounds(part, 4, bytes)).collect();
            assert_eq!(parts[0].0, 0);
            assert_eq!(parts[3].1 as u64, bytes);
            assert!(
                parts.windows(2).all(|pair| pair[0].1 == pair[1].0),
                "{parts:?}"
            );
        }
        assert_eq!(bounds(4, 4, 100), None);
    }

    #[test]
    fn an_empty_message_is_one_chunk() {
        let message = |len| Message {
            peer: 0,
            at: Addr::NULL,
            len,
            chunk: 10,
            proto: Proto::Simple,
        };
        assert_eq!(message(0).chunks().collect::<Vec<_>>(), [(0, 0)]);
        assert_eq!(
            message(25).chunks().collect::<Vec<_>>(),
            [(0, 10), (10, 10), (20, 5)]
        );
    }
}
