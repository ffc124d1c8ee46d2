//! What `nccl-otf2 print` says of a journal with records about GPUs.

use std::path::Path;

use crate::gpu_work::record;
use crate::job::new_job;

/// Each of two ends is rounded to a tick and to a nanosecond.
const ROUNDED_NS: f64 = 2.0;
/// How far the ticks of a recording of some milliseconds may be off.
const CALIBRATED: f64 = 1e-2;

/// What `nccl-otf2 print` says of a part's journal.
fn printed(part: &Path, options: &[&str]) -> Vec<String> {
    let mut command = std::process::Command::new(whole_plugin::built::nccl_otf2());
    command.arg("print").arg(part).args(options);
    whole_plugin::process::run(&mut command).with_code(0).stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_journal_is_printed_with_what_it_says_of_gpus() {
    let out: &Path = &new_job();
    let part = record(out, 0, 1, true);
    let lines = printed(&part, &["--kind", "Gpu"]);
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

    let json: Vec<serde_json::Value> =
        printed(&part, &["--json"]).iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |kind: &str| -> Vec<&serde_json::Value> { json.iter().filter(|line| line["type"] == kind).collect() };
    let launches: Vec<_> = of("ncclProfileKernelLaunch").iter().map(|launch| launch["eventAddr"].clone()).collect();
    let kernels = of("kernel");
    let ids: Vec<_> = kernels.iter().map(|kernel| kernel["eventAddr"].clone()).collect();
    assert_eq!(ids, launches);
    for kernel in kernels {
        let details = &kernel["details"];
        let took = details["endNs"].as_u64().expect("ns") - details["startNs"].as_u64().expect("ns");
        let shown = kernel["duration"].as_f64().expect("µs") * 1000.0;
        #[expect(clippy::cast_precision_loss, reason = "some µs")]
        let took = took as f64;
        assert!((shown - took).abs() <= ROUNDED_NS + took * CALIBRATED, "{kernel}");
        assert_eq!(details["grid"], "24,1,1");
    }
    assert_eq!((of("clock").len(), of("counts").len()), (2, 1));
    assert_eq!(of("counts")[0]["details"]["LAUNCHES"], 4);
}
