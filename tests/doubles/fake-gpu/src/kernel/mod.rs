//! CPU emulation of the NCCL device kernels: walks the work batches of a launch and moves the data as the GPU
//! blocks would.
//!
//! Blocks of a kernel, and concurrent parts of a block, are cooperative tasks ([`tasks`]) on the stream's thread.

mod all_gather_v;
mod batch;
mod counters;
mod function_table;
mod messages;
mod part;
mod ring;
mod tree;

pub(crate) use function_table::{Coll, Func, decode_table};

use crate::device_memory::{Addr, Record};
use crate::layout::Layout;
use crate::log::{break_device, warning};
use crate::prims::Env;
use crate::reduce::is_emulated;
use crate::tasks::{self, Task};
use batch::Batch;
use counters::Counters;
use function_table::{ALGO_RING, ALGO_TREE};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) struct Library {
    /// CUDA version that it was built with, e.g. 12090
    pub(crate) cuda: i32,
    pub(crate) layout: Layout,
    pub(crate) funcs: HashMap<i32, Func>,
    /// names by address of the host-side stub
    pub(crate) kernels: HashMap<usize, String>,
}

/// The library patched last. A process normally maps only one.
static CURRENT: Mutex<Option<Arc<Library>>> = Mutex::new(None);

impl Library {
    pub(crate) fn use_from_now_on(self) {
        *CURRENT.lock() = Some(Arc::new(self));
    }

    pub(crate) fn current() -> Option<Arc<Library>> {
        CURRENT.lock().clone()
    }
}

/// A launch: a private copy of the kernel's argument block.
pub(crate) struct Launch {
    args: Record,
}

/// `ncclDevKernelArgs`: communicator, channel mask, where the work is, work ring, its size less one, then batches.
mod args {
    pub(super) const COMM: usize = 0;
    pub(super) const CHANNEL_MASK: usize = 8;
    pub(super) const STORAGE: usize = 16;
}

/// The works are in a ring that the host fills, and wants to know how far it has been read.
const STORAGE_FIFO: u8 = 1;

impl Launch {
    pub(crate) fn copy(from: Addr, len: usize) -> Launch {
        let mut args = from.bytes(len);
        args.resize(len.next_multiple_of(16), 0);
        Launch { args: Record::from_bytes(args) }
    }

    pub(crate) fn run(&self, library: &Library) {
        let comm = self.args.addr(args::COMM);
        let mask: u64 = self.args.get(args::CHANNEL_MASK);
        let tasks = (0..64)
            .filter(|channel| mask >> channel & 1 == 1)
            .enumerate()
            .map(|(block, channel)| -> Task<'_> { Box::pin(run_block(library, &self.args, comm, channel, block)) })
            .collect();
        tasks::run(tasks);
    }
}

async fn run_block(library: &Library, args: &Record, comm: Addr, id: usize, block: usize) {
    let layout = &library.layout;
    let env = Env { layout, comm, channel: comm.field(layout.channels + id * layout.chan_size), channel_id: id };
    let counters = Counters::new(&env);
    let storage: u8 = args.get(args::STORAGE);
    let mut next = Some(block);
    while let Some(index) = next {
        let batch = Batch::load(layout, args, index);
        if let (Some(consumed), STORAGE_FIFO) = (layout.work_consumed, storage) {
            comm.field(consumed).follow().field(4 * id).store_u32(batch.consumed);
        }
        counters.begin(&batch);
        match library.funcs.get(&batch.func) {
            Some(&func) => run_batch(&env, &batch, func).await,
            None => {
                warning!("device function {} is not in the table", batch.func);
                break_device();
            }
        }
        if env.aborted() {
            return;
        }
        counters.end(&batch);
        next = batch.next;
    }
}

fn not_emulated(func: Func) {
    warning!("{func:?} is not emulated");
    break_device();
}

async fn run_batch(env: &Env<'_>, batch: &Batch, func: Func) {
    match func.coll {
        Coll::SendRecv => messages::run(env, batch).await,
        Coll::AllGatherV => all_gather_v::run(env, batch, func).await,
        Coll::AllReduce | Coll::Reduce | Coll::ReduceScatter if !is_emulated(func.ty, func.op) => not_emulated(func),
        _ => {
            for work in &batch.works {
                match (func.coll, func.algo) {
                    (Coll::AllReduce, ALGO_TREE) => tree::run(env, work, func).await,
                    (_, ALGO_RING) => ring::run(env, work, func).await,
                    _ => not_emulated(func),
                }
            }
        }
    }
}
