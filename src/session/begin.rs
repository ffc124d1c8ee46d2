//! Begins a session: directories, `process.json`, journal, maintenance thread, Score-P, GPUs.

use std::io::Write as _;
use std::sync::Arc;

use super::communicators::Communicators;
use super::directories::Directories;
use super::maintenance::{MAINTENANCE_NAME, Maintenance};
use super::snapshots::Maker;
use super::state::{Session, describe, say};
use super::test_clock::TestClock;
use crate::chain;
use crate::control::{Control, LargestCommunicator};
use crate::gpu::{self, Gpus};
use crate::host::{logger, mask, process, signals, version};
use crate::record;
use crate::scorep::{self, substrate};
use journal::clock;
use journal::file_size;
use journal::part::PROCESS;
use journal::part::environment::JobEnvironment;
use journal::part::process::{self as process_json, PROCESS_FORMAT, ProcessInfo};
use journal::private;
use journal::writer::{JournalWriter, SlotWriter, WriterOptions};
use nccl_events::id::ProcessTag;
use nccl_events::{CommInit, Kind, allgatherv, event};
use settings::{Config, VERSION, Verbosity};

pub(super) fn session(config: Config, comm: &CommInit<'_>) -> Result<Session, String> {
    let test_clock = TestClock::from_environment()?;
    let mut info = describe_process(&config, comm, test_clock.as_ref());
    let directories = file_size::without_signal(|| Directories::make(&config, &info)).map_err(file_size::explain)?;
    info.job.clone_from(&directories.job);
    let tag = ProcessTag::new(process::random_bits());
    let (writer, slot_writer) = file_size::without_signal(|| open_journal(&config, &info, &directories, tag))
        // A part that never finishes would keep the job's other processes from making the archive.
        .inspect_err(|_| directories.remove())?;
    if let Some(signal) = config.dump_signal {
        signals::DUMP.install(signal);
    }
    let control = Control::new(&directories.out, config.mask, config.steps.clone(), comm.table);
    if let Some(signal) = config.toggle_signal {
        signals::TOGGLE.install(signal);
    }
    let maintenance = Maintenance::start(
        Arc::clone(&writer),
        slot_writer,
        test_clock,
        Maker::new(&directories.out, &directories.part),
        control,
    );
    // Before recording begins, because threads check whether Score-P is on when they take their slots.
    let scorep = scorep::begin(config.scorep);
    record::begin(Arc::clone(&writer));
    record::ranges::repeat_started(&maintenance.notes());
    let gpus = Gpus::begin(gpu::Options {
        settings: config.gpu.clone(),
        verbosity: config.verbosity,
        table: comm.table,
        mask: config.mask,
        writer: Arc::clone(&writer),
        notes: maintenance.notes(),
    });
    report_start(&config, comm, &directories, scorep);
    Ok(Session {
        config,
        out: directories.out,
        part: directories.part,
        tag,
        writer,
        communicators: Communicators::default(),
        largest: LargestCommunicator::default(),
        maintenance,
        gpus: gpus.map(Arc::new),
    })
}

fn describe_process(config: &Config, comm: &CommInit<'_>, test_clock: Option<&TestClock>) -> ProcessInfo {
    let mut environment = JobEnvironment::of_process();
    if let (None, Some((rank, size))) = (environment.rank, substrate::rank_and_size()) {
        (environment.rank, environment.size) = (Some(rank), Some(size));
    }
    let simulated_host = test_clock.map(|clock| clock.boot_id.clone());
    let pid = std::process::id();
    // Only kinds that NCCL can report, so that no reader expects others.
    let event_mask = config.mask & event::kinds(comm.table);
    let working_directory = std::env::current_dir().unwrap_or_default();
    ProcessInfo {
        format: PROCESS_FORMAT,
        host: simulated_host.clone().unwrap_or_else(journal::host::host_name),
        boot_id: simulated_host.unwrap_or_else(journal::host::boot_id),
        pid,
        pid_namespace: journal::host::pid_namespace(),
        start_ticks: journal::host::start_ticks(pid).unwrap_or(0),
        session_start_realtime_ns: clock::realtime_ns(),
        job: String::new(),
        first_comm: comm.comm_id,
        environment,
        nccl_version: process_json::nccl_version_text(comm.nccl_version),
        library: if version::is_rccl() { "RCCL".to_owned() } else { String::new() },
        table: comm.table.number(),
        plugin_version: VERSION.to_owned(),
        tick_source: clock::select().name().to_owned(),
        event_mask,
        events: settings::event_names(event_mask).into_iter().map(str::to_owned).collect(),
        allgatherv_off: allgatherv_off(),
        command: process_json::command(),
        working_directory: working_directory.display().to_string(),
        archive: config.archive,
        snapshot_realtime_ns: 0,
    }
}

/// NCCL has put the variables of its files (`/etc/nccl.conf`) into the environment by now.
fn allgatherv_off() -> bool {
    std::env::var_os(allgatherv::VARIABLE).is_some_and(|value| allgatherv::is_off(&value.to_string_lossy()))
}

/// Opens the journal with the maintenance thread's slot, then puts `process.json` in place. `process.json` without a
/// segment means a damaged journal; a segment without `process.json` means that the process was killed here.
fn open_journal(
    config: &Config,
    info: &ProcessInfo,
    directories: &Directories,
    tag: ProcessTag,
) -> Result<(Arc<JournalWriter>, SlotWriter), String> {
    let staged = directories.part.join(format!(".{PROCESS}"));
    serde_json::to_vec_pretty(info)
        .map_err(std::io::Error::other)
        .and_then(|json| private::new_file(&staged)?.write_all(&json))
        .map_err(|error| format!("{}: {}", staged.display(), file_size::explain(error)))?;
    let written = chain::report().write(&directories.part);
    written.map_err(|error| format!("{}: {}", directories.part.display(), file_size::explain(error)))?;
    let options = WriterOptions {
        directory: directories.journal.clone(),
        tag,
        process_id: info.pid,
        tick_source: clock::select(),
        session_start_realtime_ns: info.session_start_realtime_ns,
        limit_bytes: config.limit_bytes(),
    };
    let writer = JournalWriter::with_retention(options, config.flight_retention());
    let slot_writer = writer.register(MAINTENANCE_NAME).map_err(|stop| describe(&stop))?;
    let placed = std::fs::rename(&staged, directories.part.join(PROCESS));
    placed.map_err(|error| format!("{}: {}", staged.display(), file_size::explain(error)))?;
    Ok((writer, slot_writer))
}

fn report_start(config: &Config, comm: &CommInit<'_>, directories: &Directories, scorep: scorep::Beginning) {
    let events = settings::event_set(config.mask);
    let out = directories.out.display();
    let chained = chain::report().plugins;
    let behind = if chained.is_empty() { String::new() } else { format!(", with {} behind it", chained.join(", ")) };
    say(config, &format!("version {VERSION}{behind}: recording {events} events into {out}"));
    if let (Some(other), true) = (&directories.other_job, comm.rank <= 0) {
        let advice = match directories.lacks_job_id {
            true => {
                "there is no job id here, so %j in NCCL_OTF2_DIR is `unknown`: set NCCL_OTF2_JOB to another text for \
                 each job"
            }
            false => "NCCL_OTF2_DIR=trace-%j is another directory for each job, NCCL_OTF2_JOB names a job",
        };
        logger::warn(&format!(
            "the directory asked for holds the recording of another job ({other}); that of this job ({}) goes into \
             {out} ({advice})",
            directories.job
        ));
    }
    match scorep {
        scorep::Beginning::Silent => {}
        scorep::Beginning::On(line) => say(config, &line),
        scorep::Beginning::Refused(line) => logger::warn(&line),
    }
    let has_channels = |mask: u32| event::has(comm.table, Kind::KernelCh) && mask & Kind::KernelCh.mask() != 0;
    let why = match (has_channels(config.mask), has_channels(mask::chained())) {
        (true, _) => "kernel channels are recorded (NCCL_OTF2_EVENTS)",
        (false, true) => "a plugin asks for kernel channels (NCCL_OTF2_CHAIN)",
        (false, false) => return,
    };
    // Only one rank warns for the communicator; v1 to v3 do not identify the rank.
    if comm.rank <= 0 && config.verbosity > Verbosity::Quiet {
        logger::warn(&format!("{why}: {}", settings::kernel_channels(comm.nccl_version, allgatherv_off())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To a reader, a description without a segment is a damaged journal.
    #[test]
    fn there_is_no_description_before_there_is_a_segment() {
        let scratch = tempfile::tempdir().expect("a directory");
        let part = scratch.path().to_owned();
        let begin = |journal: &str| {
            let _before = std::fs::remove_file(part.join(format!(".{PROCESS}")));
            let (out, journal) = (part.clone(), part.join(journal));
            let directories = Directories {
                out,
                part: part.clone(),
                journal,
                job: String::new(),
                other_job: None,
                lacks_job_id: false,
            };
            open_journal(&Config::default(), &ProcessInfo::default(), &directories, ProcessTag::new(1)).map(drop)
        };
        let description = part.join(PROCESS);
        assert!(begin("no-such-directory").is_err() && !description.exists());
        std::fs::create_dir(part.join("journal")).expect("made");
        begin("journal").expect("begun");
        assert!(description.exists() && part.join("journal/0.0").exists());
    }
}
