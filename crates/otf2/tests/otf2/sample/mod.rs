//! What the tests share: a sample archive, and foreign readers.

mod events;
mod every_kind;
mod records;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use otf2::{Archive, ArchiveWriter, Attributes, Event, LocationRef, RegionRef, Result};

pub(crate) use events::*;
pub(crate) use every_kind::*;
pub(crate) use records::*;

/// The sample definitions with these events of the GPU stream and one enter and leave of the host thread.
pub(crate) fn write_archive(directory: &Path, gpu_events: &[Event]) -> Result<PathBuf> {
    let mut archive = ArchiveWriter::create(directory, "traces")?;
    archive.set_creator("otf2 tests 1.0")?;
    archive.set_machine_name("cluster")?;
    archive.set_description("a sample\nof two lines")?;
    archive.set_property("Sample::Dropped", "17")?;

    let mut host = archive.event_writer(HOST_THREAD)?;
    host.enter(1000, RegionRef::new(1), Attributes::NONE)?;
    host.leave(90_000, RegionRef::new(1), Attributes::NONE)?;
    let host_events = host.close()?;

    let mut gpu = archive.event_writer(GPU_STREAM)?;
    for event in gpu_events {
        write_event(&mut gpu, event)?;
    }
    let gpu_events = gpu.close()?;
    otf2::write_stub_events(&archive.event_file(QUIET))?;

    let sample = sample_definitions([host_events, gpu_events]);
    write_definitions(&mut archive.definitions()?, &sample)?;
    for location in [HOST_THREAD, GPU_STREAM, QUIET] {
        archive.local_definitions(location)?.close()?;
    }
    let anchor = archive.anchor_file();
    archive.close()?;
    Ok(anchor)
}

/// All events of some locations, each with its location.
pub(crate) fn read_events(archive: &Archive, locations: &[LocationRef]) -> Result<Vec<(LocationRef, Event)>> {
    let mut events = Vec::new();
    archive.for_each_event(locations, |location, event| {
        events.push((location, event));
        ControlFlow::Continue(())
    })?;
    Ok(events)
}

/// Says that a test is skipped, which is a failure in CI.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "must not be skipped in CI: {reason}");
    // Past the test harness, which keeps to itself what a test prints that passes.
    let line = format!("skipped: {reason}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("write to stderr");
}

/// `otf2-print` with all it knows, warnings being errors; `None` when it is not installed.
pub(crate) fn otf2_print(anchor: &Path) -> Option<Output> {
    Command::new("otf2-print").arg("-Werror").arg("--show-all").arg(anchor).output().ok()
}

/// Runs a Python program with the `otf2` package; `None` when there is none.
pub(crate) fn python(program: &str, arguments: &[&Path]) -> Option<Output> {
    let interpreter = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let has_otf2 = Command::new(&interpreter).args(["-c", "import otf2"]).output();
    if !has_otf2.is_ok_and(|output| output.status.success()) {
        return None;
    }
    Command::new(&interpreter).arg("-c").arg(program).args(arguments).output().ok()
}
