//! v6 (2.29, 2.30): v5 and copy-engine collectives.

use std::ptr::NonNull;

use nccl_events::{Body, Kind, Name, Start, event};

use super::Descriptor;
use super::shapes::{header, kind, member, name, number};
use super::sys::{ncclProfilerEventDescr_v5_t, ncclProfilerEventDescr_v6_t};

impl Descriptor for ncclProfilerEventDescr_v6_t {
    #[inline(always)]
    unsafe fn read(pointer: NonNull<Self>, start: &mut Start<Name<'_>>) {
        // SAFETY: the contract.
        let descriptor = unsafe { pointer.as_ref() };
        header(start, descriptor.parentObj, descriptor.rank);
        start.body = match kind(descriptor.type_) {
            Kind::CeColl => {
                let raw = member!(descriptor, ceColl);
                Body::CeColl(event::CeColl {
                    sequence: raw.seqNumber,
                    func: name!(raw.func),
                    send_buffer: number(raw.sendBuff),
                    recv_buffer: number(raw.recvBuff),
                    count: raw.count as u64,
                    root: raw.root,
                    datatype: name!(raw.datatype),
                    sync_strategy: name!(raw.syncStrategy),
                    intra_batch_sync: raw.intraBatchSync != 0,
                    batch_size: raw.batchSize,
                    batches: raw.numBatches,
                    ce_sequence: raw.ceSeqNum,
                    stream: number(raw.stream),
                    user_tag: 0,
                })
            }
            Kind::CeSync => {
                let raw = member!(descriptor, ceCollSync);
                Body::CeSync(event::CeSync { complete: raw.isComplete != 0, ranks: raw.nRanks })
            }
            Kind::CeBatch => {
                let raw = member!(descriptor, ceCollBatch);
                Body::CeBatch(event::CeBatch {
                    operations: raw.numOps,
                    bytes: raw.totalBytes as u64,
                    intra_sync: raw.useIntraSync != 0,
                })
            }
            _ => {
                let pointer = pointer.cast::<ncclProfilerEventDescr_v5_t>();
                // SAFETY: the contract; v6 has the size of v5 and v5's members at v5's offsets (bindings.rs).
                return unsafe { ncclProfilerEventDescr_v5_t::read(pointer, start) };
            }
        };
    }
}
