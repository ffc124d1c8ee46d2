//! What libotf2 takes for an archive's events. `cargo xtask scale` measures the whole writing half.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use otf2::{
    AttributeRef, AttributeValue, Attributes, Collective, CollectiveOp, CommRef, LocationRef, PartWriter, RegionRef,
    RmaAccess, RmaWinRef,
};

/// Events of an all-reduce in the archive: ten of NCCL's with their parts.
const EVENTS_IN_ARCHIVE: u64 = 24;
/// How many attributes its ENTER events have, and its LEAVE events.
const ON_ENTER: [usize; 10] = [2, 6, 3, 11, 2, 6, 3, 4, 6, 3];
const ON_LEAVE: [usize; 10] = [0, 0, 0, 3, 0, 1, 0, 0, 1, 0];

/// What libotf2 takes for as many events with as many attributes, which are there already: there is no writing faster
/// than that.
fn libotf2_alone(criterion: &mut Criterion) {
    const OPERATIONS: u64 = 20_000;
    let list = |length: usize| {
        let mut attributes = Attributes::new();
        for number in (0..).take(length) {
            let value = AttributeValue::U64(0x0001_0000_0000_0000 | u64::from(number));
            attributes.add(AttributeRef::new(number), value).expect("a list");
        }
        attributes
    };
    let (entered, left) = (ON_ENTER.map(list), ON_LEAVE.map(list));
    let collective = Collective {
        op: CollectiveOp::Allreduce,
        comm: CommRef::new(0),
        root: None,
        bytes_sent: 4000,
        bytes_received: 4000,
    };
    let access = RmaAccess { win: RmaWinRef::new(0), remote: 1, bytes: 4000, matching: 7 };
    let none = Attributes::NONE;
    let mut group = criterion.benchmark_group("libotf2");
    group.sample_size(10).throughput(Throughput::Elements(OPERATIONS * EVENTS_IN_ARCHIVE));
    group.bench_function("alone", |bencher| {
        bencher.iter(|| {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let mut part = PartWriter::create(directory.path(), "traces").expect("a part");
            let mut writer = part.event_writer(LocationRef::new(0)).expect("a writer");
            let mut time = 0;
            for _ in 0..OPERATIONS {
                for (number, (entered, left)) in (0..).zip(entered.iter().zip(&left)) {
                    let region = RegionRef::new(number);
                    time += 20;
                    writer.enter(time, region, entered).expect("written");
                    writer.leave(time + 10, region, left).expect("written");
                }
                time += 20;
                writer.mpi_collective_begin(time, none).expect("written");
                writer.mpi_collective_end(time, &collective, none).expect("written");
                writer.rma_put(time, &access, none).expect("written");
                writer.rma_op_complete_non_blocking(time, access.win, access.matching, none).expect("written");
            }
            black_box(writer.close().expect("closed"))
        });
    });
    group.finish();
}

criterion_group!(benches, libotf2_alone);
criterion_main!(benches);
