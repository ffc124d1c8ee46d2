//! Tests of the file for node exporter.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::Ordering;

use crate::metrics::Outputs;
use crate::metrics::tests::{everything, request};

#[test]
fn what_cannot_be_written_is_counted_and_comes_when_it_can() {
    let folder = tempfile::tempdir().expect("a directory");
    let directory = folder.path().to_str().expect("a path");
    let mut outputs = Outputs::open(&request(&["--textfile", directory])).expect("outputs");
    let file = folder.path().join("nccl_otf2_trace.prom");
    let errors = |outputs: &Outputs| outputs.errors.textfile.load(Ordering::Relaxed);
    // A directory blocks the file name.
    fs::create_dir(&file).expect("a directory");
    outputs.publish(&everything()).expect("goes on");
    assert_eq!(errors(&outputs), 1);

    fs::remove_dir(&file).expect("it is empty");
    outputs.publish(&everything()).expect("goes on");
    let text = fs::read_to_string(&file).expect("a file");
    assert!(text.contains("nccl_otf2_output_errors_total{output=\"textfile\"} 1\n"), "{text}");
    assert!(text.contains("\nnccl_rank_last_event_age_seconds{"), "{text}");
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "node exporter is another user");
    let names = fs::read_dir(folder.path()).expect("a directory").count();
    assert_eq!(names, 1, "only the file");
    outputs.end().expect("ended");
    assert!(!file.exists(), "nobody renews it");
}

/// Other users may be able to write to node exporter's directory.
#[test]
fn a_planted_link_is_not_written_through() {
    let folder = tempfile::tempdir().expect("a directory");
    let victim = folder.path().join("victim");
    fs::write(&victim, "theirs").expect("a file");
    let directory = folder.path().join("textfiles");
    fs::create_dir(&directory).expect("a directory");
    let file = directory.join("nccl_otf2_trace.prom");
    for planted in [file.clone(), file.with_extension("prom.tmp")] {
        symlink(&victim, planted).expect("a link");
    }
    let mut outputs = Outputs::open(&request(&["--textfile", directory.to_str().expect("a path")])).expect("outputs");
    outputs.publish(&everything()).expect("published");
    assert_eq!(fs::read_to_string(&victim).expect("a file"), "theirs");
    assert!(fs::symlink_metadata(&file).expect("a file").is_file());
}
