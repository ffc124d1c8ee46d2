use super::*;
use crate::format::encode::{self, NameNumber, Sink};
use crate::format::layout::kind;
use nccl_events::{Body, CeColl, Coll, Name, P2p, Start, State};

/// Takes records as the recording side writes them, and holds their lengths against what the reading side calls usual.
struct Lengths {
    seen: Vec<u8>,
}

impl Sink for Lengths {
    fn put<const WORDS: usize>(
        &mut self,
        record: u8,
        _flags: u8,
        _id: u64,
        payload: [u64; WORDS],
    ) -> bool {
        let words: Vec<Word> = payload.iter().map(|word| word.to_le_bytes()).collect();
        assert_eq!(usual_words(record, &words), Some(WORDS), "{record:#x}");
        self.seen.push(record);
        true
    }

    fn name(&mut self, _name: Name<'_>) -> NameNumber {
        0
    }
}

fn bodies() -> Vec<Body<'static>> {
    let none = Name::NONE;
    vec![
        Body::Group,
        Body::Coll(Coll {
            sequence: 1,
            func: none,
            send_buffer: 2,
            recv_buffer: 3,
            count: 4,
            root: 0,
            datatype: none,
            channels: 1,
            warps: 1,
            algorithm: none,
            protocol: none,
            parent_group: 0,
            comm_hash: 0,
            kernel_variant: none,
            is_symmetric: true,
            user_tag: 0,
        }),
        Body::P2p(P2p {
            func: none,
            buffer: 1,
            datatype: none,
            count: 2,
            peer: 3,
            channels: 1,
            parent_group: 0,
            comm_hash: 0,
            user_tag: 0,
        }),
        Body::ProxyOp {
            pid: 1,
            channel: 2,
            peer: 3,
            steps: 4,
            chunk_bytes: 5,
            is_send: true,
        },
        Body::ProxyStep { step: 1 },
        Body::ProxyCtrl,
        Body::KernelCh {
            channel: 1,
            gpu_ns: 2,
        },
        Body::NetPlugin {
            id: 1,
            data: NetData::Opaque,
        },
        Body::GroupApi {
            graph_captured: true,
            depth: 1,
        },
        Body::CollApi {
            func: none,
            count: 1,
            datatype: none,
            root: 0,
            stream: 2,
            graph_captured: true,
            user_tag: 0,
        },
        Body::P2pApi {
            func: none,
            count: 1,
            datatype: none,
            stream: 2,
            graph_captured: true,
            user_tag: 0,
        },
        Body::KernelLaunch { stream: 1 },
        Body::CeColl(CeColl {
            sequence: 1,
            func: none,
            send_buffer: 2,
            recv_buffer: 3,
            count: 4,
            root: 0,
            datatype: none,
            sync_strategy: none,
            intra_batch_sync: true,
            batch_size: 1,
            batches: 2,
            ce_sequence: 3,
            stream: 4,
            user_tag: 0,
        }),
        Body::CeSync {
            complete: true,
            ranks: 1,
        },
        Body::CeBatch {
            operations: 1,
            bytes: 2,
            intra_sync: true,
        },
        Body::KernelPhase {
            channel: 1,
            phase: 2,
            name: none,
            gpu_ns: 3,
        },
        Body::Unknown { event_type: 1 },
    ]
}

/// What is not as usual is looked through word by word: it must not be what is written.
#[test]
fn what_is_written_is_as_usual() {
    let mut lengths = Lengths { seen: Vec::new() };
    for body in bodies() {
        let start = Start {
            context: 1,
            parent: 2,
            rank: 3,
            body,
        };
        assert!(encode::start(&mut lengths, 9, &start));
    }
    let data = NetData::Opaque;
    for args in [
        StateArgs::None,
        StateArgs::ProxyOp { bytes: 1, steps: 2 },
        StateArgs::ProxyStep { bytes: 1 },
        StateArgs::ProxyCtrl { appended: 1 },
        StateArgs::GpuTime { gpu_ns: 1 },
        StateArgs::NetPlugin { data },
    ] {
        let state = State {
            event: 9,
            state: 1,
            args,
        };
        assert!(encode::state(&mut lengths, &state));
    }
    assert!(lengths.put(kind::STOP, 0, 9, []));
    let mut kinds = lengths.seen;
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), Kind::COUNT + 2, "all kinds, stop and state");
    // And of what has no one length nothing is said.
    assert_eq!(usual_words(kind::NAME, &[]), None);
    assert_eq!(usual_words(kind::STATE, &[]), None);
    assert_eq!(usual_words(kind::STATE, &[u64::MAX.to_le_bytes()]), None);
    assert_eq!(usual_words(kind::STATE + 1, &[]), None);
}
