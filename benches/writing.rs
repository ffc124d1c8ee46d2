//! What the writing half costs: joining a journal's records, writing a part, and putting parts together.
//!
//! Events are NCCL's (starts), ten for each all-reduce. For a million of them with the peak of memory:
//! `cargo test --release --test write_jobs -- --ignored --nocapture`.

#[path = "../crates/trace/tests/jobs/job.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod job;

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use journal::part::JOURNAL;
use journal::reader::Journal;
use journal::testing::{Process, Who};
use otf2::{
    AttributeRef, AttributeValue, Attributes, Collective, CollectiveOp, CommRef, LocationRef, PartWriter, RegionRef,
    RmaAccess, RmaWinRef,
};
use tables::Tables;
use tables::builder::TableBuilder;
use trace::{WriteOptions, unify, write_part};

const EVENTS_PER_OPERATION: u64 = 10;

fn record(out: &Path, rank: u32, ranks: u32, operations: u64) -> PathBuf {
    let who = Who { rank, ranks, in_environment: true };
    let mut process = Process::begin(out, who);
    for sequence in 0..operations {
        process.all_reduce(sequence);
    }
    process.end()
}

const KEEPING: WriteOptions =
    WriteOptions { deadline: None, keep_journal: true, provisional: false, since_ticks: 0, archive: None };

fn tables(part: &Path) -> Tables {
    let journal = Journal::open(&part.join(JOURNAL)).expect("readable");
    let tag = journal.process_tag;
    let mut builder = TableBuilder::default();
    let outcome = journal.read(&mut builder);
    builder.finish(&outcome.losses, &outcome.removed, tag)
}

fn one_process(criterion: &mut Criterion) {
    const OPERATIONS: u64 = 20_000;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let part = record(directory.path(), 0, 2, OPERATIONS);
    let mut group = criterion.benchmark_group("part");
    group.sample_size(10).throughput(Throughput::Elements(OPERATIONS * EVENTS_PER_OPERATION));
    group.bench_function("tables", |bencher| {
        bencher.iter(|| black_box(tables(&part)));
    });
    group.bench_function("write", |bencher| {
        bencher.iter(|| black_box(write_part(&part, &KEEPING, &()).expect("written")));
    });
    group.finish();
}

/// Events of one all-reduce of [`record`] in the archive.
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

/// Grows with definitions, not with events.
fn many_processes(criterion: &mut Criterion) {
    const PROCESSES: u32 = 64;
    let directory = tempfile::tempdir().expect("a temporary directory");
    for rank in 0..PROCESSES {
        let part = record(directory.path(), rank, PROCESSES, 10);
        write_part(&part, &KEEPING, &()).expect("written");
    }
    let mut group = criterion.benchmark_group("archive");
    group.sample_size(10).throughput(Throughput::Elements(PROCESSES.into()));
    group.bench_function("unify 64 processes", |bencher| {
        bencher.iter(|| black_box(unify(directory.path(), &()).expect("unified")));
    });
    group.finish();
}

criterion_group!(benches, libotf2_alone, one_process, many_processes);
criterion_main!(benches);
