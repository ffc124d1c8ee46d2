//! The tool's output: private to its user, and without secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{archive, bounded};
use crate::tool::support::Scratch;

/// Every file and directory with its mode.
fn modes(path: &Path, found: &mut Vec<(String, u32)>) {
    let data = fs::symlink_metadata(path).expect("it is there");
    let kind = if data.is_dir() { 'd' } else { 'f' };
    found.push((format!("{kind} {}", path.display()), data.permissions().mode() & 0o777));
    if data.is_dir() {
        for entry in fs::read_dir(path).expect("a directory").flatten() {
            modes(&entry.path(), found);
        }
    }
}

#[test]
fn what_is_made_is_for_its_user_only() {
    let scratch = Scratch::new();
    let _out = archive(&scratch);
    for verb in [
        &["report", "trace", "-o", "made/page.html", "--full", "--size", "1"][..],
        &["export", "--format", "kineto", "trace", "-o", "made/kineto"],
        &["export", "--format", "perfetto", "trace", "-o", "made/perfetto"],
        &["export", "--format", "xplane", "trace", "-o", "made/nccl.xplane.pb"],
        &["export", "--format", "jsonl", "trace", "-o", "made/jsonl"],
        &["export", "--format", "scalasca", "trace", "-o", "made/scalasca"],
    ] {
        fs::create_dir_all(scratch.join("made")).expect("made");
        let ended = bounded(&scratch, verb);
        assert_eq!(ended.code, Some(0), "{verb:?}: {ended:?}");
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(scratch.join("made")).expect("made").flatten() {
        modes(&entry.path(), &mut found);
    }
    assert!(found.len() > 8, "{found:?}");
    found.retain(|(what, mode)| *mode != if what.starts_with('d') { 0o700 } else { 0o600 });
    assert!(found.is_empty(), "{found:?}");
}

/// Nobody means a value that is called like an option.
#[test]
fn an_unknown_option_is_not_taken_for_a_value() {
    let scratch = Scratch::new();
    for arguments in [&["export", "--metrics"][..], &["export", "trace", "--metrics"]] {
        let ended = bounded(&scratch, arguments).with_code(2);
        assert!(ended.stderr.contains("unexpected argument '--metrics'"), "{ended:?}");
        assert!(!ended.stderr.contains("as a value"), "{ended:?}");
    }
    let ended = bounded(&scratch, &["export", "--fromat", "trace"]).with_code(2);
    assert!(ended.stderr.contains("a similar argument exists: '--format'"), "{ended:?}");
}

#[test]
fn metrics_that_nobody_got_are_an_error_without_secrets() {
    let scratch = Scratch::new();
    let _out = archive(&scratch);
    let url = "http://me:secret@127.0.0.1:1/v1/metrics?token=secret";
    let ended = bounded(&scratch, &["metrics", "trace", "--once", "--otlp", url]).with_code(2);
    assert_eq!(ended.stderr.lines().filter(|line| line.contains("error: ")).count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("http://***@127.0.0.1:1/v1/metrics"), "{ended:?}");
    assert!(!ended.printed().contains("secret"), "{ended:?}");
    for (url, shown) in [
        ("http://127.0.0.1:1?token=secret", " http://127.0.0.1:1?***"),
        ("https://me:secret@host", " https://***@host: "),
        ("ftp://me:p@secret@host", " ftp://***@host: "),
        ("me:secret@host", " ***@host: "),
        ("me:secret@host://1", " ***@host://1: "),
        ("http:/me:secret@127.0.0.1:1", " ***@127.0.0.1:1: "),
        ("http:me:secret@127.0.0.1:1", " ***@127.0.0.1:1: "),
        ("http://me:sec/secret@127.0.0.1:1/", " http://***@127.0.0.1:1/: "),
        ("http://me:sec?secret@127.0.0.1:1/", " http://***: "),
        ("http://me:sec#secret@127.0.0.1:1/", " http://***: "),
        ("http://127.0.0.1:1/v1?token=sec@secret", " http://***"),
        ("http://me:secret@?token=secret", " http://***@?***: "),
        ("http://me:secret@:1/", " http://***@:1/: "),
        ("http://me:secret@host:99999", " http://***@host:99999: "),
        ("http://me: secret@127.0.0.1:1/", " http://***@127.0.0.1:1/: "),
    ] {
        let ended = bounded(&scratch, &["metrics", "trace", "--once", "--otlp", url]).with_code(2);
        assert!(ended.stderr.contains(shown) && !ended.printed().contains("secret"), "{url}: {ended:?}");
    }
    bounded(&scratch, &["metrics", "trace", "--once", "--textfile", "/proc/self"]).with_code(2);
}
