//! The file for node exporter.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::Ordering;

use super::{everything, request};
use crate::metrics::Outputs;

#[test]
fn a_full_disk_is_counted_and_the_file_comes_when_there_is_room() {
    let folder = tempfile::tempdir().expect("a directory");
    let directory = folder.path().to_str().expect("a path");
    let mut outputs = Outputs::open(&request(&["--textfile", directory])).expect("outputs");
    let file = folder.path().join("nccl_otf2_trace.prom");
    let errors = |outputs: &Outputs| outputs.troubles.textfile.load(Ordering::Relaxed);
    // Every write to /dev/full fails as on a full disk.
    symlink("/dev/full", file.with_extension("prom.tmp")).expect("a link");
    outputs.publish(&everything()).expect("goes on");
    assert_eq!((errors(&outputs), file.exists()), (1, false));

    // What was in the way of others is gone.
    outputs.publish(&everything()).expect("goes on");
    let text = fs::read_to_string(&file).expect("a file");
    assert!(text.contains("nccl_otf2_output_errors_total{output=\"textfile\"} 1\n"), "{text}");
    assert!(text.contains("\nnccl_rank_last_event_age_seconds{"), "{text}");
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o044, 0o044 & !mask(), "node exporter is another user");
    let names = fs::read_dir(folder.path()).expect("a directory").count();
    assert_eq!(names, 1, "only the file");
    outputs.end(false);
    assert!(!file.exists(), "nobody renews it");
}

/// This process's umask.
fn mask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:")).expect("a mask");
    u32::from_str_radix(mask.trim(), 8).expect("octal")
}
