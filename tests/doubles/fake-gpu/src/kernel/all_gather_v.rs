//! Batched broadcasts of 2.29 and later: several roots share one walk around the ring.

use super::batch::Batch;
use super::function_table::Func;
use super::part::{neighbours, simple_step_bytes};
use crate::device_memory::{Addr, Record};
use crate::layout::bcast;
use crate::prims::{BYTES, Env, Peers, Prims, Shape, Step};

struct Item {
    left: i64,
    done: i64,
    chunk: i64,
    /// steps along the ring from the root to this rank
    depth: i32,
    source: Addr,
    target: Addr,
}

impl Item {
    fn from_work(work: &Record) -> Item {
        Item {
            left: work.get(bcast::BYTES),
            done: work.get(bcast::BYTES_DONE),
            chunk: i64::from(work.get::<i32>(bcast::CHUNK_SIZE)),
            depth: work.get(bcast::RING_DEPTH),
            source: work.addr(bcast::SENDBUFF),
            target: work.addr(bcast::RECVBUFF),
        }
    }
}

pub(super) async fn run(env: &Env<'_>, batch: &Batch, func: Func) {
    let (prev, next) = neighbours(env);
    let last = env.n_ranks() as i32 - 1;
    let shape = Shape { proto: func.proto, slices: 1, steps: 1 };
    let peers = Peers { recv: &[prev], send: &[next], connection: 0 };
    let none = (Addr::NULL, Addr::NULL);
    let mut prims = Prims::new(env, shape, BYTES, &peers, none, simple_step_bytes(env));
    let mut items: Vec<Item> = batch.works.iter().map(Item::from_work).collect();
    while items.iter().any(|item| item.left > 0) {
        for item in items.iter_mut().filter(|item| item.left > 0) {
            let (n, at) = (item.left.min(item.chunk), item.done);
            let source = if item.depth == 0 { item.source } else { Addr::NULL };
            prims.set_data(source, item.target);
            let step = match item.depth {
                0 if item.source == item.target => Step::own(at, n).sent(),
                0 => Step::own(at, n).stored(at).sent(),
                depth if depth == last => Step::arriving(n).stored(at),
                _ => Step::arriving(n).stored(at).sent(),
            };
            prims.step(step).await;
            item.left -= n;
            item.done += n;
            if env.aborted() {
                return;
            }
        }
    }
    prims.close();
}
