//! The output of `nccl-otf2 print` for a journal with records about GPUs.

use std::path::Path;

use crate::gpu_work::record;
use crate::job::new_job;

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
}
