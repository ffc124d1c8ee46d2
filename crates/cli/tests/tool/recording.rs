//! What killed processes leave: journals by the recording half's own writer, and no part.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::clock::{self, ClockPair};
use journal::part::process::ProcessInfo;
use journal::writer::{Registry, RegistryOptions};
use nccl_events::event;
use nccl_events::id::{ContextId, ProcessTag};
use nccl_events::{Body, CommInit, Name, Start};

/// Process ids end at 2²².
pub(crate) const NO_PROCESS: u32 = 1 << 30;

/// A part of a process with `all_reduces` collectives, killed after them. `pid` plus the rank is its id.
pub(crate) fn record(out: &Path, rank: u32, pid: u32, all_reduces: u64) -> PathBuf {
    record_in(out, rank, pid, all_reduces, |_| {})
}

/// As [`record`]; `describe` changes what the process says of itself.
pub(crate) fn record_in(
    out: &Path,
    rank: u32,
    pid: u32,
    all_reduces: u64,
    describe: impl FnOnce(&mut ProcessInfo),
) -> PathBuf {
    let part = out.join("parts").join(format!("host-{rank}"));
    let journal = part.join("journal");
    fs::create_dir_all(&journal).expect("a part");
    let tick_source = clock::select();
    let started_ns = clock::realtime_ns();
    let mut info = ProcessInfo {
        format: 1,
        host: "host".to_owned(),
        boot_id: journal::host::boot_id(),
        pid,
        session_start_realtime_ns: started_ns,
        nccl_version: "2.28.9".to_owned(),
        table: 5,
        ..ProcessInfo::default()
    };
    describe(&mut info);
    let json = serde_json::to_vec(&info).expect("plain data");
    fs::write(part.join("process.json"), json).expect("written");
    let tag = ProcessTag::new(u16::try_from(0x100 + rank).expect("few ranks"));
    let registry = Registry::new(RegistryOptions {
        process_id: pid,
        directory: journal,
        tag,
        tick_source,
        session_start_realtime_ns: started_ns,
        limit_bytes: 1 << 30,
    });
    let mut keeper = registry.register("nccl-otf2-keeper").expect("a slot");
    let mut main = registry.register("main").expect("a slot");
    keeper.clock_pair(&ClockPair::read());
    let context = ContextId::new(tag, 1);
    let comm = CommInit {
        table: 5,
        comm_id: 0xabcd,
        name: Name::NONE,
        nodes: 1,
        ranks: 2,
        rank: i32::try_from(rank).expect("few ranks"),
        nccl_version: 22809,
    };
    main.comm_init(context.get(), clock::ticks(), 0, &comm);
    for sequence in 0..all_reduces {
        let body = Body::Coll(event::Coll {
            sequence,
            func: Name::from_cstr(c"AllReduce"),
            send_buffer: 1,
            recv_buffer: 2,
            count: 1000,
            root: 0,
            datatype: Name::from_cstr(c"ncclFloat32"),
            channels: 2,
            warps: 8,
            algorithm: Name::from_cstr(c"RING"),
            protocol: Name::from_cstr(c"SIMPLE"),
            parent_group: 0,
            comm_hash: 0,
            kernel_variant: Name::NONE,
            is_symmetric: false,
            user_tag: 0,
        });
        let operation = main.start(&Start {
            context: context.get(),
            parent: 0,
            rank: 0,
            body,
        });
        main.stop(operation.get());
    }
    keeper.clock_pair(&ClockPair::read());
    drop((main, keeper));
    drop::<Arc<Registry>>(registry);
    part
}
