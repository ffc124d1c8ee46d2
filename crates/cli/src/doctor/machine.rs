//! What `doctor` examines on this machine: the directories of the recording, the clock, limits, containers and Score-P,
//! the NCCL libraries, and the GPU's driver with CUPTI.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::doctor::{Environment, Findings, FoundLibrary, NcclRow, slot};
use crate::plugin_slot::Nccl;
use analysis::units;
use archive::{ANCHOR, unreported_by_release};
use cupti_sys::mapped::Mapped;
use cupti_sys::{Search, other_user};
use journal::clock::{TickSource, select};
use journal::format::SEGMENT_BYTES;
use journal::part::PARTS;
use nccl_events::gpu::Backend;
use nccl_events::{Kind, Table, event, versions};
use regular_files::refuse_foreign;
use rustix::fs::{statfs, statvfs};
use rustix::process::{Resource, getrlimit};
use settings::config::{BackendChoice, without_all_kernels};
use settings::{PathValues, ScorepMode, kernel_channels};

/// If `/dev/shm` is smaller than this, it has Docker's default size or is nearly full.
pub(super) const SMALL_SHM: u64 = 256 << 20;
/// The number of bytes that a process writes at a time.
const SEGMENT: usize = 1 << 20;
const SLOW: Duration = Duration::from_millis(500);

/// File systems by `statfs` magic number, and whether a server or other hosts provide them.
#[rustfmt::skip]
const KINDS: [(u32, &str, bool); 14] = [
    (0x6969, "NFS", true), (0x0bd0_0bd0, "Lustre", true), (0x4750_4653, "GPFS", true), (0x1983_0326, "BeeGFS", true),
    (0x00c3_6400, "Ceph", true), (0x6573_5546, "FUSE", true), (0x0102_1997, "9p", true), (0xff53_4d42, "CIFS", true),
    (0x0102_1994, "tmpfs", false), (0x794c_7630, "overlay", false), (0xef53, "ext4", false), (0x5846_5342, "XFS", false),
    (0x9123_683e, "Btrfs", false), (0x2fc1_2fc1, "ZFS", false),
];

pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let system = statvfs(path).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of 32 bits")]
fn kind(path: &Path) -> (&'static str, bool) {
    let number = statfs(path).map_or(0, |system| system.f_type as u32);
    let known = KINDS.iter().find(|(known, ..)| *known == number);
    known.map_or(("another file system", false), |(_, name, is_remote)| (name, *is_remote))
}

/// Examines the directories of the recording: whether it can be written there, on what kind of file system, and how
/// much. Returns the output directory that would be used.
pub(super) fn directories(here: &Environment, findings: &mut Findings) -> PathBuf {
    let values = PathValues {
        host: here.host.clone(),
        process_id: std::process::id(),
        job: here.job.job.clone(),
        rank: here.job.rank,
    };
    let absolute = |template: &str| {
        let path = PathBuf::from(settings::expand(template, &values));
        std::path::absolute(&path).unwrap_or(path)
    };
    let mut current = || {
        env::current_dir().unwrap_or_else(|error| {
            let text = format!("the current directory cannot be used: {error}");
            findings.problem("directory", text, "change to another one, or set NCCL_OTF2_DIR");
            PathBuf::new()
        })
    };
    let out = here.config.directory.as_deref().map_or_else(&mut current, absolute);
    if out.join(ANCHOR).exists() {
        let (what, workaround) = if out.join(PARTS).exists() {
            (
                "a job with the same id adds to it, other jobs record into its jobs/",
                "name another directory, or nccl-otf2 run --force",
            )
        } else {
            ("its parts are gone, so a job that records there cannot make an archive", "name another directory")
        };
        findings.note("directory", format!("{} holds an archive: {what}", out.display()), workaround);
    }
    let journal = here.config.journal_directory.as_deref().map(absolute);
    directory(here, &out, "NCCL_OTF2_DIR", journal.is_none(), findings);
    if let Some(journal) = journal {
        directory(here, &journal, "NCCL_OTF2_JOURNAL_DIR", true, findings);
    }
    shared_memory(findings);
    out
}

fn directory(here: &Environment, path: &Path, variable: &str, has_journals: bool, findings: &mut Findings) {
    if let Err(reason) = refuse_foreign(path, variable) {
        findings.problem("directory", reason, "");
        return;
    }
    // A missing directory is created when recording begins.
    let there = path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let shown = path.display();
    let elsewhere = format!("set {variable} to another directory");
    let time = match try_writing(there) {
        Ok(time) => time,
        Err(error) => {
            let text = format!("{shown}: cannot write to {}: {error}", there.display());
            findings.problem("directory", text, &elsewhere);
            return;
        }
    };
    let (kind, is_remote) = kind(there);
    let free = free_bytes(there);
    let text = format!(
        "{shown} ({kind}, {} free, 1 MiB written in {})",
        free.map_or_else(|| "unknown space".to_owned(), units::bytes),
        units::time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    );
    let most = here.config.limit_bytes().saturating_mul(here.processes());
    if free.is_some_and(|free| free < 64 << 20) {
        findings.problem("directory", format!("{text}: too small for a recording"), &elsewhere);
    } else if has_journals && (is_remote || time > SLOW) {
        let text = format!("{text}: journals are files mapped into memory, which may be slow on such a file system");
        findings.warning("directory", text, "NCCL_OTF2_JOURNAL_DIR (run --journal-dir) on a disk of the node");
    } else if has_journals && free.is_some_and(|free| free < most) {
        let (n, limit) = (here.processes(), units::bytes(here.config.limit_bytes()));
        findings.note(
            "directory",
            format!(
                "{text}: less than {n} × {limit}, the maximum that the processes here may \
            record; when the disk is full, recording stops"
            ),
            "set NCCL_OTF2_MAX_SIZE or NCCL_OTF2_MODE=flight, or \
            record fewer events",
        );
    } else if kind == "overlay" {
        let text = format!("{text}: lost when the container is removed");
        findings.note("directory", text, "mount a directory of the host");
    } else {
        findings.ok("directory", text);
    }
}

/// Writes as much as a process writes at a time, into an unnamed file.
fn try_writing(folder: &Path) -> std::io::Result<Duration> {
    let begin = Instant::now();
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&vec![1; SEGMENT])?;
    file.sync_all()?;
    Ok(begin.elapsed())
}

fn shared_memory(findings: &mut Findings) {
    let shm = Path::new("/dev/shm");
    match free_bytes(shm) {
        Some(bytes) if bytes >= SMALL_SHM => findings.ok("shm", format!("/dev/shm has {} free", units::bytes(bytes))),
        Some(bytes) => findings.warning(
            "shm",
            format!("/dev/shm has only {} free: NCCL may fail between processes of a host", units::bytes(bytes)),
            "use docker run --shm-size=8g or --ipc=host; remove the files of ended jobs (/dev/shm/nccl-*)",
        ),
        None => findings.warning("shm", "there is no /dev/shm: NCCL fails between processes of a host", "mount it"),
    }
}

/// Programs meant to run as process 1: they reap orphans.
const INITS: &str =
    "systemd init tini dumb-init docker-init catatonit podman-init s6-svscan runit openrc-init supervisord pause";

pub(super) fn clock(findings: &mut Findings) {
    let kernel = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let kernel = kernel.as_deref().map_or("not known", str::trim);
    let kernel = format!("the kernel's clock source is {kernel}");
    match select() {
        TickSource::Monotonic => findings.note(
            "clock",
            format!(
                "times are read with clock_gettime, because the processor's counter is not invariant or not \
                trusted ({kernel}): each callback costs some 25 ns more"
            ),
            "dmesg says why the kernel rejected the counter (clocksource)",
        ),
        source => {
            findings.ok("clock", format!("times are read from the processor's counter, {}; {kernel}", source.name()))
        }
    }
}

pub(super) fn limits(findings: &mut Findings) {
    let soft = |resource: Resource| getrlimit(resource).current;
    if let Some(bytes) = soft(Resource::Fsize) {
        let (most, needed) = (format!("files may have {} (ulimit -f)", units::bytes(bytes)), SEGMENT_BYTES as u64);
        if bytes < needed {
            let text = format!("{most}: a journal needs {}, so nothing is recorded", units::bytes(needed));
            findings.problem("limits", text, "ulimit -f unlimited");
        } else {
            let text = format!(
                "{most}: journals are limited to that, and an archive with larger files cannot be \
                written"
            );
            findings.warning("limits", text, "ulimit -f unlimited");
        }
    }
    match soft(Resource::Nofile) {
        Some(files) if files < 1024 => findings.warning(
            "limits",
            format!("{files} open files (ulimit -n): NCCL needs some for each peer"),
            "ulimit -n 65536",
        ),
        files => findings.ok(
            "limits",
            format!("{} open files", files.map_or_else(|| "unlimited".to_owned(), |files| files.to_string())),
        ),
    }
    let has_rdma = Path::new("/sys/class/infiniband").is_dir();
    match soft(Resource::Memlock) {
        Some(bytes) if has_rdma && bytes < 1 << 30 => findings.warning(
            "limits",
            format!(
                "only {} of memory can be locked (ulimit -l): NCCL fails when it registers its buffers with the \
                network adapter",
                units::bytes(bytes)
            ),
            "ulimit -l unlimited (in Slurm: PropagateResourceLimits; docker run --ulimit memlock=-1)",
        ),
        Some(bytes) => {
            let rdma = if has_rdma { "" } else { "; no RDMA adapter here needs more" };
            findings.ok("limits", format!("{} of memory can be locked{rdma}", units::bytes(bytes)));
        }
        None => findings.ok("limits", "memory can be locked without a limit"),
    }
}

pub(super) fn container(here: &Environment, findings: &mut Findings) {
    let files = ["/.dockerenv", "/run/.containerenv", "/.singularity.d"];
    let by_file = files.into_iter().find(|file| Path::new(file).exists());
    let variables = ["container", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "KUBERNETES_SERVICE_HOST"];
    let by_variable = variables.into_iter().find(|name| here.variable(name).is_some());
    let first = fs::read_to_string("/proc/1/comm").unwrap_or_default();
    let first = first.trim();
    let has_init = first.is_empty() || INITS.split(' ').any(|init| init == first);
    let Some(sign) = by_file.or(by_variable) else { return };
    if has_init {
        findings.ok("container", format!("a container ({sign}): run nccl-otf2 hang and finalize inside it"));
        return;
    }
    findings.note(
        "container",
        format!(
            "a container ({sign}) whose process 1, {first}, is not an init: processes whose parent was killed \
            stay as zombies, and a launcher may wait for them"
        ),
        "start it with an init (docker run --init); run nccl-otf2 hang and finalize inside the container",
    );
}

pub(super) fn scorep(here: &Environment, findings: &mut Findings) {
    let of_scorep =
        |name: &str, value: &str| name == "LD_PRELOAD" && value.contains("libscorep") || name.starts_with("SCOREP_");
    let variables = here.variables.pairs();
    let sign = variables.iter().find(|(name, value)| of_scorep(name, value)).map(|(name, _)| name);
    match (sign, here.config.scorep) {
        (Some(sign), ScorepMode::Off) => findings.note(
            "scorep",
            format!(
                "{sign} is set, and NCCL_OTF2_SCOREP=off: \
            NCCL is not shown to Score-P"
            ),
            "nccl-otf2 merge adds NCCL's archive to Score-P's trace afterwards",
        ),
        (Some(sign), _) => findings.note(
            "scorep",
            format!(
                "{sign} is set: in a process that Score-P measures, NCCL \
            calls are also in Score-P's trace, besides this project's archive"
            ),
            "set NCCL_OTF2_SCOREP=off if you are \
            going to merge both (docs/SCOREP.md)",
        ),
        (None, ScorepMode::On) => findings.warning(
            "scorep",
            "NCCL_OTF2_SCOREP=on, but no sign of a Score-P \
            measurement here",
            "start an instrumented program, or unset the variable",
        ),
        (None, _) => {}
    }
}

/// Predicts what a recording with an NCCL library would be like.
pub(super) fn predict_recording(here: &Environment, found: &FoundLibrary, findings: &mut Findings) -> NcclRow {
    let FoundLibrary { library, nccl, by } = found;
    let (release, path) = (&nccl.release, library.path.display());
    let name = if nccl.is_rccl { "RCCL" } else { "NCCL" };
    let cuda = nccl.cuda.as_ref().map_or_else(String::new, |cuda| format!(" for CUDA {cuda}"));
    let text = format!("{name} {release}{cuda} in {path} ({by})");
    let mut row = NcclRow {
        path: path.to_string(),
        found_by: by.clone(),
        is_rccl: nccl.is_rccl,
        release: release.clone(),
        cuda: nccl.cuda.clone(),
        table: nccl.called().map_or(0, Table::number),
        plugin_names: Vec::new(),
        plugin: None,
        profiler: None,
        unreported: Vec::new(),
    };
    let Some(table) = nccl.called() else {
        let text = format!("{text} has no profiler plugins: it cannot be recorded");
        findings.problem("nccl", text, "NCCL 2.23 or later");
        return row;
    };
    if nccl.is_rccl {
        let text = format!("{text}: table {table} is used, according to RCCL's sources; not tested");
        findings.warning("nccl", text, "see docs/RELEASES.md §3; verify the archive with nccl-otf2 check");
    } else {
        findings.ok("nccl", format!("{text}: table {table} is used"));
        row.unreported = unreported_by_release(nccl.number, here.config.mask, allgatherv_off(here));
        broadcasts(here, nccl, findings);
        known_problems(here, nccl, table, findings);
    }
    if nccl.table > table.number() {
        let text =
            format!("{name} {release} has table v{}, newer than this plugin's {table}: NCCL translates", nccl.table);
        findings.note("nccl", text, "look for a newer version of this project");
    }
    slot(here, library, nccl.number, &mut row, findings);
    row
}

fn allgatherv_off(here: &Environment) -> bool {
    here.variable(versions::ALLGATHERV_VARIABLE).is_some_and(versions::turns_allgatherv_off)
}

fn broadcasts(here: &Environment, nccl: &Nccl, findings: &mut Findings) {
    match nccl.number >= versions::FIRST_WITH_ALLGATHERV {
        false => {}
        true if allgatherv_off(here) => findings.ok("events", versions::ALLGATHERV_WORKAROUND),
        true => {
            let text = "calls of ncclBroadcast will be recorded, but not the operations and their network traffic";
            findings.note("events", format!("NCCL {}: {text}", nccl.release), versions::ALLGATHERV_WORKAROUND);
        }
    }
}

fn known_problems(here: &Environment, nccl: &Nccl, table: Table, findings: &mut Findings) {
    let release = &nccl.release;
    if here.config.mask & Kind::KernelCh.mask() != 0 && event::has(table, Kind::KernelCh) {
        let text =
            format!("kernel channels are to be recorded: {}", kernel_channels(nccl.number, allgatherv_off(here)));
        findings.warning("events", text, "NCCL_OTF2_EVENTS=standard leaves them out");
        if let Some(bytes) = free_bytes(Path::new("/dev/shm")).filter(|bytes| *bytes < SMALL_SHM) {
            findings.warning(
                "events",
                format!(
                    "kernel channels with only {} free in /dev/shm: NCCL may crash in ncclLocalOpAppend",
                    units::bytes(bytes)
                ),
                "use a larger /dev/shm (docker run --shm-size=8g), or NCCL_OTF2_EVENTS=standard",
            );
        }
    }
    if (22_703..22_800).contains(&nccl.number)
        && let Some(plugin) = here.variable("NCCL_NET_PLUGIN").filter(|plugin| *plugin != "none")
    {
        let text = format!(
            "NCCL_NET_PLUGIN={plugin}: NCCL {release} crashes with any profiler if a network plugin that reports \
            events merges messages of a group"
        );
        findings.warning("events", text, "NCCL 2.28 or later, or a network plugin without profiler events");
    }
    if !table.properties().describes_communicators {
        findings.note(
            "events",
            format!(
                "NCCL {release} gives plugins neither a log nor names and sizes of communicators; only the \
                launcher says which process is the last"
            ),
            "NCCL_OTF2_VERBOSITY=verbose shows on stderr what is recorded; nccl-otf2 finalize makes the archive if no \
            process knows that it is the last",
        );
    }
}

/// Checks the driver, CUPTI, and the tools that compete for them.
pub(super) fn timing(here: &Environment, found: &[FoundLibrary], findings: &mut Findings) {
    let settings = &here.config.gpu;
    if settings.backend == BackendChoice::Off {
        let text = "NCCL_OTF2_GPU=off: GPU work is not timed, and the trace does not name the GPUs";
        findings.note("gpu", text, "");
        return;
    }
    let reports_launches =
        |one: &FoundLibrary| one.nccl.called().is_some_and(|table| event::has(table, Kind::KernelLaunch));
    if here.config.mask & Kind::KernelLaunch.mask() == 0 {
        let text = "NCCL_OTF2_EVENTS leaves out KernelLaunch: GPU work is not timed";
        findings.note("gpu", text, "NCCL_OTF2_EVENTS=light or more");
    } else if !found.is_empty() && !found.iter().any(reports_launches) {
        findings.note("gpu", "GPU work is not timed: NCCL reports its launches from 2.28 on", "");
    }
    driver(here, findings);
    let cupti = cupti(here, found);
    let torch = found.iter().filter_map(|one| torch_beside(&one.library.path));
    let files: Vec<String> = torch.map(|file| file.display().to_string()).collect();
    let other = other_user(&files, &here.variables.pairs(), false);
    let wants_cupti = settings.backend == BackendChoice::Cupti;
    let is_timed_by_cupti = match settings.backend {
        BackendChoice::Cupti => cupti.is_some(),
        BackendChoice::Auto => cupti.is_some() && other.is_none(),
        BackendChoice::Events | BackendChoice::Off => false,
    };
    let backend = if is_timed_by_cupti { Backend::Cupti } else { Backend::Events };
    if let Some(line) = without_all_kernels(settings.kernels, backend) {
        findings.warning("cupti", line, "NCCL_OTF2_GPU=cupti NCCL_OTF2_CUPTI_KERNELS=all");
    }
    match (cupti, other) {
        (_, Some((who, sign))) if wants_cupti => findings.warning(
            "cupti",
            format!("NCCL_OTF2_GPU=cupti: {who} may use CUPTI too ({sign}), and one of the two may get nothing"),
            "NCCL_OTF2_GPU=events disturbs no tool",
        ),
        (_, Some((who, sign))) => findings.note(
            "cupti",
            format!("GPU work is timed by CUDA events, because {who} may use CUPTI ({sign})"),
            "NCCL_OTF2_GPU=cupti uses CUPTI regardless",
        ),
        (Some(file), None) => findings.ok("cupti", format!("{} can be used", file.display())),
        (None, None) => findings.note(
            "cupti",
            "no libcupti was found: if there is a driver, GPU work is timed by CUDA events",
            "set NCCL_OTF2_CUPTI_LIB to the file of CUPTI's library",
        ),
    }
}

fn driver(here: &Environment, findings: &mut Findings) {
    let kernel = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let kernel =
        kernel.split_whitespace().find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()));
    match (here.loader.find("libcuda.so.1"), kernel) {
        (Some(file), _) if file.components().any(|part| part.as_os_str() == "stubs") => findings.problem(
            "gpu",
            format!("{} is the stub of a CUDA toolkit, not the driver", file.display()),
            "remove its directory from LD_LIBRARY_PATH",
        ),
        (Some(file), Some(release)) => findings.ok("gpu", format!("driver {release}, {}", file.display())),
        (Some(file), None) => findings.note("gpu", format!("{} is here, but the NVIDIA kernel module is not loaded", file.display()), "run the doctor where the job runs"),
        (None, _) => findings.note("gpu", "the loader finds no GPU driver (libcuda.so.1)", "on a login node: run the doctor where the job runs (srun nccl-otf2 doctor); in a container: start it with its GPUs (--gpus all, --nv)"),
    }
}

fn cupti(here: &Environment, found: &[FoundLibrary]) -> Option<PathBuf> {
    let search = Search {
        explicit: here.config.gpu.cupti_library.as_ref().map(PathBuf::from),
        cuda_home: here.variable("CUDA_HOME").map(PathBuf::from),
    };
    let libraries = found.iter().map(|one| one.library.path.clone());
    let places = cupti_sys::load::places(&search, &Mapped::from_files(libraries.collect()));
    places.iter().filter_map(|place| place.to_str()).find_map(|place| here.loader.find(place))
}

fn torch_beside(library: &Path) -> Option<PathBuf> {
    let files = library.ancestors().skip(1).map(|folder| folder.join("torch/lib/libtorch_cuda.so"));
    files.take(5).find(|file| file.is_file())
}
