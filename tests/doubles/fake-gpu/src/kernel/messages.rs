//! Sends and receives.

use super::batch::Batch;
use crate::device_memory::{Addr, Record};
use crate::layout::{comm, p2p};
use crate::prims::{BYTES, Env, Peers, Prims, Proto, Shape, Step};
use crate::tasks::{JoinAll, Task};

/// Messages of ranks have connections of their own.
const P2P_CONNECTION: usize = 1;

/// Chunk sizes are stored like small floating-point numbers: five bits of exponent, three of mantissa.
fn chunk_of(code: u8) -> i64 {
    let exponent = i64::from(code >> 3);
    let mantissa = i64::from(code & 7);
    if exponent == 0 { mantissa } else { (mantissa | 8) << (exponent - 1) }
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

fn bounds(part: u32, parts: u8, bytes: u64) -> Option<(usize, usize)> {
    if part >= u32::from(parts) {
        return None;
    }
    let bytes = bytes as usize;
    let each = bytes.div_ceil(usize::from(parts)).next_multiple_of(4096);
    let part = part as usize;
    Some(((part * each).min(bytes), ((part + 1) * each).min(bytes)))
}

struct Message {
    sends: bool,
    peer: i32,
    at: Addr,
    len: i64,
    chunk: i64,
    proto: Proto,
}

/// Moves a message in chunks; there is one even where there are no bytes.
async fn transfer(env: &Env<'_>, message: Message, step_bytes: usize) {
    let peer = [message.peer];
    let (send, recv): (&[i32], &[i32]) = if message.sends { (&peer, &[]) } else { (&[], &peer) };
    let peers = Peers { recv, send, connection: P2P_CONNECTION };
    let shape = Shape { proto: message.proto, slices: 1, steps: 1 };
    let data = (message.at, message.at);
    let mut prims = Prims::new(env, shape, BYTES, &peers, data, step_bytes);
    let mut at = 0;
    loop {
        let n = message.chunk.max(1).min(message.len - at);
        let step = if message.sends { Step::own(at, n).sent() } else { Step::arriving(n).stored(at) };
        prims.step(step).await;
        at += n;
        if at >= message.len || env.aborted() {
            break;
        }
    }
    prims.close();
}

pub(super) async fn run(env: &Env<'_>, batch: &Batch) {
    let step_bytes = env.comm.field(comm::P2P_CHUNK).read::<i32>() as usize;
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for work in &batch.works {
        let part = own_part(env, work);
        let flags: u8 = work.get(p2p::FLAGS);
        let outgoing = bounds(part, work.get(p2p::N_SEND_CHANNELS), work.get(p2p::SEND_BYTES));
        let incoming = bounds(part, work.get(p2p::N_RECV_CHANNELS), work.get(p2p::RECV_BYTES));
        let (source, target) = (work.addr(p2p::SEND_ADDR), work.addr(p2p::RECV_ADDR));
        let to: i32 = work.get(p2p::SEND_RANK);
        if to == env.rank() {
            if let (Some((from, end)), Some((at, _))) = (outgoing, incoming) {
                source.field(from).copy_to(target.field(at), end - from);
            }
            continue;
        }
        let from: i32 = work.get(p2p::RECV_RANK);
        let sent = (true, to, source, p2p::SEND_CHUNK, 0, outgoing);
        let received = (false, from, target, p2p::RECV_CHUNK, 1, incoming);
        for (sends, peer, data, chunk, bit, bounds) in [sent, received] {
            let Some((start, end)) = bounds else { continue };
            let message = Message {
                sends,
                peer,
                at: data.field(start),
                len: (end - start) as i64,
                chunk: chunk_of(work.get(chunk)),
                proto: if flags >> bit & 1 == 1 { Proto::Ll } else { Proto::Simple },
            };
            tasks.push(Box::pin(transfer(env, message, step_bytes)));
        }
    }
    JoinAll(tasks).await;
}
