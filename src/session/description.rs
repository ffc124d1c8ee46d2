//! `process.json`: what a part says of its process.

use std::io::Write as _;
use std::path::Path;

use super::test_clock::TestClock;
use crate::host::{dumps, version};
use crate::scorep::substrate;
use journal::clock;
use journal::part::Dump;
use journal::part::PROCESS;
use journal::part::environment::JobEnvironment;
use journal::part::{PROCESS_FORMAT, ProcessInfo};
use journal::{host, part};
use nccl_events::versions;
use nccl_events::{CommInit, event};
use settings::{Config, VERSION};

pub(super) fn describe_process(config: &Config, test_clock: Option<&TestClock>) -> ProcessInfo {
    let mut environment = JobEnvironment::of_process();
    if let (None, Some((rank, size))) = (environment.rank, substrate::rank_and_size()) {
        (environment.rank, environment.size) = (Some(rank), Some(size));
    }
    let simulated_host = test_clock.map(|clock| clock.boot_id.clone());
    let pid = std::process::id();
    let working_directory = std::env::current_dir().unwrap_or_default();
    ProcessInfo {
        format: PROCESS_FORMAT,
        host: simulated_host.clone().unwrap_or_else(host::host_name),
        boot_id: simulated_host.unwrap_or_else(host::boot_id),
        pid,
        pid_namespace: host::pid_namespace(),
        start_ticks: host::start_ticks(pid).unwrap_or(0),
        session_start_realtime_ns: clock::realtime_ns(),
        environment,
        plugin_version: VERSION.to_owned(),
        tick_source: clock::select().name().to_owned(),
        command: part::command(),
        working_directory: working_directory.display().to_string(),
        archive: config.archive,
        system_dump: dumps::of_user(Dump::System),
        graphs_dump: dumps::of_user(Dump::Graphs),
        ..ProcessInfo::default()
    }
}

/// Adds what is known of NCCL.
pub(super) fn with_communicator(info: ProcessInfo, config: &Config, comm: &CommInit<'_>) -> ProcessInfo {
    // Only kinds that NCCL can report, so that no reader expects others.
    let event_mask = config.mask & event::kinds(comm.table);
    ProcessInfo {
        first_comm: comm.comm_id,
        nccl_version: part::nccl_version_text(comm.nccl_version),
        library: if version::is_rccl() { "RCCL".to_owned() } else { String::new() },
        table: comm.table.number(),
        event_mask,
        events: settings::event_names(event_mask).into_iter().map(str::to_owned).collect(),
        allgatherv_off: allgatherv_off(),
        ..info
    }
}

/// At `init` NCCL has put the variables of its files (`/etc/nccl.conf`) into the environment.
pub(super) fn allgatherv_off() -> bool {
    std::env::var_os(versions::VARIABLE).is_some_and(|value| versions::is_off(&value.to_string_lossy()))
}

/// Writes `process.json`, and puts it in place when `meanwhile` is done.
pub(super) fn place_description<T>(
    part: &Path,
    info: &ProcessInfo,
    meanwhile: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let staged = part.join(format!(".{PROCESS}"));
    let refused = |error| format!("{}: {}", staged.display(), host::explain(error));
    let json = serde_json::to_vec_pretty(info).map_err(std::io::Error::other);
    json.and_then(|json| host::new_file(&staged)?.write_all(&json)).map_err(refused)?;
    let done = meanwhile()?;
    std::fs::rename(&staged, part.join(PROCESS)).map_err(refused)?;
    Ok(done)
}
