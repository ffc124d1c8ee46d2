//! What `nccl-otf2 print` says of a journal with records about GPUs.

use std::path::Path;

use crate::gpu_work::record;
use crate::job::new_job;

/// Each of two ends is rounded to a tick and to a nanosecond.
const ROUNDED_NS: f64 = 2.0;
/// How far the ticks of a recording of some milliseconds may be off.
const CALIBRATED: f64 = 1e-2;

#[test]
fn a_journal_is_printed_with_what_it_says_of_gpus() {
    let out: &Path = &new_job();
    let part = record(out, 0, 1);
    let mut print = std::process::Command::new(whole_plugin::built::nccl_otf2());
    let printed = whole_plugin::process::run(print.arg("print").arg(&part).args(["--kind", "Gpu"])).with_code(0).stdout;
    let lines: Vec<&str> = printed.lines().collect();
    let has = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    for (words, times) in [
        ("GPU notice backend=cupti text=libcupti 13.5 by its newer interface", 1),
        ("GPU device ordinal=0 name=NVIDIA H100 uuid=01010101", 1),
        ("GPU communicatorDevice ordinal=0", 1),
        ("GPU kernel name=_Z39ncclDevKernel_AllReduce", 3),
        ("GPU copy kind=10 bytes=4096", 1),
        ("KernelLaunch", 0),
        ("GPU clock", 0),
    ] {
        assert_eq!(has(words), times, "{words}: {lines:#?}");
    }
    let copy = lines.iter().find(|line| line.contains("GPU copy")).expect("a copy");
    let mut columns = copy.split_whitespace().skip(1);
    let length: f64 = columns.next().expect("a length").parse().expect("a number");
    let ns = if columns.next() == Some("µs") { 1000.0 * length } else { length };
    assert!((ns - 1000.0).abs() <= ROUNDED_NS + 1000.0 * CALIBRATED, "{copy}");
}
