//! What the writing half costs: joining a journal's records, writing a part, and putting parts together.
//!
//! Events are NCCL's (starts), ten for each all-reduce. For a million of them with the peak of memory:
//! `cargo test --release --test write_jobs -- --ignored --nocapture`.

#[path = "../tests/write_jobs/job.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod job;

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use job::{Process, Who};
use nccl_profiler_otf2::write::part::{self, WriteOptions};
use nccl_profiler_otf2::write::progress::Silent;
use nccl_profiler_otf2::write::unify::unify;

const EVENTS_PER_OPERATION: u64 = 10;

fn record(out: &Path, rank: u32, ranks: u32, operations: u64) -> PathBuf {
    let who = Who {
        rank,
        ranks,
        in_environment: true,
    };
    let mut process = Process::begin(out, who);
    for sequence in 0..operations {
        process.all_reduce(0, sequence);
    }
    process.end()
}

const KEEPING: WriteOptions = WriteOptions {
    deadline: None,
    keep_journal: true,
    provisional: false,
    archive: None,
};

fn one_process(criterion: &mut Criterion) {
    const OPERATIONS: u64 = 20_000;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let part = record(directory.path(), 0, 2, OPERATIONS);
    let mut group = criterion.benchmark_group("part");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(OPERATIONS * EVENTS_PER_OPERATION));
    group.bench_function("assemble", |bencher| {
        bencher.iter(|| black_box(part::assemble(&part).expect("readable")));
    });
    group.bench_function("write", |bencher| {
        bencher.iter(|| black_box(part::write(&part, &KEEPING, &Silent).expect("written")));
    });
    group.finish();
}

/// Grows with definitions, not with events.
fn many_processes(criterion: &mut Criterion) {
    const PROCESSES: u32 = 64;
    let directory = tempfile::tempdir().expect("a temporary directory");
    for rank in 0..PROCESSES {
        let part = record(directory.path(), rank, PROCESSES, 10);
        part::write(&part, &KEEPING, &Silent).expect("written");
    }
    let mut group = criterion.benchmark_group("archive");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(PROCESSES.into()));
    group.bench_function("unify 64 processes", |bencher| {
        bencher.iter(|| black_box(unify(directory.path(), &Silent).expect("unified")));
    });
    group.finish();
}

criterion_group!(benches, one_process, many_processes);
criterion_main!(benches);
