//! Traces of other profilers, into which the events of an archive are put.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use analysis::{Filter, Trace};
use exports::{Outcome, Source};
use otf2::Archive;
use serde_json::value::RawValue;
use whole_plugin::synthetic::{self, Job, play};

/// When the archive's job began, in ns since 1970.
pub(crate) const BEGAN_NS: u64 = 1_700_000_000_000_000_000;

/// The archive of a job of two ranks, and where it lies.
static ARCHIVE: LazyLock<(tempfile::TempDir, Trace)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a directory");
    let job =
        Job { ranks: 2, channels: 1, instances: 4, has_kernels: true, began_ns: Some(BEGAN_NS), ..Job::healthy(1) };
    let anchor = synthetic::write(folder.path(), &job, &play(&job));
    let trace = Trace::read(anchor.clone(), Archive::open(&anchor).expect("an archive")).expect("definitions");
    (folder, trace)
});

type Into = fn(&Source<'_>, &[PathBuf], &Path) -> exports::Result<Outcome>;

/// Puts the archive into a trace of that name; gives the copy.
fn copy(input: &[u8], name: &str, into: Into) -> Option<Vec<u8>> {
    let scratch = tempfile::tempdir().expect("a directory");
    let (path, out) = (scratch.path().join(name), scratch.path().join("out"));
    fs::write(&path, input).expect("written");
    let source = Source { trace: &ARCHIVE.1, filter: &Filter::default(), progress: &() };
    let _outcome = into(&source, &[path], &out).ok()?;
    let copy = if out.is_dir() { out.join(name) } else { out };
    Some(fs::read(copy).expect("a copy"))
}

/// A trace of torch.profiler: the copy is JSON, and no event is lost.
pub(crate) fn kineto(input: &[u8]) {
    let Some(copy) = copy(input, "rank-0.json", exports::kineto::into) else { return };
    // Numbers may be larger than any that a program can hold.
    let events = |bytes: &[u8]| -> Option<usize> {
        let trace: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(bytes).ok()?;
        let events: Vec<Box<RawValue>> = serde_json::from_str(trace.get("traceEvents")?.get()).ok()?;
        Some(events.len())
    };
    let before = events(input);
    let after = events(&copy).expect("the copy is JSON");
    assert!(before.is_none_or(|before| before <= after), "{before:?} events, then {after}");
}

pub(crate) fn xplane(input: &[u8]) {
    let Some(copy) = copy(input, "host0.xplane.pb", exports::xplane::into) else { return };
    assert!(copy.starts_with(input), "the profile itself is as it was");
    let space: Result<exports::protobuf::XSpace, _> = exports::protobuf::Message::decode(copy.as_slice());
    assert!(space.is_ok(), "the copy is an XSpace");
}
