//! What a callback costs inside the plugin: the clock, and appending records of the common kinds.
//!
//! Compare lines of one run with each other; `plugin-host bench` measures the whole callback through the
//! exported table and beside an empty plugin.

use nccl_events::event;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use journal::clock;
use journal::writer::{JournalWriter, SlotWriter, WriterOptions};
use nccl_events::id::ProcessTag;
use nccl_events::{Body, Name, Start, State, StateArgs};

fn clocks(criterion: &mut Criterion) {
    clock::select();
    let mut group = criterion.benchmark_group("clock");
    group.bench_function("ticks", |bencher| bencher.iter(clock::ticks));
    group.bench_function("clock_gettime", |bencher| bencher.iter(clock::monotonic_ns));
    group.finish();
}

fn coll() -> Body<Name<'static>> {
    Body::Coll(event::Coll {
        sequence: 1,
        func: Name::from_cstr(c"AllReduce"),
        send_buffer: 2,
        recv_buffer: 3,
        count: 1 << 20,
        root: 0,
        datatype: Name::from_cstr(c"ncclFloat32"),
        channels: 2,
        warps: 8,
        algorithm: Name::from_cstr(c"RING"),
        protocol: Name::from_cstr(c"SIMPLE"),
        parent_group: 4,
        comm_hash: 0,
        kernel_variant: Name::NONE,
        is_symmetric: false,
        user_tag: 0,
    })
}

/// Times `count` appends in bursts of at most half a segment. Between bursts, outside the timing, the
/// maintenance round prepares the next segment, as it does in a job, where callbacks leave it the time.
fn in_bursts(writer: &JournalWriter, count: u64, mut append: impl FnMut()) -> Duration {
    const BURST: u64 = 2_000;
    let mut total = Duration::ZERO;
    let mut left = count;
    while left > 0 {
        writer.keep();
        let burst = left.min(BURST);
        let begin = Instant::now();
        for _ in 0..burst {
            append();
        }
        total += begin.elapsed();
        left -= burst;
    }
    total
}

fn append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(1));
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    let mut bench = |name: &str, append: &mut dyn FnMut(&mut SlotWriter)| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let writer = JournalWriter::new(WriterOptions {
            directory: directory.path().to_owned(),
            tag: ProcessTag::new(1),
            process_id: std::process::id(),
            tick_source: clock::select(),
            session_start_realtime_ns: 0,
            limit_bytes: 16 << 30,
        });
        let mut slot_writer = writer.register("bench").expect("a slot");
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| in_bursts(&writer, count, || append(&mut slot_writer)));
        });
        assert_eq!(writer.stop_reason(), None, "the disk is full: the figures above are not of appends");
    };
    bench("stop", &mut |slot_writer| slot_writer.stop(black_box(1)));
    let state = State { event: 1, state: 9, args: StateArgs::ProxyStep { bytes: 4096 } };
    bench("state", &mut |slot_writer| slot_writer.state(black_box(&state)));
    for (name, body) in [("start ProxyStep", Body::ProxyStep(event::ProxyStep { step: 3 })), ("start Coll", coll())] {
        let start = Start { context: 1, parent: 2, rank: 0, body };
        bench(name, &mut |slot_writer| {
            let _id = slot_writer.start(black_box(&start));
        });
    }
    group.finish();
}

criterion_group!(benches, clocks, append);
criterion_main!(benches);
