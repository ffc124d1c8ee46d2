//! Shared by the tests: a sample archive, and foreign readers.

mod definitions;
mod events;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use otf2::{Archive, ArchiveWriter, Attributes, Definitions, Event, EventWriter, GlobalDefinitions, LocationRef};
use otf2::{RegionRef, Result};

pub(crate) use definitions::*;
pub(crate) use events::*;

/// The sample definitions, with these events on the GPU stream and one enter and leave on the host thread.
pub(crate) fn write_archive(directory: &Path, gpu_events: &[Event]) -> Result<PathBuf> {
    write_archive_by(directory, |gpu| gpu_events.iter().try_for_each(|event| write_event(gpu, event)))
}

/// The sample, with the events that `write` writes to the GPU stream.
pub(crate) fn write_archive_by(
    directory: &Path,
    write: impl FnOnce(&mut EventWriter<'_>) -> Result<()>,
) -> Result<PathBuf> {
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
    write(&mut gpu)?;
    let gpu_events = gpu.close()?;
    otf2::write_stub_events(&archive.event_file(QUIET))?;

    let mut definitions = archive.definitions()?;
    every_kind([host_events, gpu_events]).iter().try_for_each(|definition| definitions.verbatim(definition))?;
    for location in [HOST_THREAD, GPU_STREAM, QUIET] {
        archive.local_definitions(location)?.close()?;
    }
    let anchor = archive.anchor_file();
    archive.close()?;
    Ok(anchor)
}

/// The sample's definitions as records.
pub(crate) fn records() -> Definitions {
    let directory = tempfile::tempdir().expect("a directory");
    let anchor = write_archive(directory.path(), &[]).expect("the sample is written");
    Archive::open(&anchor).and_then(|archive| archive.definitions()).expect("the definitions are read")
}

/// Writes definitions in an order that defines everything before its use.
pub(crate) fn write_records(to: &mut GlobalDefinitions<'_>, from: &Definitions) -> Result<()> {
    /// Writes all records of a kind.
    macro_rules! write {
        ($($method:ident: $kind:ident,)*) => {
            $(from.$kind.iter().try_for_each(|(id, record)| to.$method(*id, record))?;)*
        };
    }
    if let Some(clock) = &from.clock {
        to.clock_properties(clock)?;
    }
    write! {
        string: strings,
        attribute: attributes,
        paradigm: paradigms,
        system_tree_node: system_tree_nodes,
        location_group: location_groups,
        location: locations,
        region: regions,
        group: groups,
        comm: comms,
        inter_comm: inter_comms,
        rma_win: rma_wins,
        metric_member: metric_members,
        metric_class: metric_classes,
        parameter: parameters,
    }
    Ok(())
}

/// All events of the given locations, each with its location.
pub(crate) fn read_events(archive: &Archive, locations: &[LocationRef]) -> Result<Vec<(LocationRef, Event)>> {
    let mut events = Vec::new();
    archive.for_each_event(locations, |location, event| {
        events.push((location, event.clone()));
        ControlFlow::Continue(())
    })?;
    Ok(events)
}

/// Reports that a test is skipped, which is a failure in CI.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "must not be skipped in CI: {reason}");
    // Bypass the test harness, which hides the output of passing tests.
    let line = format!("skipped: {reason}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("write to stderr");
}

/// The complete output of `otf2-print`, which must not complain; `None` if it is not installed.
pub(crate) fn otf2_print(anchor: &Path) -> Option<String> {
    let Ok(output) = Command::new("otf2-print").arg("-Werror").arg("--show-all").arg(anchor).output() else {
        skip("otf2-print is not installed (apt-get install otf2-tools)");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    Some(text)
}
